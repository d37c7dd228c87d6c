"""Compares learners by simulation on public or proxy data, at no cost, before any sensitive data is touched."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reticent import errors
from reticent.budget import Budget
from reticent.classifier import ContinualClassifier
from reticent.gate.noise import NoiseSource
from reticent.lab.data.streams import Stream
from reticent.lab.evaluation import AccuracyMatrix
from reticent.labels import in_public_order
from reticent.numerics.containers import opened
from reticent.numerics.rows import take
from reticent.policies import Policy, PublicLabels
from reticent.released.model import Encode
from reticent.sensitive.learners import Cosine, Learner, PeftEnsemble

_HELD_OUT = 0.2


@dataclass(frozen=True)
class Trial:
    """How one learner did.

    Args:
        learner: Its name.
        accuracy: Average accuracy over all tasks after the last one.
        forgetting: Mean loss of accuracy on earlier tasks.
        seconds: Training time of the whole stream here.
        storage: Bytes of all releases.
    """

    learner: str
    accuracy: float
    forgetting: float
    seconds: float
    storage: int


@dataclass(frozen=True)
class Comparison:
    """The trials of a comparison, best first."""

    trials: tuple[Trial, ...]

    @property
    def best(self) -> str:
        """The learner with the highest accuracy."""
        return self.trials[0].learner

    def json(self) -> dict[str, Any]:
        """Returns the comparison as plain JSON values."""
        return {"best": self.best, "trials": [asdict(trial) for trial in self.trials]}

    def __str__(self) -> str:
        lines = [f"{'learner':<24} accuracy  forgetting  seconds  storage"]
        lines += [
            f"{t.learner:<24} {t.accuracy:>8.1%}  {t.forgetting:>10.1%}  {t.seconds:>7.1f}  {t.storage / 1024:>5.0f} kB"
            for t in self.trials
        ]
        return "\n".join(lines)


def compare(
    proxy: tuple[Any, Sequence[object]],
    budget: Budget,
    tasks: int,
    *,
    learners: Mapping[str, Learner] | None = None,
    labels: Policy | None = None,
    encoder: Encode | None = None,
    seed: int = 0,
) -> Comparison:
    """Simulates a stream on public or proxy data with each learner, as the paper recommends. NOT for sensitive data.

    A fifth is held out for testing; the rest is split into tasks of disjoint labels, in random order. Noise is drawn
    from a seed, so nothing here may be published as private.

    Args:
        proxy: Inputs and labels that look like what is to come, and are public.
        budget: Of the stream to come.
        tasks: How many tasks.
        learners: By name; `Cosine()` and `PeftEnsemble(...)` by default.
        labels: The label policy to come; all labels of the proxy as public by default.
        encoder: The encoder to come; None where inputs are features.
        seed: Of split, order and noise.

    Example:
        >>> x = np.repeat(np.eye(4), 200, axis=0)
        >>> compare((x, [0, 1, 2, 3] * 200), Budget(epsilon=2.0, delta=1e-5), 2).best in ("cosine", "peft")
        True
    """
    inputs, names = proxy
    if len(inputs) != len(names) or not len(names):
        raise errors.InvalidValue("Expected a proxy of as many labels as inputs, and at least one.")
    everything = np.asarray(names)
    stream = Stream(tasks=tasks, seed=seed)
    task = stream.tasks_of(everything)
    held_out = np.random.default_rng([seed, 1]).random(len(everything)) < _HELD_OUT
    policy = PublicLabels(in_public_order(set(everything.tolist()))) if labels is None else labels
    size = max(1, math.ceil((~held_out).sum() / tasks))
    features, learners = _prepared(inputs, encoder, learners, size)
    trials = [
        _trial(name, learner, features[name], everything, task, held_out, tasks, policy, budget, encoder, seed)
        for name, learner in learners.items()
    ]
    return Comparison(tuple(sorted(trials, key=lambda trial: -trial.accuracy)))


def _prepared(
    inputs: Any,
    encoder: Encode | None,
    learners: Mapping[str, Learner] | None,
    size: int,
) -> tuple[dict[str, Any], Mapping[str, Learner]]:
    """Returns the inputs of each learner: features encoded once for all that need no gradients through the encoder."""
    if learners is None:
        learners = {"cosine": Cosine(), "peft": PeftEnsemble(task_size=size)}
    through = {n: encoder is not None and _goes_through(learner, encoder) for n, learner in learners.items()}
    raw = list(inputs)
    encoded = None if all(through.values()) else np.asarray(opened(inputs) if encoder is None else encoder(raw))
    return {name: raw if through[name] else encoded for name in learners}, learners


def _goes_through(learner: Learner, encoder: Encode) -> bool:
    from reticent.encoders.adapters import last_layer

    return isinstance(learner, PeftEnsemble) and learner.resolved(encoder).adapter != last_layer


def _trial(
    name: str,
    learner: Learner,
    inputs: Any,
    labels: Any,
    task: Any,
    held_out: Any,
    tasks: int,
    policy: Policy,
    budget: Budget,
    encoder: Encode | None,
    seed: int,
) -> Trial:
    model = ContinualClassifier(
        encoder=encoder if isinstance(inputs, list) else None,
        labels=policy,
        learner=learner,
        budget=budget,
        noise=NoiseSource.seeded(seed),
    )
    values = np.full((tasks, tasks), np.nan)
    seconds = 0.0
    for t in range(tasks):
        mine = (task == t) & ~held_out
        started = time.perf_counter()
        with errors.silenced():  # that no label is known is a result here
            model.learn_task(take(inputs, mine), labels[mine].tolist(), name=f"task {t + 1}")
        seconds += time.perf_counter() - started
        for i in range(t + 1):
            test = (task == i) & held_out
            values[t, i] = model.score(take(inputs, test), labels[test].tolist()) if test.any() else 0.0
    matrix = AccuracyMatrix(values)
    storage = sum(value.nbytes for release in model.releases for value in release.parameters.values())
    return Trial(name, matrix.average_accuracy, matrix.forgetting, seconds, storage)
