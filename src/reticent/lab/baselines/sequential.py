"""Baselines of the paper that train one model task after task: Naive, and Desai et al. (2021) with a memory buffer.

Non-continual training on all data needs nothing of its own: it is `PeftEnsemble` with one task.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.budget import Budget
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.labels import LabelSpace
from reticent.numerics.progress import Bar
from reticent.policies import Policy, PublicLabels
from reticent.privacy import events
from reticent.released.ensemble import ROWS, Ensemble
from reticent.released.model import Encode, Scorer
from reticent.released.release import Release
from reticent.sensitive import dpsgd
from reticent.sensitive.dpsgd import Floats, Ints, Parameters
from reticent.sensitive.learners.peft import PeftEnsemble, gradients_of, prepared, refuse_untrainable
from reticent.sensitive.task import Task

BUFFER = "memory buffer"  # its name in the ledger


@dataclass(frozen=True)
class Latest:
    """Only the last release counts: one model that was trained further by each task."""

    inner: Ensemble

    def scorer(self, releases: Sequence[Release], labels: LabelSpace) -> Scorer:
        """Returns the last model."""
        return self.inner.scorer(releases[-1:], labels)

    def to_json(self) -> dict[str, Any]:
        """Returns a rule that `load` refuses: this is for experiments."""
        return {"kind": "latest"}


@dataclass(frozen=True)
class Naive:
    """Sequential fine-tuning: each task trains the model further and forgets what came before. Private.

    Args:
        learner: What trains a task.
    """

    learner: PeftEnsemble

    @property
    def rule(self) -> Latest:
        """The last model alone."""
        return Latest(self.learner.rule)

    def learn_task(
        self,
        task: Task,
        policy: Policy,
        *,
        known: LabelSpace,
        encoder: Encode | None,
        budget: Budget,
        ledger: Ledger,
        rng: NoiseSource,
        past: Sequence[Release] = (),
    ) -> Release:
        """Trains the model of the task before further."""
        learner = self.learner.resolved(encoder)
        refuse_untrainable(learner.adapter, encoder)
        inputs = prepared(learner, task.inputs, encoder, past)
        event = learner.calibrate(events.Public(), budget, rate=learner.rate or 1.0, steps=learner.steps)
        ledger.spend(event, task=task.name, private=rng.private)
        at = public_rows(policy, task.labels, known)
        gradients = gradients_of(learner, inputs, at, len(known), encoder)
        start = _model(past, gradients.start)
        with Bar("Training") as bar:
            parameters = dpsgd.train(
                gradients,
                len(at),
                learner.training(event),
                rng=rng,
                engine=learner.engine,
                progress=bar.show,
                start=start,
            )
        return _release(task.name, known, parameters, event, rng)


@dataclass(frozen=True)
class Desai:
    """Desai et al. (2021) as the paper enhances it: gradients projected on those of a memory buffer.

    NOT PRIVATE as a system: the buffer keeps raw examples of every task, beyond the task. Released parameters are
    (epsilon, delta)-DP by the paper's accounting, which takes the split into training and buffer as independent for
    each example; a fixed share of every class is not, as the paper has it and as we do here.

    Args:
        learner: What trains a task.
        tasks: Length of the stream: buffer gradients are drawn in all but the first.
        share: Part of each class that goes to the buffer and not into training.
        seed: Of the choice.
    """

    learner: PeftEnsemble
    tasks: int
    share: float = 0.1
    seed: int = 0
    buffer: list[tuple[list[object], list[int]]] = field(default_factory=list, repr=False, compare=False)

    @property
    def rule(self) -> Latest:
        """The last model alone."""
        return Latest(self.learner.rule)

    @property
    def statement(self) -> str:
        """What the budget does not cover."""
        return (
            "Not covered: a memory buffer keeps raw examples of every task, so this is for experiments only. Its "
            "gradients are paid for; the buffer itself is not private state."
        )

    def events(self, budget: Budget, *, rate: float, steps: int) -> tuple[events.DpSgd, events.DpSgd]:
        """Returns what training a task costs, and what the buffer costs over the whole stream.

        Training examples take part in one task: `steps` steps. Buffer examples take part in the gradients of all
        later tasks: (T - 1) x steps. Nobody is in both, so each is calibrated to the budget by itself.
        """
        calibrate, public = self.learner.calibrate, events.Public()
        training = calibrate(public, budget, rate=rate, steps=steps)
        return training, calibrate(public, budget, rate=rate, steps=max(1, self.tasks - 1) * steps)

    def learn_task(
        self,
        task: Task,
        policy: Policy,
        *,
        known: LabelSpace,
        encoder: Encode | None,
        budget: Budget,
        ledger: Ledger,
        rng: NoiseSource,
        past: Sequence[Release] = (),
    ) -> Release:
        """Trains the model of the task before further, without raising the buffer's loss; then adds to the buffer."""
        learner = self.learner.resolved(encoder)
        refuse_untrainable(learner.adapter, encoder)
        rate = learner.rate or 1.0
        training, memory = self.events(budget, rate=rate, steps=learner.steps)
        if not self.buffer:
            ledger.spend(memory, task=BUFFER, private=False)
        ledger.spend(training, task=task.name, private=False)
        at = public_rows(policy, task.labels, known)
        kept = self._split(at)
        inputs = task.inputs
        mine = gradients_of(learner, prepared(learner, _take(inputs, ~kept), encoder), at[~kept], len(known), encoder)
        start = _model(past, mine.start)
        if not self.buffer:
            parameters = dpsgd.train(mine, int((~kept).sum()), learner.training(training), rng=rng, start=start)
        else:
            old = [x for part, _ in self.buffer for x in part]
            labels = np.array([y for _, part in self.buffer for y in part], dtype=np.int64)
            theirs = gradients_of(learner, prepared(learner, _as(inputs, old), encoder), labels, len(known), encoder)
            reference = learner.training(
                events.DpSgd(noise_multiplier=memory.noise_multiplier, rate=rate, steps=learner.steps)
            )
            settings = dpsgd.Training(**{**vars(reference), "batch": max(1.0, rate * len(old))})
            engine = dpsgd.Engine(prefetch=False)
            first = dpsgd.noisy_means(mine, int((~kept).sum()), learner.training(training), rng=rng, engine=engine)
            second = dpsgd.noisy_means(theirs, len(old), settings, rng=rng, engine=engine)
            point = dpsgd.flattened(start)
            update = learner.training(training).optimizer.update(len(point))
            for _ in range(learner.steps):
                update(point, projected(first(point), second(point)))
            parameters = dpsgd.unflattened(point, start)
        self.remember(inputs, at)
        return _release(task.name, known, parameters, events.compose(training), rng)

    def remember(self, inputs: Any, at: Ints) -> None:
        """Adds a task's share to the buffer: after training it, or to go on where a run was stopped."""
        rows = np.flatnonzero(self._split(at)).tolist()
        self.buffer.append(([inputs[i] for i in rows], at[rows].tolist()))

    def _split(self, at: Ints) -> npt.NDArray[np.bool_]:
        """Says which examples go to the buffer: a share of each class, drawn at random."""
        draw = np.random.default_rng([self.seed, len(self.buffer)])
        kept = np.zeros(len(at), dtype=np.bool_)
        for label in np.unique(at[at >= 0]):
            rows = np.flatnonzero(at == label)
            kept[draw.permutation(rows)[: round(self.share * len(rows))]] = True
        return kept


def projected(gradient: Floats, reference: Floats) -> Floats:
    """Step 15 of Algorithm 1: takes away what would raise the loss of the buffer. Post-processing.

    >>> projected(np.array([1.0, -1.0]), np.array([0.0, 2.0])).tolist()
    [1.0, 0.0]
    """
    product = float(gradient @ reference)
    if product >= 0:
        return gradient
    return gradient - product / float(reference @ reference) * reference


def public_rows(policy: Policy, labels: Sequence[object], known: LabelSpace) -> Ints:
    """Returns the row of each example's label in the one head that all tasks share; -1 drops it."""
    if not isinstance(policy, PublicLabels):
        raise errors.InvalidValue("Expected public labels: one head serves all tasks.")
    return policy.rows(labels, known)


def _model(past: Sequence[Release], start: Parameters) -> Parameters:
    """Returns the model so far, in the order that gradients have: a release that was stored has another."""
    learned = [release for release in past if release.parameters]
    if not learned:
        return start
    return {name: np.asarray(learned[-1].parameters[name], np.float32) for name in start}


def _release(
    name: str, known: LabelSpace, parameters: dict[str, npt.NDArray[np.float32]], event: events.Event, rng: NoiseSource
) -> Release:
    rows = np.arange(len(known), dtype=np.int32)
    return Release(
        task=name, labels=LabelSpace(()), parameters={ROWS: rows, **parameters}, event=event, private=rng.private
    )


def _take(inputs: Any, kept: npt.NDArray[np.bool_]) -> Any:
    return inputs[kept] if isinstance(inputs, np.ndarray) else [x for x, keep in zip(inputs, kept, strict=True) if keep]


def _as(inputs: Any, rows: list[object]) -> Any:
    """Returns stored examples in the form that a task's inputs have."""
    return np.array(rows) if isinstance(inputs, np.ndarray) else rows
