"""What a person loses in several mechanisms of unlike kinds, each chosen once the releases before it are known.

The most expensive fixed list of kinds is too little: after an unlucky release a strategy goes on with the kind that
adds most there. Backward induction over the privacy loss l so far finds the worst strategy (THEORY 16.1):

    V_0(l) = max(0, 1 - e^(epsilon - l)),    V_k(l) = max over kinds of E V_(k-1)(l + L),

L the loss of the kind's dominating pair, separately in each direction. V_n(0) is delta. It is an upper bound for all
mechanisms of these kinds: x V_k(ln x) is convex in x for each k, and of convex functions a dominating pair has the
larger expectation. Not taking part is a kind, too, and never the worst one. V depends on l - epsilon alone, so one
induction gives the whole curve.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from reticent.privacy import pld, sampled
from reticent.privacy.rounding import smallest_epsilon

Floats = npt.NDArray[np.float64]
Losses = tuple[int, Floats, float]  # the lowest loss in steps of the grid, masses from there on, and that of infinity
_HIGHEST = 30.0  # beyond, V_0 differs from 1 by 1e-13, and counts as 1
_LARGEST_GRID = 2**19
_MOST_INDUCTIONS = 16  # beyond, one kind that dominates all of them, composed with itself


@dataclass(frozen=True)
class Worst:
    """The curve of the worst strategy, on a grid, in both directions; an error of 1 means that there is no bound."""

    width: float
    lowest: int
    directions: tuple[Floats, ...]  # V_n at l - epsilon = (lowest + i) width
    error: float

    def delta(self, epsilon: float) -> float:
        """Returns an upper bound on delta: between two points on the chord, which is above a convex curve."""
        place = -epsilon / self.width - self.lowest
        below = math.floor(place)
        if self.error >= 1:
            return 1.0
        if below < 0:
            found = max(float(values[0]) for values in self.directions)  # V falls with epsilon
        else:
            part = (place - below) * self.width
            share = math.expm1(part) / math.expm1(self.width)
            left, right = (1 - share) * math.exp(-part), share * math.exp(self.width - part)
            found = max(float(left * v[below] + right * v[below + 1]) for v in self.directions)
        return min(1.0, found + self.error)

    def epsilon(self, delta: float) -> float:
        """Returns an upper bound on epsilon, by bisection on the curve."""
        return smallest_epsilon(self.delta, delta)


@lru_cache(maxsize=256)
def worst(kinds: frozenset[frozenset[pld.Part]], times: int, resolution: float) -> Worst | pld.Loss:
    """Returns what a person loses in up to `times` mechanisms of these kinds, chosen adaptively.

    Guarantees:
      - delta is at least that of every strategy.               test_adaptive_choice_is_the_worst_strategy
      - One kind costs what its composition does.               test_one_kind_costs_its_composition
      - Many at once are bounded by a kind that dominates all.  test_many_choices_are_bounded_by_one_kind

    Args:
        kinds: Each as the parts of one mechanism.
        times: In how many of them the person is at most.
        resolution: Of the grid, as in `pld.compose`.
    """
    parts = frozenset(part for kind in kinds for part in kind)
    reach = max(sum(pld.Part(part.event, part.times * times).reach for part in kind) for kind in kinds)
    width = max(pld.width_of(parts, resolution, reach), (reach + _HIGHEST) / _LARGEST_GRID)
    found = [pld.distribution_of(kind, width) for kind in kinds]
    if any(loss is None for loss in found):
        return Worst(width, 0, (), 1.0)
    error = times * (max(sum(part.steps for part in kind) for kind in kinds) + 1) * pld.FOURIER_ERROR
    lowest, highest = -math.ceil(reach / width), math.ceil(_HIGHEST / width)
    values = []
    for direction in ("_pmf_remove", "_pmf_add"):
        masses = [_dense(getattr(loss, direction)) for loss in found]
        start = np.maximum(0.0, -np.expm1(-np.maximum(np.arange(lowest, highest + 1) * width, 0.0)))
        inductions = times if times <= _MOST_INDUCTIONS else 1
        for _ in range(inductions):
            start = _chosen(start, masses)
        values.append(start)
    if times <= _MOST_INDUCTIONS:
        return Worst(width, lowest, tuple(values), error)
    return pld.Loss(_repeated(values, width, times), error)


def _chosen(values: Floats, kinds: Sequence[Losses]) -> Floats:
    """Returns max over kinds of E V(l + L); left of the grid V is at most its first value, right of it at most 1."""
    from scipy.signal import fftconvolve  # takes a while to import; rarely needed

    best = np.zeros_like(values)
    for lowest, masses, infinite in kinds:
        before, after = max(0, -lowest), max(0, lowest + len(masses) - 1)
        padded = np.concatenate([np.full(before, values[0]), values, np.ones(after)])
        expected = fftconvolve(padded, masses[::-1], mode="valid")[lowest + before :][: len(values)]
        best = np.maximum(best, expected + infinite)
    return np.clip(best, 0.0, 1.0)


def _repeated(directions: Sequence[Floats], width: float, times: int) -> object:
    """Returns the distribution of the kind whose curve is the maximum of all, composed with itself.

    A maximum of convex curves is one, and so is the curve of some pair, which dominates each kind.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    pmfs = []
    for values in directions:
        deltas = np.asarray(values[::-1])  # at epsilon from -highest to -lowest
        lower = -math.ceil(_HIGHEST / width)
        lowest, masses = sampled.repeated(lower, sampled.connected(deltas, width), times)
        infinite = sampled.TAIL - math.expm1(times * math.log1p(-float(deltas[-1])))
        pmfs.append(pld_pmf.DensePLDPmf(width, lowest, masses, infinite, True))
    return privacy_loss_distribution.PrivacyLossDistribution(*pmfs)


def _dense(pmf: object) -> Losses:
    dense = pmf.to_dense_pmf()  # type: ignore[attr-defined]
    return int(dense._lower_loss), np.asarray(dense._probs), float(dense._infinity_mass)
