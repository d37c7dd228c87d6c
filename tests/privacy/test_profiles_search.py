"""The search for the smallest epsilon, on curves that a test makes up."""

import math

import pytest

from reticent.privacy.rounding import smallest_epsilon


def falls(at: float, to: float = 0.0):
    return lambda epsilon: to if epsilon >= at else 1.0


@pytest.mark.parametrize("at", [1e-6, 7e-4, 1e-3, 0.5, 1_500.0])
@pytest.mark.parametrize("to", [0.0, 0.5], ids=["below", "equal"])
def test_the_place_where_a_curve_falls_is_found(at, to):
    found = smallest_epsilon(falls(at, to), 0.5)
    assert at <= found <= at * (1 + 1e-11)


def test_a_curve_that_is_low_enough_at_zero_costs_nothing():
    assert smallest_epsilon(lambda _: 0.5, 0.5) == 0
    assert smallest_epsilon(falls(1e-9), 0.5) > 0


def test_a_curve_that_rises_again_is_met_where_it_is_low():
    """As a group bound does, with the rounding error that it multiplies; in steps of 1.3 no such valley is missed."""
    for low in (0.01, 0.7, 1.0, 40.0):

        def valley(epsilon: float, low: float = low) -> float:
            return 0.0 if low <= epsilon <= 1.35 * low else 1.0

        found = smallest_epsilon(valley, 0.5)
        assert low <= found <= low * (1 + 1e-11)


def test_a_curve_that_never_falls_has_no_epsilon():
    assert smallest_epsilon(lambda _: 1.0, 0.5) == math.inf
    assert smallest_epsilon(falls(3_000.0), 0.5) == math.inf
