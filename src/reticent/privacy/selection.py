"""Label selection formulas: threshold, probability of release, divergence. No data, no randomness.

A law maps the number n of examples of one label to the probability that the label is released; a label
without examples never is. Each law states its probability twice: fast in float64 for planning, and to any
precision for drawing, as an integer out of 2^256 (`gate.mechanisms` compares it with 256 random bits).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr, ndtri

from reticent import errors
from reticent.numerics import precision
from reticent.privacy import events

Floats = npt.NDArray[np.float64]
_WORKING_BITS = 512
COIN_BITS = 256
# One unit of length on the public integer grid of sums and counts.
SCALE = 1 << 20


def count_step(count_weight: float) -> int:
    """Returns what one example adds to its count slot: c in grid steps, rounded down."""
    return math.floor(math.sqrt(count_weight) * SCALE)


def _with_margin(event: events.LabelSelection, mp: Any) -> tuple[Any, Any]:
    """Epsilon and delta smaller by a part 2^-64, so that the rounding of drawn probabilities cannot overspend."""
    margin = 1 - mp.ldexp(1, -64)
    return mp.mpf(event.epsilon) * margin, mp.mpf(event.delta) * margin


def _coin(probability: Any, mp: Any) -> int:
    return int(mp.floor(mp.ldexp(probability, COIN_BITS)))


class Law(Protocol):
    """How likely a label with n examples is released."""

    @property
    def event(self) -> events.LabelSelection | events.JointGaussian | events.LabelCounts:
        """What one use costs."""

    @property
    def threshold(self) -> float:
        """The noisy count that must be exceeded, or the count where the law turns, in examples."""

    def release_probability(self, sizes: npt.ArrayLike) -> Floats:
        """Returns the probability of release for each class size."""


class CountLaw(Law, Protocol):
    """A law that decides on the count alone, by one exact coin."""

    def coin(self, size: int) -> int:
        """Returns the probability of release times 2^256, rounded so that the event is never exceeded."""


@overload
def law(event: events.LabelSelection) -> CountLaw: ...
@overload
def law(event: events.JointGaussian | events.LabelCounts) -> "GaussianLaw": ...
def law(event: events.LabelSelection | events.JointGaussian | events.LabelCounts) -> Law:
    """Returns the formulas of an event.

    >>> law(events.TruncatedGeometric(epsilon=0.025, delta=2.5e-7)).threshold
    433.0
    """
    match event:
        case events.TruncatedGeometric():
            return TruncatedGeometricLaw(event)
        case events.OptimalSelection():
            return OptimalLaw(event)
        case events.LaplaceThreshold():
            return LaplaceLaw(event)
        case events.JointGaussian() | events.LabelCounts():
            return GaussianLaw(event)
    raise errors.UnsupportedEvent(f"No selection law knows {type(event).__name__}. Add a case with its proof.")


def _turning_point(epsilon: Any, delta: Any, mp: Any) -> Any:
    """(1/epsilon) ln( (e^epsilon + 2 delta - 1) / ((e^epsilon + 1) delta) )."""
    epsilon, delta = mp.mpf(epsilon), mp.mpf(delta)
    return mp.log((mp.expm1(epsilon) + 2 * delta) / ((mp.exp(epsilon) + 1) * delta)) / epsilon


@dataclass(frozen=True)
class TruncatedGeometricLaw:
    """n + Z > k, Z on -k..k with pmf proportional to e^(-epsilon |z|): the paper's mechanism.

    Guarantees (one label per example, add or remove one example):
      - (epsilon, delta)-DP.                                   test_exact_privacy_of_one_label
      - A label absent from the data is never released.        test_absent_labels_are_never_released

    Reference: Desfontaines, Voss, Gipson, Mandayam 2022, Theorem 6; the paper, section 4.2.
    """

    event: events.TruncatedGeometric

    @cached_property
    def k(self) -> int:
        """The truncation point, at the next integer up when rounding would overspend."""
        with precision.bits(_WORKING_BITS) as mp:
            k = max(0, int(mp.ceil(_turning_point(self.event.epsilon, self.event.delta, mp))))
            return k + 1 if self._tail(k, 1, mp) > _with_margin(self.event, mp)[1] else k

    @property
    def threshold(self) -> float:
        """k: the noisy count must exceed it."""
        return float(self.k)

    def _tail(self, k: int, n: int, mp: Any) -> Any:
        """Pr[Z > k - n] for 0 <= n <= k."""
        epsilon = mp.mpf(self.event.epsilon)
        # sum_{z > k-n} e^(-epsilon z) over the total mass, with (1 - e^-epsilon) cancelled
        shape = mp.exp(-(k + 1 - n) * epsilon) * -mp.expm1(-n * epsilon)
        mass = -mp.expm1(-epsilon) - 2 * mp.exp(-epsilon) * mp.expm1(-k * epsilon)
        return shape / mass

    def release_probability(self, sizes: npt.ArrayLike) -> Floats:
        """Returns the probability of release for each class size."""
        n, epsilon, k = np.asarray(sizes, dtype=np.float64), self.event.epsilon, self.k
        reflected = np.clip(np.where(n <= k, n, 2 * k + 1 - n), 0, None)
        mass = -math.expm1(-epsilon) - 2 * math.exp(-epsilon) * math.expm1(-k * epsilon)
        tail = np.exp(-(k + 1 - reflected) * epsilon) * -np.expm1(-reflected * epsilon) / mass
        return np.where(n <= 0, 0.0, np.where(n <= k, tail, 1 - tail))

    def coin(self, size: int) -> int:
        """Returns the probability of release times 2^256."""
        with precision.bits(_WORKING_BITS) as mp:
            if size <= self.k:
                return _coin(self._tail(self.k, max(size, 0), mp), mp)
            return _coin(1 - self._tail(self.k, max(2 * self.k + 1 - size, 0), mp), mp)


@dataclass(frozen=True)
class OptimalLaw:
    """The largest probability that (epsilon, delta)-DP allows, for every size at once.

    Guarantees (one label per example, add or remove one example):
      - (epsilon, delta)-DP.                                   test_exact_privacy_of_one_label
      - No such mechanism releases any size more often.        test_optimal_solves_the_recursion
      - A label absent from the data is never released.        test_absent_labels_are_never_released

    Reference: Desfontaines, Voss, Gipson, Mandayam 2022, Theorem 1.
    """

    event: events.OptimalSelection

    @cached_property
    def turn(self) -> int:
        """n1: up to here the release probability grows by e^epsilon, beyond it the drop shrinks so."""
        with precision.bits(_WORKING_BITS) as mp:
            return 1 + int(mp.floor(_turning_point(*_with_margin(self.event, mp), mp)))

    @property
    def threshold(self) -> float:
        """n1, the class size where the law turns."""
        return float(self.turn)

    def release_probability(self, sizes: npt.ArrayLike) -> Floats:
        """Returns the probability of release for each class size."""
        n, epsilon, delta, turn = np.asarray(sizes, dtype=np.float64), self.event.epsilon, self.event.delta, self.turn
        step = delta / math.expm1(epsilon)
        rising = step * np.expm1(np.clip(n, 0, turn) * epsilon)
        beyond = np.clip(n - turn, 0, None) * epsilon
        drop = np.exp(-beyond) * (1 - min(1.0, step * math.expm1(turn * epsilon))) + np.expm1(-beyond) * step
        return np.clip(np.where(n <= turn, rising, 1 - np.clip(drop, 0, 1)), 0, 1)

    def coin(self, size: int) -> int:
        """Returns the probability of release times 2^256."""
        with precision.bits(_WORKING_BITS) as mp:
            epsilon, delta = _with_margin(self.event, mp)
            step = delta / mp.expm1(epsilon)
            rising = min(mp.mpf(1), step * mp.expm1(min(max(size, 0), self.turn) * epsilon))
            beyond = max(size - self.turn, 0) * epsilon
            drop = mp.exp(-beyond) * (1 - rising) + mp.expm1(-beyond) * step
            return _coin(rising if size <= self.turn else 1 - max(mp.mpf(0), drop), mp)


@dataclass(frozen=True)
class BinaryTestLaw:
    """The paper's generic construction: a label is kept iff an epsilon-DP test of its own examples says so.

    delta is the largest chance that the test passes a single example. (The paper adds a term 1/(1-p) - e^epsilon, which
    is not needed: P(S) - e^epsilon P'(S) <= 1 - e^epsilon (1 - p) <= p.)

    Args:
        epsilon: What the test satisfies between any two sizes from 1 on; `check_mechanism` verifies it.
        test: From a number of examples to the probability that the test passes.

    Guarantees (one label per example, add or remove one example):
      - (epsilon, test(1))-DP if the test is epsilon-DP.       test_any_private_test_selects_labels
      - A label absent from the data is never released.
    Reference: the paper, Theorem "label release mechanism".

    Example:
        >>> BinaryTestLaw(1.0, lambda n: 1e-5 if n == 1 else min(0.5, 1e-5 * math.e ** (n - 1))).event.delta
        1e-05
    """

    epsilon: float
    test: Callable[[int], float]

    @property
    def event(self) -> events.BinaryTest:
        """(epsilon, the chance of a single example)."""
        return events.BinaryTest(epsilon=self.epsilon, delta=self.test(1))

    @cached_property
    def threshold(self) -> float:
        """The smallest class that passes more often than not, or 10,000 where none up to there does."""
        return float(next((n for n in range(1, 10_000) if self.test(n) > 0.5), 10_000))

    def release_probability(self, sizes: npt.ArrayLike) -> Floats:
        """Returns the probability of release for each class size."""
        counts = np.asarray(sizes)
        passed = [self.test(int(n)) if n > 0 else 0.0 for n in counts.ravel()]
        return np.array(passed, dtype=np.float64).reshape(counts.shape)

    def coin(self, size: int) -> int:
        """Returns the probability of release times 2^256."""
        return int(Fraction(self.test(size)) * (1 << COIN_BITS)) if size > 0 else 0


@dataclass(frozen=True)
class LaplaceLaw:
    """n + Lap(1/epsilon) > tau: the worked example of the generic construction, a noisy count.

    Guarantees (one label per example, add or remove one example):
      - (epsilon, delta)-DP.                                   test_exact_privacy_of_one_label
      - A label absent from the data is never released.        test_absent_labels_are_never_released

    Reference: the paper, Theorem "label release mechanism".
    """

    event: events.LaplaceThreshold

    @property
    def threshold(self) -> float:
        """tau, where a single example passes with probability delta."""
        return 1 + self._reach(self.event.delta) / self.event.epsilon

    @staticmethod
    def _reach(delta: float) -> float:
        """X with Pr[Lap(1) > x] = delta."""
        return -math.log(2 * delta) if delta <= 0.5 else math.log(2 * (1 - delta))

    def release_probability(self, sizes: npt.ArrayLike) -> Floats:
        """Returns the probability of release for each class size."""
        n = np.asarray(sizes, dtype=np.float64)
        short = self._reach(self.event.delta) - (n - 1) * self.event.epsilon
        passed = np.where(short >= 0, np.exp(-np.abs(short)) / 2, 1 - np.exp(-np.abs(short)) / 2)
        return np.where(n <= 0, 0.0, passed)

    def coin(self, size: int) -> int:
        """Returns the probability of release times 2^256."""
        if size <= 0:
            return 0
        with precision.bits(_WORKING_BITS) as mp:
            epsilon, delta = _with_margin(self.event, mp)
            reach = -mp.log(2 * delta) if delta <= 0.5 else mp.log(2 * (1 - delta))
            short = reach - (size - 1) * epsilon
            return _coin(mp.exp(-short) / 2 if short >= 0 else 1 - mp.exp(short) / 2, mp)


@dataclass(frozen=True)
class GaussianLaw:
    """The threshold on the count slot of a joint Gaussian, or on counts alone (THEORY section 4).

    Guarantees (one example per person, add or remove one example):
      - (epsilon, max(delta_G(epsilon), p1))-DP together with the vectors it gates.
                                                               test_exact_privacy_of_the_joint_release
      - A label absent from the data is never released.        test_absent_labels_are_never_released
    """

    event: events.JointGaussian | events.LabelCounts

    @property
    def threshold(self) -> float:
        """tau, in examples."""
        return self.event.threshold

    @property
    def count_noise(self) -> float:
        """Standard deviation of the noisy count, in examples, with the step that is really counted."""
        return self.event.noise_multiplier * SCALE / count_step(self.event.count_weight)

    def release_probability(self, sizes: npt.ArrayLike) -> Floats:
        """Returns the probability of release for each class size."""
        n = np.asarray(sizes, dtype=np.float64)
        passed: Floats = ndtr((n - self.threshold) / self.count_noise)
        return np.where(n <= 0, 0.0, passed)

    def exposures(self, most: int) -> list[float]:
        """Returns for j = 0..most the largest chance that j examples of one person on new labels expose any of them.

        The worst split over new labels is found exactly: ln Pr[none released] adds up over labels.
        """
        quiet = np.zeros(most + 1)
        with np.errstate(divide="ignore"):
            quiet[1:] = np.log1p(-self.release_probability(np.arange(1, most + 1)))
        for total in range(2, most + 1):
            quiet[total] = min(quiet[total], float(np.min(quiet[1:total] + quiet[total - 1 : 0 : -1])))
        chances: list[float] = (-np.expm1(quiet)).tolist()
        return chances


def hockey_stick(p: npt.ArrayLike, q: npt.ArrayLike, epsilon: float) -> Floats:
    """Returns the hockey-stick divergence between discrete laws, the larger of both directions.

    Outcomes run along the first axis. Give small probabilities as themselves, not as 1 minus a large one: the answer is
    as exact as they are.

    >>> float(hockey_stick([0.5, 0.5], [0.25, 0.75], 0.0))
    0.25
    """
    p, q, scale = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64), math.exp(epsilon)
    forth, back = np.maximum(p - scale * q, 0).sum(axis=0), np.maximum(q - scale * p, 0).sum(axis=0)
    worst: Floats = np.maximum(forth, back)
    return worst


def drawn_law(chosen: CountLaw, sizes: Iterable[int]) -> Floats:
    """Returns the probabilities of release and of drop that coins really have, both to full relative precision."""
    coins = [chosen.coin(int(size)) for size in sizes]
    whole = 1 << COIN_BITS
    return np.array([[coin / whole for coin in coins], [(whole - coin) / whole for coin in coins]])


def divergence(event: events.LabelSelection | events.JointGaussian, size: int, epsilon: float) -> float:
    """Returns the hockey-stick divergence between the releases of one label with n and n + 1 examples.

    The larger of both directions. For the joint Gaussian the release is the noisy count and the noisy sum of a
    label that other people may have too, behind the threshold.

    >>> divergence(events.LaplaceThreshold(epsilon=1.0, delta=1e-5), 0, 1.0)
    1e-05
    """
    if isinstance(event, events.JointGaussian):
        chosen = GaussianLaw(event)
        return _joint_divergence(chosen, size, epsilon) if size > 0 else chosen.exposures(1)[1]
    probabilities = drawn_law(law(event), (size, size + 1))
    return float(hockey_stick(probabilities[:, 0], probabilities[:, 1], epsilon))


def _joint_divergence(chosen: GaussianLaw, size: int, epsilon: float) -> float:
    """Integrates over the count slot u; beside it the released sum moves by a in one direction.

    Densities differ by the shift (c, a). Where u passes the gate, both u and the sum are seen; else nothing.
    """
    sigma = chosen.event.noise_multiplier
    c = sigma / chosen.count_noise
    a = math.sqrt(1 - chosen.event.count_weight)
    gate = c * (chosen.threshold - size)
    u, weights = _panels(max(gate, -20 * sigma), max(gate, 0.0) + 20 * sigma + 1)
    evidence = (c * u - c * c / 2) / sigma**2
    more = np.exp(-((u - c) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    fewer = np.exp(-(u**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    seen_more = float(weights @ (more * _shift_divergence(epsilon - evidence, a / sigma)))
    seen_fewer = float(weights @ (fewer * _shift_divergence(epsilon + evidence, a / sigma)))
    hidden_fewer, hidden_more = ndtr((chosen.threshold - np.array([size, size + 1])) / chosen.count_noise)
    scale = math.exp(epsilon)
    return max(
        seen_more + max(0.0, float(hidden_more - scale * hidden_fewer)),
        seen_fewer + max(0.0, float(hidden_fewer - scale * hidden_more)),
    )


def _panels(low: float, high: float) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss-Legendre quadrature on 64 panels."""
    nodes, weights = np.polynomial.legendre.leggauss(32)
    edges = np.linspace(low, high, 65)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (nodes + 1)).ravel(), (half * weights).ravel()


def _shift_divergence(epsilon: Floats, mu: float) -> Floats:
    """delta_G(epsilon; mu) for any real epsilon."""
    upper, lower = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    value: Floats = np.exp(upper) * -np.expm1(np.minimum(lower - upper, 0.0))
    return value


def sizes_to_check(turn: float) -> npt.NDArray[np.int64]:
    """Returns every class size to 2k+1 that a check should visit: all up to k = 10^4, else 1,000 with both ends."""
    turn = max(turn, 0.0)
    last = 2 * math.ceil(turn) + 1
    if turn <= 10_000:
        return np.arange(last + 1)
    spread = np.unique(np.linspace(0, last, 994).astype(np.int64))
    turning = math.floor(turn) + np.arange(-3, 4)
    return np.unique(np.concatenate([spread, turning]))


def smallest_class(chosen: Law, probability: float) -> int:
    """Returns the smallest class size that is released with at least this probability.

    >>> smallest_class(law(events.OptimalSelection(epsilon=1.0, delta=1e-7)), 0.5)
    16
    """
    high = 1
    while chosen.release_probability(high) < probability:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if chosen.release_probability(middle) < probability:
            low = middle
        else:
            high = middle
    return high


def upper_bound(sizes: npt.ArrayLike, epsilon: float, delta: float) -> Floats:
    """Returns the paper's bound on the release probability of any (epsilon, delta)-DP mechanism.

    >>> float(upper_bound(13, 1.0, 1e-7).round(4))
    0.0257
    """
    grown = np.asarray(sizes, dtype=np.float64) * epsilon
    with np.errstate(divide="ignore"):
        # ln(e^x - 1) = x + ln(1 - e^-x) cannot overflow
        log_bound = grown + np.log(-np.expm1(-grown)) - math.log(math.expm1(epsilon)) + math.log(delta)
    return np.exp(np.minimum(log_bound, 0.0))


def gaussian_threshold(noise_multiplier: float, count_weight: float, exposure: float) -> float:
    """Returns tau such that a single example passes with probability at most `exposure`, rounded up."""
    spread = noise_multiplier * SCALE / count_step(count_weight)
    tau = 1 - spread * float(ndtri(exposure))
    return tau + 1e-12 * (abs(tau) + spread)
