"""Cosine: noisy per-class sums of unit features. The paper's Cosine Classifier, and ours beside it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.budget import Budget
from reticent.gate import grid, label_sums
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import GaussianSum, JointGaussian, SelectLabels
from reticent.gate.noise import NoiseSource
from reticent.gate.sparse import SparseGaussian, SparseSums
from reticent.labels import Label, LabelSpace
from reticent.policies import Policy, PublicLabels
from reticent.privacy import events
from reticent.released import denoise
from reticent.released.model import Encode, learned_rows
from reticent.released.release import Release
from reticent.released.sums import Sums
from reticent.sensitive.learners.learner import encoded
from reticent.sensitive.task import Task


@dataclass(frozen=True)
class Cosine:
    """Class sums of unit features with Gaussian noise; predictions by cosine.

    Guarantees (with the budget's assumptions):
      - One spend, before anything is drawn.                                    test_spend_comes_before_the_draw
      - An empty task releases like any other.                                  test_empty_task_is_learned
      - What is released differs between neighbouring data sets in noisy values only.
                                                                                test_neighbours_differ_in_values_only

    Args:
        combine: How the tasks' sums become one weight vector per label.
        keep_all: Publish the noisy sums of all public labels, however many; else beyond 2,000 labels only those that
            stand out from the noise, and of labels that did before.

    Example:
        >>> Cosine() == Cosine.paper()
        False
    """

    combine: denoise.Combine = denoise.rank_one
    keep_all: bool = False

    @classmethod
    def paper(cls) -> "Cosine":
        """The paper's algorithm: noisy sums of every label, added up, plain cosine."""
        return cls(combine=denoise.total, keep_all=True)

    @property
    def rule(self) -> Sums:
        """Sums, combined."""
        return Sums(self.combine)

    def to_json(self) -> dict[str, Any]:
        """Returns the learner as plain JSON values."""
        return {**self.rule.to_json(), "kind": "cosine", "keep_all": self.keep_all}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Cosine":
        """Returns the learner that `to_json` wrote."""
        return cls(Sums.from_json(value).combine, value["keep_all"])

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
        """Releases the noisy sums of known labels, and new labels as the policy says."""
        name = task.name
        task = task.capped(budget.examples_per_person)
        features = encoded(task.inputs, encoder, past)
        if isinstance(policy, PublicLabels):
            gaussian = policy.sums(budget)
            ledger.spend(gaussian, task=name, private=rng.private)
            places = [policy.resolve(label, known) for label in task.labels]
            if self.keep_all:
                return noisy_sums(features, places, known, LabelSpace(()), gaussian, gaussian, name, rng)
            return _public(features, places, known, SparseGaussian(gaussian, len(known), learned_rows(past)), name, rng)
        if policy.selection is None:
            joint = policy.joint(budget)
            ledger.spend(joint, task=name, private=rng.private)
            return _joint(features, task.labels, known, joint, name, rng)
        chosen, gaussian = policy.selection_and_sums(budget)
        event = events.compose(chosen, gaussian)
        ledger.spend(event, task=name, private=rng.private)
        counts = label_sums.count_by_label(task.labels)
        if policy.remember:  # what is known needs no second release
            counts = {label: n for label, n in counts.items() if label not in known}
        released = SelectLabels(chosen)(counts, rng=rng)
        new = LabelSpace(tuple(label for label in released if label not in known), event)
        updated = None if policy.remember else set(released)
        return noisy_sums(features, task.labels, known, new, gaussian, event, name, rng, updated=updated)


def _public(
    features: npt.NDArray[np.floating],
    places: Sequence[Label | None],
    known: LabelSpace,
    mechanism: SparseGaussian,
    name: str,
    rng: NoiseSource,
) -> Release:
    """Sums only what has examples; the mechanism draws for all other labels as if they had been summed too."""
    rows = sorted({known.row(place) for place in places if place is not None})
    found = LabelSpace(tuple(known.labels[row] for row in rows))
    exact = label_sums.sum_by_label(features, places, known=found, count_weight=0.0)
    kept = mechanism(SparseSums(np.array(rows, dtype=np.int64), exact.known), rng=rng)
    noise = np.full(len(kept.rows), mechanism.event.noise_multiplier)
    return _release(name, LabelSpace(()), kept.sums / grid.SCALE, noise, kept.rows, mechanism.event, rng)


def _joint(
    features: npt.NDArray[np.floating],
    labels: Sequence[object],
    known: LabelSpace,
    event: events.JointGaussian,
    name: str,
    rng: NoiseSource,
) -> Release:
    exact = label_sums.sum_by_label(features, labels, known=known, count_weight=event.count_weight)
    noisy = JointGaussian(event)(exact, rng=rng)
    weight = math.sqrt(1 - event.count_weight)
    sums = np.concatenate([noisy.known / grid.SCALE, noisy.vectors / (grid.SCALE * weight)])
    noise = np.full(len(sums), event.noise_multiplier)
    noise[len(known) :] /= weight
    return _release(name, LabelSpace(noisy.released, event), sums, noise, np.arange(len(sums)), event, rng)


def noisy_sums(
    features: npt.NDArray[np.floating],
    labels: Sequence[object],
    known: LabelSpace,
    new: LabelSpace,
    gaussian: events.Gaussian,
    event: events.Event,
    name: str,
    rng: NoiseSource,
    *,
    updated: set[Label] | None = None,
) -> Release:
    """Releases the noisy sums of all labels, or only of those that this task released (the paper)."""
    everything = known.union(new)
    rows = np.arange(len(everything))
    if updated is not None:
        rows = np.array([i for i, label in enumerate(everything.labels) if label in updated], dtype=np.int64)
    space = LabelSpace(tuple(everything.labels[i] for i in rows))
    exact = label_sums.sum_by_label(features, labels, known=space, count_weight=0.0)
    sums = GaussianSum(gaussian)(exact.known, rng=rng).astype(np.float32)
    sums /= np.float32(grid.SCALE)  # a power of two: nothing is rounded twice
    return _release(name, new, sums, np.full(len(rows), gaussian.noise_multiplier), rows, event, rng)


def _release(
    name: str,
    new: LabelSpace,
    sums: npt.NDArray[np.floating],
    noise: npt.NDArray[np.float64],
    rows: npt.NDArray[np.int64],
    event: events.Event,
    rng: NoiseSource,
) -> Release:
    parameters = {
        "rows": rows.astype(np.int32),
        "sums": sums.astype(np.float32, copy=False),
        "noise": noise.astype(np.float32),
    }
    return Release(task=name, labels=new, parameters=parameters, event=event, private=rng.private)
