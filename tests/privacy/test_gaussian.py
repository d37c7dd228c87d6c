import math

import mpmath
import pytest
from dp_accounting import gaussian_mechanism
from hypothesis import given
from hypothesis import strategies as st

from reticent.privacy import gaussian

EPSILONS = [1e-6, 1e-3, 0.1, 1.0, 8.0, 20.0]
DELTAS = [1e-15, 1e-9, 1e-5, 0.1]


def exact_delta(mu: float, epsilon: float) -> float:
    """By integrating the density above the point where the loss exceeds epsilon: independent of the formula."""
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        cut = e / m + m / 2
        above = [cut, cut + 1, cut + 5, cut + 40]
        mass = mpmath.quad(lambda x: mpmath.npdf(x - m) - mpmath.exp(e) * mpmath.npdf(x), above)
        return float(mass)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
def test_delta_is_the_integral(mu, epsilon):
    assert gaussian.delta(mu, epsilon) == pytest.approx(exact_delta(mu, epsilon), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_largest_mu_is_tight_and_safe(epsilon, delta):
    mu = gaussian.largest_mu(epsilon, delta)
    assert gaussian.delta(mu, epsilon) <= delta
    assert gaussian.delta(mu * (1 + 1e-9), epsilon) > delta


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_agrees_with_google(epsilon):
    ours = 1 / gaussian.largest_mu(epsilon, 1e-5)
    assert ours == pytest.approx(gaussian_mechanism.get_sigma_gaussian(epsilon, 1e-5), rel=1e-6)


def test_golden_sigma():
    assert 1 / gaussian.largest_mu(1.0, 1e-5) == pytest.approx(3.7306, abs=1e-4)


@given(st.floats(0.01, 5), st.floats(1e-12, 0.4))
def test_epsilon_inverts_delta(mu, target):
    epsilon = gaussian.epsilon(mu, target)
    assert gaussian.delta(mu, epsilon) <= target
    if epsilon > 1e-6:
        assert gaussian.delta(mu, epsilon * (1 - 1e-6)) > target * (1 - 1e-9)


@given(st.floats(0.01, 5), st.floats(0.01, 5), st.floats(0, 10))
def test_delta_grows_with_mu(a, b, epsilon):
    low, high = sorted((a, b))
    assert gaussian.delta(low, epsilon) <= gaussian.delta(high, epsilon) * (1 + 1e-15)


def test_nothing_costs_nothing_and_delta_zero_costs_infinity():
    assert gaussian.delta(0.0, 0.0) == 0
    assert gaussian.epsilon(0.0, 0.0) == 0
    assert gaussian.epsilon(1.0, 0.0) == math.inf
