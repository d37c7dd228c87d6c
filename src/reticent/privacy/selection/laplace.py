"""A count plus Laplace noise: the paper's example of its generic construction."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reticent.numerics import precision
from reticent.privacy import events
from reticent.privacy.selection.laws import WORKING_BITS, Floats, to_coin, with_margin


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
        """Returns x with Pr[Lap(1) > x] = delta."""
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
        with precision.bits(WORKING_BITS) as mp:
            epsilon, delta = with_margin(self.event, mp)
            reach = -mp.log(2 * delta) if delta <= 0.5 else mp.log(2 * (1 - delta))
            short = reach - (size - 1) * epsilon
            return to_coin(mp.exp(-short) / 2 if short >= 0 else 1 - mp.exp(short) / 2, mp)
