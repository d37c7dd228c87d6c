"""Baselines of the paper that train one model task after task: Naive, and Desai et al. (2021) with a memory buffer.

Non-continual training on all data needs nothing of its own: it is `PeftEnsemble` with one task.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.budget import Budget
from reticent.gate.gate import Gate
from reticent.gate.step import Floats, Ints, Parameters, flattened, split
from reticent.labels import LabelSpace
from reticent.numerics.progress import Bar
from reticent.numerics.rows import take
from reticent.policies import Policy, PublicLabels
from reticent.privacy import events
from reticent.released.aggregate import argmax
from reticent.released.ensemble import Ensemble
from reticent.released.heads import ROWS
from reticent.released.model import Encode, Scorer
from reticent.released.release import Past, Release
from reticent.sensitive.learners.peft import PeftEnsemble, gradients_of, prepared, refuse_untrainable
from reticent.sensitive.task import Task
from reticent.sensitive.training import Engine, noisy_means, train

BUFFER = "memory buffer"  # its name in the ledger


@dataclass(frozen=True)
class Latest:
    """Only the last release counts: one model that was trained further by each task."""

    inner: Ensemble

    def scorer(self, releases: Sequence[Release], labels: LabelSpace) -> Scorer:
        """Returns the last model."""
        return replace(self.inner, aggregate=argmax).scorer(releases[-1:], labels)

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
        self, task: Task, policy: Policy, *, known: LabelSpace, encoder: Encode | None, gate: Gate, past: Past = ()
    ) -> Release:
        """Trains the model of the task before further."""
        learner = self.learner.resolved(encoder)
        refuse_untrainable(learner.adapter, encoder, past)
        task = gate.admit(task)
        inputs = prepared(learner, task.inputs, encoder, past)
        event = learner.calibrate(events.Public(), gate.budget, rate=learner.rate or 1.0, steps=learner.steps)
        settings, at = learner.training(event), public_rows(policy, task.labels, known)
        permit = gate.spend(event, task=task.name)
        gradients = gradients_of(learner, inputs, at, len(known), encoder)
        start = _model(past, gradients.start)
        with Bar("Training") as bar:
            parameters = train(gradients, settings, permit, engine=learner.engine, progress=bar.show, start=start)
        return permit.release(parameters=_parameters(known, parameters))


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
        later tasks: (T - 1) x steps, of which each task spends its own. No person is in both, so each is calibrated
        to the budget by itself.
        """
        calibrate, public = self.learner.calibrate, events.Public()
        training = calibrate(public, budget, rate=rate, steps=steps)
        return training, calibrate(public, budget, rate=rate, steps=max(1, self.tasks - 1) * steps)

    def learn_task(
        self, task: Task, policy: Policy, *, known: LabelSpace, encoder: Encode | None, gate: Gate, past: Past = ()
    ) -> Release:
        """Trains the model of the task before further, without raising the buffer's loss; then adds to the buffer."""
        learner = self.learner.resolved(encoder)
        refuse_untrainable(learner.adapter, encoder, past)
        task = gate.admit(task)
        rate, steps = learner.rate or 1.0, learner.steps
        training, memory = self.events(gate.budget, rate=rate, steps=steps)
        step = replace(memory, steps=steps)
        at = public_rows(policy, task.labels, known)
        recalled = gate.spend(step, task=BUFFER, private=False) if self.buffer else None
        permit = gate.spend(training, task=task.name, private=False)
        kept = self._split(at)
        inputs = task.inputs
        mine = gradients_of(learner, prepared(learner, take(inputs, ~kept), encoder), at[~kept], len(known), encoder)
        start = _model(past, mine.start)
        if recalled is None:
            parameters = train(mine, learner.training(training), permit, start=start)
        else:
            old = [x for part, _ in self.buffer for x in part]
            labels = np.array([y for _, part in self.buffer for y in part], dtype=np.int64)
            theirs = gradients_of(learner, prepared(learner, _as(inputs, old), encoder), labels, len(known), encoder)
            reference = replace(learner.training(step), batch=max(1.0, rate * len(old)))
            engine = Engine(prefetch=False)
            first = noisy_means(mine, learner.training(training), permit, engine=engine)
            second = noisy_means(theirs, reference, recalled, engine=engine)
            point = flattened(start)
            update = learner.training(training).optimizer.update(len(point))
            for _ in range(steps):
                update(point, projected(first(point), second(point)))
            parameters = split(point, start, np.float32)
        self.remember(inputs, at)
        return permit.release(parameters=_parameters(known, parameters))

    def remember(self, inputs: Any, at: Ints) -> None:
        """Adds a task's share to the buffer: after training it, or to resume a run that was stopped."""
        rows = np.flatnonzero(self._split(at)).tolist()
        self.buffer.append(([inputs[i] for i in rows], at[rows].tolist()))

    def _split(self, at: Ints) -> npt.NDArray[np.bool_]:
        """Returns which examples go to the buffer: a share of each class, drawn at random."""
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


def _model(past: Past, start: Parameters) -> Parameters:
    """Returns the model so far, in the order that gradients have: a release that was stored has another."""
    learned = [release for release in past if release.parameters]
    if not learned:
        return start
    return {name: np.asarray(learned[-1].parameters[name], np.float32) for name in start}


def _parameters(
    known: LabelSpace, trained: dict[str, npt.NDArray[np.float32]]
) -> dict[str, npt.NDArray[np.float32] | npt.NDArray[np.int32]]:
    return {ROWS: np.arange(len(known), dtype=np.int32), **trained}


def _as(inputs: Any, rows: list[object]) -> Any:
    """Returns stored examples in the form that a task's inputs have."""
    return np.array(rows) if isinstance(inputs, np.ndarray) else rows
