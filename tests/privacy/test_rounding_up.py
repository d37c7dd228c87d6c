"""Single costs are rounded up, and compositions that nobody can bound say so."""

from fractions import Fraction

import mpmath
import pytest

from reticent.privacy import accounting, events, gaussian, pld, profiles


@pytest.mark.parametrize("mu", [0.1, 0.27, 1.0, 2.3])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.7, 1.9])
def test_delta_of_a_gaussian_is_above_the_exact_one(mu, epsilon):
    with mpmath.workprec(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        found = mpmath.mpf(gaussian.delta(mu, epsilon))
        assert exact < found < exact * (1 + mpmath.mpf(2) ** -50)


def test_delta_of_a_gaussian_without_noise_is_nearly_one():
    assert 0.999 < gaussian.delta(20.0, 0.0) <= 1


class Asked:
    """A profile that keeps what it was asked for."""

    def __init__(self) -> None:
        self.deltas: list[float] = []

    def delta(self, epsilon: float) -> float:
        raise AssertionError

    def epsilon(self, delta: float) -> float:
        self.deltas.append(delta)
        return 1.0


@pytest.mark.parametrize("chance", [0.1, 1e-3, 1e-7, 3.3e-6])
def test_what_an_exposure_leaves_of_delta_is_rounded_down(chance):
    for delta in (0.3, 0.7, 1.1 * chance, 3 * chance, 1e-3 + chance):
        asked = Asked()
        profiles.Exposed(asked, chance).epsilon(delta)
        assert Fraction(min(asked.deltas)) <= Fraction(delta) - Fraction(chance)


def test_labels_of_a_group_beyond_float64_have_no_bound_beside_others():
    labels = events.LaplaceThreshold(epsilon=99.0, delta=1e-9, examples_per_person=8)
    parts = frozenset({pld.Part(labels, 1), pld.Part(events.Gaussian(noise_multiplier=3.0), 1)})
    found = pld.compose(parts, pld.FINE)
    assert found.error == 1.0
    assert found.delta(50.0) == 1.0


def test_a_stream_is_tight_if_all_of_it_is():
    """A person in one of two tasks: the cost of one is exact, of the other an upper bound."""
    tight = events.Gaussian(noise_multiplier=3.0)
    loose = events.OptimalSelection(epsilon=0.5, delta=1e-6)
    assert accounting.stream_cost([tight], 1e-5, 1).replace_one_is_tight
    assert not accounting.stream_cost([loose], 1e-5, 1).replace_one_is_tight
    assert not accounting.stream_cost([tight, loose], 1e-5, 1).replace_one_is_tight
    assert not accounting.stream_cost([loose, tight], 1e-5, 1).replace_one_is_tight
