"""Searches are quick where they promise to be: an evaluation of a curve takes up to seconds."""

from collections import Counter
from collections.abc import Callable

import pytest

from reticent.budget import Budget
from reticent.privacy import accounting, events, pld
from reticent.privacy.accounting import calibration, costs
from reticent.privacy.rounding import smallest_epsilon

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def counted(curve: Callable[[float], float]) -> tuple[Callable[[float], float], list[float]]:
    asked: list[float] = []

    def count(x: float) -> float:
        asked.append(x)
        return curve(x)

    return count, asked


@pytest.mark.parametrize(("slope", "most"), [(-1.0, 2), (-0.5, 3), (-0.35, 3), (-3.0, 3), (-9.0, 4)])
def test_a_straight_line_needs_two_or_three_secants(slope, most):
    gap, asked = counted(lambda x: slope * (x - 0.7))
    assert abs(slope * (calibration._near_root(gap, 0.0) - 0.7)) < 1e-9
    assert len(asked) <= most


@pytest.mark.parametrize("away", [0.0, 1e-3, -1e-3, 0.01, -0.01])
@pytest.mark.parametrize("slope", [-0.9, -1.0, -1.2, -2.0])
def test_the_precise_search_needs_few_evaluations_near_the_root(slope, away):
    gap, asked = counted(lambda x: slope * (x - 0.7))
    found = calibration._smallest_within_budget(gap, 0.7 + away)
    assert 0 <= found - 0.7 <= 6e-5
    assert len(asked) <= 4


@pytest.mark.parametrize(("rate", "steps"), [(0.1, 400), (0.5, 10), (0.01, 1000)])
def test_training_is_calibrated_with_few_curves(monkeypatch, rate, steps):
    """The central limit is a good guess, a coarse grid comes close, and the fine one ends it."""
    resolutions: Counter[float] = Counter()
    delta_at = costs.delta_at

    def count(*arguments):
        resolutions[arguments[-1]] += 1
        return delta_at(*arguments)

    monkeypatch.setattr(calibration, "delta_at", count)
    assert accounting.noise_multiplier(BUDGET, rate=rate, steps=steps) > 0.5
    assert resolutions[pld.COARSE] <= 3
    assert resolutions[pld.FINE] <= 4


def test_an_epsilon_is_bisected_to_the_last_digits_and_no_further():
    curve, asked = counted(lambda epsilon: 1 / (1 + epsilon))
    found = smallest_epsilon(curve, 0.25)
    assert 3.0 <= found <= 3.0 * (1 + 2e-12)
    assert len(asked) < 32 + 44
    assert asked[1] == 1e-3


@pytest.mark.parametrize("delta", [1.0, 1.5, -0.1])
def test_a_delta_that_is_no_chance_is_refused(delta):
    with pytest.raises(ValueError, match="delta"):
        accounting.epsilon(events.Gaussian(noise_multiplier=1.0), delta)
