"""The model of expected accuracy for persons with several examples, and its sum, term by term."""

import math
from statistics import NormalDist

import pytest

from reticent import Budget
from reticent.privacy import accounting
from reticent.privacy.count_weights import expected_accuracy


@pytest.mark.parametrize("examples", [1, 4, 20])
@pytest.mark.parametrize("horizon", [None, 12])
def test_expected_accuracy_is_a_mean_of_a_thousand_sizes(examples, horizon):
    budget = Budget(epsilon=1.0, delta=1e-5, examples_per_person=examples)
    sigma, normal, weight = accounting.gaussian_sigma(budget), NormalDist(), 0.18
    exposed = 1e-5 if horizon is None else 1e-5 / 20 / (2 * horizon - 1)
    threshold = examples - normal.inv_cdf(exposed) * sigma / math.sqrt(weight)
    total = 0.0
    for i in range(1, 1001):
        size = i * 0.078  # in noise
        s = math.sqrt(1 - weight) * size
        total += normal.cdf(math.sqrt(weight) * (size - threshold / sigma)) * s**3 / (s**3 + 13**3)
    assert expected_accuracy(budget, weight, horizon=horizon) == pytest.approx(total / 1000, rel=1e-7)
