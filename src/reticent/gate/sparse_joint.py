"""Known labels of any number beside labels that become known: one Gaussian, at a cost that follows what is kept.

The joint release (`mechanisms.JointGaussian`, THEORY section 4) draws noise for the block of every known label. Where
thousands of them may have no examples in a task, only blocks that stand out are published here, by the rule of
`gate/sparse`. A label is known if it is public or if an earlier task released it: which way is the same to the proof,
since either is a fact that was published before the task.

The cost is that of the joint release: (epsilon, max(delta_G(epsilon), p1)), or whatever its event costs a person of
several tasks and examples. Proof. Let G publish all blocks, and let f leave out the block k of a known label unless the
label is in the set `kept_before`, which follows from earlier releases, or k exceeds a public threshold. f reads nothing
but what G has published and public facts, and it is the same f for both neighbours; so f(G) is post-processing of G, in
each case of the proof of G.

What is drawn has the distribution of f(G). Proof. Given the data, the noise of different blocks is independent. So the
kept blocks of known labels, and what is published of other labels, are independent in f(G), as they are here, and it is
enough that each part has its distribution. The second part is drawn by G itself, with no known labels. The first one is
drawn by `SparseGaussian`: noise and threshold for labels that have examples or are in `kept_before`; for the others,
which in G are pure noise, only blocks beyond the threshold, each with exactly its chance (proof in `gate/sparse`).
"""

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate.label_sums import LabelSums
from reticent.gate.mechanisms import JointGaussian, NoisySums
from reticent.gate.noise import NoiseSource
from reticent.gate.sparse import Kept, SparseGaussian, SparseSums
from reticent.privacy import events

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SparseJointSums:
    """Sensitive: exact sums of a task, of known labels only where they have examples. Never leaves the gate.

    Args:
        rows: The places, among all known labels, of those that have examples; ascending.
        sums: Whose `known` has one row for each of them.
    """

    rows: Ints
    sums: LabelSums

    def __repr__(self) -> str:
        return "SparseJointSums(<sensitive>)"


@dataclass(frozen=True)
class SparseNoisySums:
    """What is published, in grid steps: kept blocks of known labels, and labels that became known."""

    known: Kept
    new: NoisySums


@dataclass(frozen=True)
class SparseJoint:
    """The joint release of a task, of which known labels keep only the blocks that stand out.

    Guarantees (one label per example, add or remove one example):
      - (epsilon, max(delta_G(epsilon), p1))-DP as its event says: the same distribution as the joint release with the
        threshold after it, total variation 0.              test_the_law_of_the_code_is_that_of_the_dense_joint_release,
                                                            test_sparse_and_dense_joint_releases_have_one_distribution
      - Broken ones are told from it.                       test_broken_sparse_joints_are_rejected
      - A known label without examples is treated like one with: neighbours have the same support.
                                                            test_one_example_of_a_known_label_changes_no_support

    Args:
        event: What one call costs.
        known: Which blocks of known labels are kept; its noise is that of the event.
    """

    event: events.JointGaussian
    known: SparseGaussian

    def __post_init__(self) -> None:
        if self.known.event.noise_multiplier != self.event.noise_multiplier:
            raise errors.InvalidValue("Expected the noise of the event on blocks of known labels, too.")

    def release_probability(self, sizes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Returns the probability that an unknown label with this many examples is released."""
        return JointGaussian(self.event).release_probability(sizes)

    def __call__(self, value: SparseJointSums, *, rng: NoiseSource) -> SparseNoisySums:
        """Returns the kept blocks of known labels in their order, and the labels that became known."""
        others = dataclasses.replace(value.sums, known=value.sums.known[:0])
        new = JointGaussian(self.event)(others, rng=rng)  # first: it refuses sums that the event is not for
        return SparseNoisySums(self.known(SparseSums(value.rows, value.sums.known), rng=rng), new)
