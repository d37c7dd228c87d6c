"""Cosine: noisy per-class sums of unit features. The paper's Cosine Classifier, and our version."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from reticent.gate import grid
from reticent.gate.gate import Gate, Permit
from reticent.gate.mechanisms import GaussianSum, JointGaussian, SelectLabels
from reticent.gate.sparse import ALL_KEPT, SparseGaussian, SparseSums, kept_share
from reticent.gate.sparse_joint import SparseJoint, SparseJointSums
from reticent.labels import Label, LabelSpace
from reticent.policies import Policy, PublicLabels, ReleasedLabels
from reticent.privacy import events
from reticent.released import denoise
from reticent.released.centre import CENTRE, centred, next_centre
from reticent.released.common import Direction, common_direction, mirrored
from reticent.released.evidence import by_evidence
from reticent.released.model import Encode, learned_rows
from reticent.released.naming import NAMES, Name, Naming, no_names
from reticent.released.release import Past, Release
from reticent.released.standing import counted_rows, followed
from reticent.released.sums import Sums
from reticent.sensitive.learners.learner import refuse_large_part
from reticent.sensitive.learners.seen import Seen, seen
from reticent.sensitive.learners.stream_rows import stream_rows
from reticent.sensitive.task import Task

_NO_LABELS = LabelSpace(())


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
        keep_all: Publish the noisy sums of all known labels, however many; else beyond 2,000, public or released, only
            those that stand out from the noise in this task, and those that earlier releases say to follow
            (`released.standing`): new ones, those that come back, and those that may be there.
        centre: Take off what examples have in common, as far as names and earlier releases tell.

    Example:
        >>> Cosine() == Cosine.paper()
        False
    """

    combine: denoise.Combine = by_evidence
    keep_all: bool = False
    centre: bool = True

    @classmethod
    def paper(cls) -> "Cosine":
        """The paper's algorithm: noisy sums of every label, added up, plain cosine.

        The paper stores their running sum. Here each release holds the sums of its task, so T tasks store T times as
        much; predictions add them up, and are the paper's.
        """
        return cls(combine=denoise.total, keep_all=True, centre=False)

    narrows: ClassVar[bool] = True  # a task may have a part of the labels

    @property
    def remembers(self) -> bool:
        """Whether it can use the vault of a model with memory: how its rows hang together is read by evidence alone."""
        return self.combine is by_evidence

    @property
    def rule(self) -> Sums:
        """Sums, combined."""
        return Sums(self.combine)

    def to_json(self) -> dict[str, Any]:
        """Returns the learner as plain JSON values."""
        return {**self.rule.to_json(), "kind": "cosine", "keep_all": self.keep_all, "centre": self.centre}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Cosine":
        """Returns the learner that `to_json` wrote."""
        return cls(Sums.from_json(value).combine, value["keep_all"], value.get("centre", False))

    def learn_task(
        self, task: Task, policy: Policy, *, known: LabelSpace, encoder: Encode | None, gate: Gate, past: Past = ()
    ) -> Release:
        """Releases the noisy sums of known labels, and new labels as the policy says."""
        task = gate.admit(task)
        sparse = self._is_sparse(policy, known, gate)
        centre = self.centre and not (sparse and _may_be_empty(known, past))
        looked, name = self._placed(seen(task, encoder, past), policy, known, encoder, past, centre)
        if isinstance(policy, PublicLabels):
            looked = looked.named(partial(policy.resolve, known=known))
        if gate.memory is not None:
            return stream_rows(looked, policy, known, gate, gate.memory, past, name)
        if isinstance(policy, PublicLabels):
            gaussian = policy.sums(gate.budget)
            if policy.part is not None:
                refuse_large_part(policy.part, keep_all=self.keep_all)
                permit = gate.spend(gaussian, task=task.name)
                return noisy_sums(looked, known, _NO_LABELS, gaussian, permit, updated=policy.part.labels, name=name)
            if self.keep_all:
                permit = gate.spend(gaussian, task=task.name)
                return noisy_sums(looked, known, _NO_LABELS, gaussian, permit, name=name)
            kept = _Sparse.after(past, gaussian, known, looked.width)
            return _kept(looked, known, _NO_LABELS, kept, gate.spend(gaussian, task=task.name), name)
        if policy.selection is None:
            joint = policy.joint(gate.budget)
            if not sparse:
                return _joint(looked, known, joint, gate.spend(joint, task=task.name), name)
            noise = events.Gaussian(
                noise_multiplier=joint.noise_multiplier, examples_per_person=joint.examples_per_person
            )
            kept = _Sparse.after(past, noise, known, looked.width)
            return _sparse_joint(looked, known, joint, kept, gate.spend(joint, task=task.name), name)
        chosen, gaussian = policy.selection_and_sums(gate.budget)
        permit = gate.spend(events.compose(chosen, gaussian), task=task.name)
        looked = looked.twice()
        counts = looked.counts()
        if policy.remember:  # what is known needs no second release
            counts = {label: n for label, n in counts.items() if label not in known}
        released = permit.draw(SelectLabels(chosen), counts)
        new = LabelSpace(tuple(label for label in released if label not in known), permit.event)
        if sparse:
            kept = _Sparse.after(past, gaussian, known, looked.width, new)
            return _kept(looked, known, new, kept, permit, name)
        updated = None if policy.remember else set(released)
        return noisy_sums(looked, known, new, gaussian, permit, updated=updated, name=name)

    def _is_sparse(self, policy: Policy, known: LabelSpace, gate: Gate) -> bool:
        """Whether there are more labels than publish every block; with memory all rows are published."""
        if isinstance(policy, ReleasedLabels) and (self.keep_all or not (policy.selection is None or policy.remember)):
            return False
        return gate.memory is None and len(known) > ALL_KEPT

    def _placed(
        self,
        looked: Seen,
        policy: Policy,
        known: LabelSpace,
        encoder: Encode | None,
        past: Past,
        centre: bool,
    ) -> tuple[Seen, Name]:
        """Returns features as seen from the centre of this task, and what its release holds of names and centre.

        With memory too a task has its own: it follows from releases, whatever is pending, so noise covers it as before;
        `evidence` brings the tasks of an epoch, which are added up in its rows, to one frame.
        """
        name: Name = no_names
        width = looked.width
        if self.combine is by_evidence:  # no other reads names
            name = Naming.of_known(policy, encoder, known, past, width=width).arrays
        if not centre:
            return looked, name  # of huge spaces, what examples have in common tells which labels have any
        none = np.zeros((0, width))
        begun = any("sums" in release.parameters for release in past)  # then releases tell, and not names
        common = next_centre(past, none if begun else name(known, learned_rows(past)).get(NAMES, none), width)
        if common.any():
            looked = looked.changed(partial(centred, centre=common))
        return looked, lambda labels, rows: {CENTRE: common, **name(labels, rows)}


def _may_be_empty(known: LabelSpace, past: Past) -> bool:
    """Whether so many labels may have no examples at all that what is common to examples tells which have some."""
    return len(known) > ALL_KEPT and len(known) - len(counted_rows(past, known)) > ALL_KEPT


@dataclass(frozen=True)
class _Sparse:
    """How sums are released where most known labels may have no examples in a task, from earlier releases alone.

    Args:
        mechanism: Which blocks are kept.
        direction: What examples have in common; features are mirrored so that it is their first coordinate, and sums
            are mirrored back. None where every block is kept, where it is taken off (`centre`), or while nothing is
            known of it.
    """

    mechanism: SparseGaussian
    direction: Direction | None

    @classmethod
    def after(
        cls, past: Past, gaussian: events.Gaussian, known: LabelSpace, width: int, new: LabelSpace = _NO_LABELS
    ) -> "_Sparse":
        """Returns how the next task is released; blocks of labels that became known in it are kept."""
        space = len(known) + len(new)
        if space <= ALL_KEPT:
            return cls(SparseGaussian(gaussian, space, np.arange(space)), None)
        common = common_direction(past, width)
        kept = np.concatenate([followed(past, known, common), np.arange(len(known), space)])
        direction = common if _may_be_empty(known, past) else None
        if direction is None:
            return cls(SparseGaussian(gaussian, space, kept), None)
        half = kept_share(space) / 2
        return cls(SparseGaussian(gaussian, space, kept, share=half, first_share=half), direction)

    def seen(self, looked: Seen) -> Seen:
        """Returns a task as the mechanism looks at it."""
        return looked if self.direction is None else looked.changed(partial(mirrored, direction=self.direction))

    def turned(self, sums: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Returns sums of the mechanism as sums of features: mirrored twice, nothing has changed."""
        return sums if self.direction is None else mirrored(sums, self.direction)


def _kept(looked: Seen, known: LabelSpace, new: LabelSpace, sparse: _Sparse, permit: Permit, name: Name) -> Release:
    """Sums only what has examples; the mechanism draws for all other labels as if they had been summed too."""
    everything = known.union(new)
    kept = permit.draw(sparse.mechanism, SparseSums(*sparse.seen(looked).found_sums(everything)))
    noise = np.full(len(kept.rows), sparse.mechanism.event.noise_multiplier)
    parameters = _parameters(kept.rows, sparse.turned(kept.sums / grid.SCALE), noise)
    return permit.release(labels=new, parameters=parameters | name(everything, kept.rows))


def _sparse_joint(
    looked: Seen, known: LabelSpace, event: events.JointGaussian, sparse: _Sparse, permit: Permit, name: Name
) -> Release:
    """As `_joint`, at a cost that follows the labels that have examples or are followed."""
    exact = SparseJointSums(*sparse.seen(looked).found_and_others(known, event.count_weight))
    drawn = permit.draw(SparseJoint(event, sparse.mechanism), exact)
    weight, new = math.sqrt(1 - event.count_weight), LabelSpace(drawn.new.released, event)
    sums = np.concatenate([drawn.known.sums / grid.SCALE, drawn.new.vectors / (grid.SCALE * weight)])
    noise = np.full(len(sums), event.noise_multiplier)
    noise[len(drawn.known.rows) :] /= weight
    at = np.concatenate([drawn.known.rows, np.arange(len(known), len(known) + len(new))])
    return permit.release(
        labels=new, parameters=_parameters(at, sparse.turned(sums), noise) | name(known.union(new), at)
    )


def _joint(looked: Seen, known: LabelSpace, event: events.JointGaussian, permit: Permit, name: Name) -> Release:
    exact = looked.sums(known, event.count_weight)
    noisy = permit.draw(JointGaussian(event), exact)
    weight = math.sqrt(1 - event.count_weight)
    sums = np.concatenate([noisy.known / grid.SCALE, noisy.vectors / (grid.SCALE * weight)])
    noise = np.full(len(sums), event.noise_multiplier)
    noise[len(known) :] /= weight
    new = LabelSpace(noisy.released, event)
    rows = np.arange(len(sums))
    return permit.release(labels=new, parameters=_parameters(rows, sums, noise) | name(known.union(new), rows))


def noisy_sums(
    looked: Seen,
    known: LabelSpace,
    new: LabelSpace,
    gaussian: events.Gaussian,
    permit: Permit,
    *,
    updated: Collection[Label] | None = None,
    name: Name = no_names,
) -> Release:
    """Releases the noisy sums of all labels, or only of those that this task has or released (the paper)."""
    everything = known.union(new)
    rows = np.arange(len(everything))
    if updated is not None:
        places = (everything.row(label) for label in updated)
        rows = np.array(sorted(row for row in places if row >= 0), dtype=np.int64)
    space = LabelSpace(tuple(everything.labels[i] for i in rows))
    sums = permit.draw(GaussianSum(gaussian), looked.known_sums(space)).astype(np.float32)
    sums /= np.float32(grid.SCALE)  # a power of two: nothing is rounded twice
    noise = np.full(len(rows), gaussian.noise_multiplier)
    return permit.release(labels=new, parameters=_parameters(rows, sums, noise) | name(everything, rows))


def _parameters(
    rows: npt.NDArray[np.int64], sums: npt.NDArray[np.floating], noise: npt.NDArray[np.float64]
) -> dict[str, npt.NDArray[Any]]:
    return {
        "rows": rows.astype(np.int32),
        "sums": sums.astype(np.float32, copy=False),
        "noise": noise.astype(np.float32),
    }
