"""The search for a threshold: a budget of this test's own, that only thresholds from some point on keep."""

import pytest

from reticent import Budget, errors
from reticent.privacy import accounting, planning, selection

BUDGET = Budget(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("away", [1e-5, 0.5, 1.0, 30.0, 4e5])
def test_thresholds_are_searched_from_above(away, monkeypatch):
    sigma = accounting.gaussian_sigma(BUDGET)
    first, spread = selection.gaussian_threshold(sigma, 0.25, 1e-5), sigma / 0.5
    asked = []

    def within(event, budget):
        asked.append(event.threshold)
        return event.threshold >= first + away * spread

    monkeypatch.setattr(accounting, "within", within)
    found = planning.joint_gaussian(BUDGET, 0.25).threshold
    assert first + away * spread <= found <= first + (away + 1e-6) * spread * (1 + 1e-9)
    assert asked[:2] == [first, first + spread]
    assert len(asked) <= 60


def test_budgets_that_no_threshold_keeps_are_refused(monkeypatch):
    for away in (1.5e6, float("inf")):
        sigma = accounting.gaussian_sigma(BUDGET)
        limit = selection.gaussian_threshold(sigma, 0.25, 1e-5) + away * sigma / 0.5
        monkeypatch.setattr(accounting, "within", lambda event, budget, limit=limit: event.threshold >= limit)
        with pytest.raises(errors.InvalidValue, match="No threshold keeps this budget"):
            planning.joint_gaussian(BUDGET, 0.25)
