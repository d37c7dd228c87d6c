"""A threshold on counts with Gaussian noise, alone or beside the sums of a joint release."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from reticent.privacy import events
from reticent.privacy.selection.laws import Floats

# Steps per unit of length on the public integer grid of sums and counts; `gate.grid` draws on it.
SCALE = 1 << 20


def count_step(count_weight: float) -> int:
    """Returns what one example adds to its count slot: c in grid steps, rounded down."""
    return math.floor(math.sqrt(count_weight) * SCALE)


def gaussian_threshold(noise_multiplier: float, count_weight: float, exposure: float) -> float:
    """Returns tau such that a single example passes with probability at most `exposure`, rounded up."""
    spread = noise_multiplier * SCALE / count_step(count_weight)
    tau = 1 - spread * float(ndtri(exposure))
    return tau + 1e-12 * (abs(tau) + spread)


@dataclass(frozen=True)
class GaussianLaw:
    """The threshold on the count slot of a joint Gaussian, or on counts alone (THEORY section 4).

    Guarantees (one example per person, add or remove one example):
      - (epsilon, max(delta_G(epsilon), p1))-DP together with the vectors behind the threshold.
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
        """Standard deviation of the noisy count, in examples, with the count step as rounded to the grid."""
        return self.event.noise_multiplier * SCALE / count_step(self.event.count_weight)

    def release_probability(self, sizes: npt.ArrayLike) -> Floats:
        """Returns the probability of release for each class size."""
        n = np.asarray(sizes, dtype=np.float64)
        passed: Floats = ndtr((n - self.threshold) / self.count_noise)
        return np.where(n <= 0, 0.0, passed)

    def exposures(self, most: int) -> list[float]:
        """Returns for j = 0..most the largest chance that j examples of one person on new labels expose any of them.

        The worst split is all j on one label, or each on a label of its own. ln Pr[none released] adds up over labels,
        and its part of a label with n examples, ln Pr[noise <= tau - n], is concave in n. So for k labels the sum is
        smallest at a corner, (j - k + 1, 1, ..., 1), and as a function of k at k = 1 or k = j.
        """
        sizes = np.arange(most + 1)
        with np.errstate(divide="ignore"):
            hidden = np.log1p(-self.release_probability(sizes))
        if most:
            hidden[1:] = np.minimum(hidden[1:], sizes[1:] * hidden[1])
        chances: list[float] = (-np.expm1(hidden)).tolist()
        return chances
