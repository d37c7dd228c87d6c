"""One trial: settings of a candidate, trained on one part of the examples and scored on another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.adapters import last_layer
from reticent.labels import LabelSpace
from reticent.numerics.rows import take
from reticent.policies import PublicLabels
from reticent.privacy import events
from reticent.released.aggregate import argmax
from reticent.released.heads import ROWS
from reticent.released.model import Encode, Model
from reticent.released.release import Release
from reticent.sensitive.learners.learner import encoded
from reticent.sensitive.learners.peft import PeftEnsemble, gradients_of, prepared, refuse_untrainable
from reticent.sensitive.task import Task
from reticent.sensitive.training import Draws, train

LEARNING_RATES = (1e-7, 1e-2)
CLIP_NORMS = (0.2, 10.0)
LEAST_BATCH = 10
TUNING_SHARE = 0.7

Inputs = Sequence[object] | npt.NDArray[Any]
Accuracy = Callable[[PeftEnsemble, events.DpSgd, Draws], float]


@dataclass(frozen=True)
class TrialExamples:
    """Inputs, and the row of each one's label in the label space; -1 for none."""

    inputs: Inputs
    places: npt.NDArray[np.int64]

    def __repr__(self) -> str:
        return "TrialExamples(<sensitive>)"

    @classmethod
    def of(cls, task: Task, policy: PublicLabels) -> "TrialExamples":
        """Returns the examples of a task under public labels."""
        return cls(task.inputs, policy.rows(task.labels, policy.space))

    def at(self, rows: npt.NDArray[np.int64]) -> "TrialExamples":
        """Returns some of the examples."""
        return TrialExamples(take(self.inputs, rows), self.places[rows])

    def encoded(self, encoder: Encode | None) -> "TrialExamples":
        """Returns the examples with features as inputs."""
        return TrialExamples(encoded(self.inputs, encoder, ()), self.places)


def accuracy_of(
    learner: PeftEnsemble, part: TrialExamples, rest: TrialExamples, space: LabelSpace, encoder: Encode | None
) -> Accuracy:
    """Returns a function that trains on one part and scores on the rest; features are computed once."""
    if learner.adapter == last_layer:
        part, rest, encoder = part.encoded(encoder), rest.encoded(encoder), None
    gradients = gradients_of(learner, prepared(learner, part.inputs, encoder), part.places, len(space), encoder)
    rows = np.arange(len(space), dtype=np.int32)

    def accuracy(candidate: PeftEnsemble, event: events.DpSgd, permit: Draws) -> float:
        found = train(gradients, candidate.training(event), permit, engine=candidate.engine)
        # only scored, never published; so its event and privacy flag do not matter
        release = Release(
            task="trial", labels=LabelSpace(()), parameters={ROWS: rows, **found}, event=event, private=False
        )
        # one head: nothing is to be pooled
        best, _ = Model(space, replace(candidate.rule, aggregate=argmax), (release,)).top(rest.inputs, encoder, 1)
        return float(np.mean(best[:, 0] == rest.places))

    return accuracy


def ranges(learner: PeftEnsemble) -> tuple[tuple[int, int], tuple[float, float], tuple[float, float]]:
    """Batch, learning rate and clipping norm, all on logarithmic scales."""
    return (least_batch(learner), learner.task_size), LEARNING_RATES, CLIP_NORMS


def least_batch(learner: PeftEnsemble) -> int:
    """Returns the smallest batch that is tried."""
    return min(LEAST_BATCH, learner.task_size)


def candidate_with(learner: PeftEnsemble, batch: int, learning_rate: float, clip_norm: float) -> PeftEnsemble:
    """Returns the learner with other settings."""
    return replace(learner, rate=batch / learner.task_size, learning_rate=learning_rate, clip_norm=clip_norm)


def resolved(learner: PeftEnsemble, encoder: Encode | None) -> PeftEnsemble:
    """Returns the learner with all settings filled in; refuses what cannot be tuned."""
    if not isinstance(learner, PeftEnsemble):
        raise errors.InvalidValue("Expected a PeftEnsemble: other learners have nothing to tune.")
    resolved = learner.resolved(encoder)
    refuse_untrainable(resolved.adapter, encoder)
    return resolved


def refuse_missing(labels: object) -> None:
    """Refuses a call without labels."""
    if labels is None:
        raise errors.InvalidValue("Expected labels: tuning compares predictions with them.")
