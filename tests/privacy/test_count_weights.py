"""The default weight of counts: a model of expected accuracy, written out again here, and what it must do."""

import math
from statistics import NormalDist

import pytest

from reticent import Adjacency, Budget, errors
from reticent.privacy import accounting, count_weights, planning, selection
from reticent.privacy.count_weights import default_count_weight, expected_accuracy

BUDGET = Budget(epsilon=1.0, delta=1e-5)
BUDGETS = [
    BUDGET,
    Budget(epsilon=8.0, delta=1e-5),
    Budget(epsilon=0.1, delta=1e-9),
    Budget(epsilon=1.0, delta=1e-5, tasks_per_person=3),
    Budget(epsilon=1.0, delta=1e-5, examples_per_person=4),
    Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE),
]


def by_hand(sigma: float, threshold: float, weight: float) -> float:
    """The formula of the module's text, one size at a time."""
    normal, total = NormalDist(), 0.0
    for i in range(1, 1001):
        size = i * 0.078 * sigma
        released = normal.cdf(math.sqrt(weight) * (size - threshold) / sigma)
        s = math.sqrt(1 - weight) * size / sigma
        total += released * s**3 / (s**3 + 13.0**3)
    return total / 1000


@pytest.mark.parametrize("weight", [0.01, 0.1, 0.18, 0.6])
def test_expected_accuracy_is_its_formula(weight):
    sigma = accounting.gaussian_sigma(BUDGET)
    threshold = 1 + NormalDist().inv_cdf(1 - 1e-5) * sigma / math.sqrt(weight)
    assert expected_accuracy(BUDGET, weight) == pytest.approx(by_hand(sigma, threshold, weight), rel=1e-4)
    threshold = 1 + NormalDist().inv_cdf(1 - 1e-5 / 20 / 23) * sigma / math.sqrt(weight)
    assert expected_accuracy(BUDGET, weight, horizon=12) == pytest.approx(by_hand(sigma, threshold, weight), rel=1e-4)


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_model_has_the_threshold_of_the_mechanism(budget):
    """To within what a search for the exact threshold adds: the model is no second mechanism."""
    event = planning.joint_gaussian(budget, 0.2)
    threshold = event.threshold
    model = selection.gaussian_threshold(event.noise_multiplier, 0.2, count_weights._exposure(budget, None))
    assert model + budget.examples_per_person - 1 == pytest.approx(threshold, rel=0.05)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("horizon", [None, 1, 120])
def test_default_weight_is_the_best_of_its_model(budget, horizon):
    best = default_count_weight(budget, horizon=horizon)
    most = expected_accuracy(budget, best, horizon=horizon)
    others = [i / 1000 for i in range(5, 990, 5)]
    assert most >= max(expected_accuracy(budget, weight, horizon=horizon) for weight in others) - 1e-4
    assert 0.1 < best < 0.4


def test_default_weight_follows_the_threshold():
    """What raises the threshold raises the weight: a smaller delta, more looks."""
    weights = [default_count_weight(Budget(epsilon=1.0, delta=delta)) for delta in (1e-3, 1e-5, 1e-7, 1e-9)]
    assert weights == sorted(set(weights))
    looks = [default_count_weight(BUDGET, horizon=horizon) for horizon in (1, 1_000)]
    assert default_count_weight(BUDGET) < looks[0] < looks[1]


def test_delta_zero_has_no_weight():
    with pytest.raises(errors.InvalidValue, match="public superset"):
        default_count_weight(Budget(epsilon=1.0, delta=0.0))
