"""The mechanism that releases every size as often as (epsilon, delta)-DP allows."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reticent.numerics import precision
from reticent.privacy import events
from reticent.privacy.selection.laws import WORKING_BITS, Floats, to_coin, turning_point, with_margin


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
        """n1: up to here the probability of release grows by e^epsilon, beyond it that of a drop shrinks by it."""
        with precision.bits(WORKING_BITS) as mp:
            return 1 + int(mp.floor(turning_point(*with_margin(self.event, mp), mp)))

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
        with precision.bits(WORKING_BITS) as mp:
            epsilon, delta = with_margin(self.event, mp)
            step = delta / mp.expm1(epsilon)
            rising = min(mp.mpf(1), step * mp.expm1(min(max(size, 0), self.turn) * epsilon))
            beyond = max(size - self.turn, 0) * epsilon
            drop = mp.exp(-beyond) * (1 - rising) + mp.expm1(-beyond) * step
            return to_coin(rising if size <= self.turn else 1 - max(mp.mpf(0), drop), mp)
