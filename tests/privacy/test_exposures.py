"""The chance that a new label is seen, beside whatever else is released: both directions, by formula."""

import math
from dataclasses import dataclass

import mpmath
import pytest

from reticent.privacy import accounting, events, gaussian, profiles


@dataclass(frozen=True)
class Cliff:
    """A profile that falls at once, so that the direction with the shifted loss is the larger one."""

    def delta(self, epsilon: float) -> float:
        return 0.9 if epsilon < 1 else 0.0

    def epsilon(self, delta: float) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("epsilon", "expected"), [(0.0, 1.0), (0.2, 1.0), (1.2, 0.9), (1.35, 0.9), (1.36, 0.3), (5.0, 0.3)]
)
def test_an_exposure_shifts_the_loss_in_the_other_direction(epsilon, expected):
    """Not seen, everything else is less likely by the factor 0.7, and -ln 0.7 is 0.357."""
    assert profiles.Exposed(Cliff(), 0.3).delta(epsilon) == pytest.approx(expected)


def test_an_exposure_of_a_small_chance_shifts_by_little():
    found = profiles.Exposed(Cliff(), 0.05)
    assert found.delta(1.05) == pytest.approx(0.9)  # 0.05 and a loss of 1.05 - 0.0513 < 1
    assert found.delta(0.01) == pytest.approx(0.95)


def test_epsilon_beside_an_exposure_is_shifted():
    assert profiles.Exposed(Cliff(), 0.3).epsilon(0.5) == pytest.approx(1 - math.log1p(-0.3))
    assert profiles.Exposed(Cliff(), 0.3).epsilon(0.3) == math.inf


@pytest.mark.parametrize(
    ("mu", "chance", "epsilon"), [(1.0, 0.4, 1.05), (1.0, 0.1, 0.3), (0.5, 0.5, 1.0), (2.0, 0.6, 3.5)]
)
def test_exposures_add_to_a_gaussian(mu, chance, epsilon):
    """For a Gaussian the chance beside delta is the larger direction."""
    found = profiles.Exposed(profiles.PlainGaussian(mu), chance).delta(epsilon)
    assert found == min(1.0, chance + gaussian.delta(mu, epsilon))


def test_composed_gaussians_have_no_less_than_their_exact_mu():
    for count in range(2, 12):
        parts = [events.Gaussian(noise_multiplier=1.1 + 0.37 * i) for i in range(count)]
        found = profiles.of(events.compose(*parts))
        assert isinstance(found, profiles.PlainGaussian)
        with mpmath.workprec(200):
            exact = mpmath.sqrt(mpmath.fsum(1 / mpmath.mpf(part.noise_multiplier) ** 2 for part in parts))
            assert exact <= mpmath.mpf(found.mu) <= exact * (1 + 1e-13)


def test_a_person_in_one_of_two_tasks_may_be_in_the_dearer_one():
    cheap, dear = events.Gaussian(noise_multiplier=9.0), events.Gaussian(noise_multiplier=3.0)
    alone = accounting.cost(dear, 1e-5)
    for tasks in ([cheap, dear], [dear, cheap]):
        found = accounting.stream_cost(tasks, 1e-5, 1)
        assert (found.epsilon, found.replace_one) == (alone.epsilon, alone.replace_one)
