"""The paper's mechanism: a count plus truncated geometric noise."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.numerics import precision
from reticent.privacy import events
from reticent.privacy.selection.laws import WORKING_BITS, Floats, to_coin, turning_point, with_margin


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
        with precision.bits(WORKING_BITS) as mp:
            k = max(0, int(mp.ceil(turning_point(self.event.epsilon, self.event.delta, mp))))
            return k + 1 if self._tail(k, 1, mp) > with_margin(self.event, mp)[1] else k

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
        with precision.bits(WORKING_BITS) as mp:
            if size <= self.k:
                return to_coin(self._tail(self.k, max(size, 0), mp), mp)
            return to_coin(1 - self._tail(self.k, max(2 * self.k + 1 - size, 0), mp), mp)
