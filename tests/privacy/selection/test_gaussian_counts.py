import math

import mpmath
import pytest

from reticent.privacy import events, selection


def test_exposure_takes_the_worst_split():
    """Enumerates every partition of j examples over new labels."""
    law = selection.GaussianLaw(events.JointGaussian(noise_multiplier=1.0, count_weight=0.5, threshold=6.0))

    def partitions(n: int, largest: int) -> list[list[int]]:
        if n == 0:
            return [[]]
        return [[k, *rest] for k in range(min(n, largest), 0, -1) for rest in partitions(n - k, k)]

    for j, chance in enumerate(law.exposures(8)):
        quiet = [math.prod(1 - float(law.release_probability(k)) for k in split) for split in partitions(j, j)]
        assert chance == pytest.approx(1 - min(quiet), rel=1e-9, abs=1e-16)


def test_gaussian_threshold_rounds_towards_privacy():
    for exposure in (1e-15, 1e-5, 0.1):
        tau = selection.gaussian_threshold(3.7, 0.1, exposure)
        with mpmath.workdps(50):
            c = mpmath.mpf(selection.count_step(0.1)) / selection.SCALE
            passed = mpmath.ncdf((1 - mpmath.mpf(tau)) * c / 3.7)
        assert exposure * (1 - 1e-9) <= float(passed) <= exposure
