"""Mechanisms: a function and its cost. Each has the event that must be spent before it is called."""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate import grid
from reticent.gate.label_sums import LabelSums
from reticent.gate.noise import NoiseSource
from reticent.labels import Label, in_public_order
from reticent.numerics import precision
from reticent.privacy import events, repeats, selection

Ints = npt.NDArray[np.int64]
STANDS_OUT = 2.0  # deviations of pure noise: of a hundred known labels without examples, two have a row by chance
Value = TypeVar("Value", contravariant=True)
Released = TypeVar("Released", covariant=True)


class Mechanism(Protocol[Value, Released]):
    """A function of sensitive data whose result may be published, at the price of its event."""

    @property
    def event(self) -> events.Event:
        """What one call costs; to be spent before the call."""

    def __call__(self, value: Value, *, rng: NoiseSource) -> Released:
        """Draws the release."""


@dataclass(frozen=True)
class SelectLabels:
    """Releases labels by their counts: each by one exact coin.

    Guarantees (one label per example, add or remove one example):
      - (epsilon, delta)-DP as its event says.                       test_exact_privacy_of_one_label
      - A label absent from the data is never released.              test_absent_labels_are_never_released
      - The order of the output does not depend on the data.         test_output_order_does_not_depend_on_the_data

    Example:
        >>> select = SelectLabels(events.OptimalSelection(epsilon=1.0, delta=1e-5))
        >>> select({"common": 500, "rare": 0}, rng=NoiseSource.from_os())
        ('common',)
    """

    event: events.LabelSelection
    test: Callable[[int], float] | None = None

    def __post_init__(self) -> None:
        if (self.test is not None) != isinstance(self.event, events.BinaryTest):
            raise errors.InvalidValue("Expected a test with the event BinaryTest, and no test with any other.")
        if self.test is not None and self.law.event != self.event:
            raise errors.InvalidValue("Expected the event of this test: its delta is the chance of a single example.")

    @property
    def law(self) -> selection.CountLaw:
        """The formulas behind it."""
        if self.test is not None:
            return selection.BinaryTestLaw(self.event.epsilon, self.test)
        return selection.law(self.event)

    @classmethod
    def by_test(cls, epsilon: float, test: Callable[[int], float]) -> "SelectLabels":
        """The paper's generic construction: keeps the labels that any epsilon-DP test of their counts passes."""
        return cls(selection.BinaryTestLaw(epsilon, test).event, test)

    def release_probability(self, sizes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Returns the probability that a label with this many examples is released."""
        return self.law.release_probability(sizes)

    def __call__(self, value: Mapping[Label, int], *, rng: NoiseSource) -> tuple[Label, ...]:
        """Returns the released labels of a mapping from label to count, in public order."""
        law = self.law
        coin_of = {size: law.coin(size) for size in set(value.values())}
        passed = rng.coins([coin_of[size] for size in value.values()])
        return in_public_order(label for label, kept in zip(value, passed, strict=True) if kept)


@dataclass(frozen=True)
class CountLabels:
    """Returns the labels whose noisy counts stand out: the first half of a labelled training.

    A known label stands out by `STANDS_OUT` deviations of the noise, a new one by the threshold of the event.

    Guarantees (one label per example, add or remove one example):
      - A new label with one example is released with probability at most p1 of its event.
                                                                         test_counts_expose_at_most_p1
      - A new label absent from the data is never released.              test_absent_labels_are_never_released
      - A known label, also without examples, passes with the Gaussian probability of its count.
                                                          test_known_labels_stand_out_with_their_probability

    Args:
        event: What one call costs.
        known: The labels that are known already, in public order.

    Example:
        >>> counts = CountLabels(events.LabelCounts(noise_multiplier=10.0, threshold=45.0), known=("old",))
        >>> counts({"common": 500, "old": 300}, rng=NoiseSource.from_os())
        ('common', 'old')
    """

    event: events.LabelCounts
    known: tuple[Label, ...] = ()

    def __call__(self, value: Mapping[Label, int], *, rng: NoiseSource) -> tuple[Label, ...]:
        """Returns the labels that stand out of a mapping from label to count, in public order."""
        sigma = self.event.noise_multiplier * grid.SCALE
        known = set(self.known)
        labels = (*self.known, *(label for label in value if label not in known))
        sizes = np.fromiter((value.get(label, 0) for label in labels), dtype=np.int64, count=len(labels))
        noisy = sizes * grid.SCALE + rng.rounded_gaussian(sigma, len(labels))
        # at or above the real threshold, so that integers expose a single example no more often than p1
        least = np.full(len(labels), math.ceil(grid.SCALE * self.event.threshold))
        least[: len(self.known)] = math.ceil(STANDS_OUT * sigma)
        return in_public_order(label for label, kept in zip(labels, noisy > least, strict=True) if kept)


@dataclass(frozen=True)
class NoisySums:
    """What a joint release publishes, in grid steps.

    Args:
        known: Noisy sums of the known labels, in their public order.
        released: Labels that became known now, in public order.
        counts: Their noisy counts, in examples.
        vectors: Their noisy sums.
    """

    known: Ints
    released: tuple[Label, ...]
    counts: npt.NDArray[np.float64]
    vectors: Ints


@dataclass(frozen=True)
class GaussianSum:
    """Adds rounded Gaussian noise to integer sums that one example changes by at most one unit.

    Guarantees: post-processing of the continuous Gaussian mechanism.    test_rounded_gaussian_follows_its_pmf
    """

    event: events.Gaussian

    def __call__(self, value: Ints, *, rng: NoiseSource) -> Ints:
        """Returns the noisy sums, in grid steps."""
        noisy = rng.rounded_gaussian(self.event.noise_multiplier * grid.SCALE, value.shape)
        noisy += value  # in place: of a large label space this is gigabytes
        return noisy


@dataclass(frozen=True)
class JointGaussian:
    """Releases everything about a task at once: sums of known labels, and unknown labels whose noisy count passes.

    Guarantees (one label per example, add or remove one example):
      - (epsilon, max(delta_G(epsilon), p1))-DP as its event says.   test_exact_privacy_of_the_joint_release
      - A label absent from the data is never released.              test_absent_labels_are_never_released
      - An empty task runs the same code and draws for every known label.       test_empty_task_releases

    Reference: THEORY section 4.
    """

    event: events.JointGaussian

    def release_probability(self, sizes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Returns the probability that an unknown label with this many examples is released."""
        return selection.law(self.event).release_probability(sizes)

    def __call__(self, value: LabelSums, *, rng: NoiseSource) -> NoisySums:
        """Returns noisy sums; blocks of labels that do not pass are not drawn, which changes no probability."""
        if value.count_weight != self.event.count_weight or value.sensitivity > grid.SCALE:
            raise errors.InvalidValue("Expected sums with the count weight of the mechanism, of sensitivity one.")
        sigma = self.event.noise_multiplier * grid.SCALE
        step = selection.count_step(self.event.count_weight)
        # at or above the real threshold, so that integers expose a single example no more often than p1
        gate = math.ceil(step * self.event.threshold)
        known = value.known + rng.rounded_gaussian(sigma, value.known.shape)
        slots = value.counts * step + rng.rounded_gaussian(sigma, value.counts.shape)
        passed = {label: i for i, label in enumerate(value.unknown) if slots[i] > gate}
        released = in_public_order(passed)
        rows = np.array([passed[label] for label in released], dtype=np.int64)
        sums = value.vectors[rows]
        vectors = sums + rng.rounded_gaussian(sigma, sums.shape)
        return NoisySums(known, released, slots[rows] / step, vectors)


def number_of_runs(event: events.PrivateSelection, *, rng: NoiseSource) -> int:
    """Draws how many runs to make; spend the event first, and never publish the number.

    Run k is the last with probability Pr[K = k | K >= k]: one coin after each run.

    Guarantees:
      - Exactly the truncated negative binomial distribution.    test_number_of_runs_follows_its_pmf

    Example:
        >>> event = events.PrivateSelection(run=events.Public(), eta=0.0, gamma=0.5)
        >>> number_of_runs(event, rng=NoiseSource.from_os()) >= 1
        True
    """
    k = 1
    while True:
        hazard = _hazard(event, k)
        low, high = np.array([math.nextafter(hazard, 0)]), np.array([math.nextafter(hazard, 1)])
        if rng.below(low, high, functools.partial(_exact, event, k))[0]:
            return k
        k += 1


@functools.lru_cache(maxsize=4096)
def _hazard(event: events.PrivateSelection, k: int) -> float:
    with precision.bits(128) as mp:
        return float(repeats.hazard(event, k, mp))


def _exact(event: events.PrivateSelection, k: int, _: int, mp: Any) -> Any:
    return repeats.hazard(event, k, mp)
