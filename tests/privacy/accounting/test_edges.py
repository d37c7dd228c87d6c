"""Compositions at their edges: no task, a budget used to the last digit, kinds that only some tasks have."""

import math

import numpy as np
import pytest

from reticent import Budget
from reticent.privacy import accounting, events, renyi, repeats, selection
from reticent.privacy.accounting import stream

LABELS = events.OptimalSelection(epsilon=1.0, delta=1e-5)
TRAINING = events.DpSgd(noise_multiplier=2.0, rate=0.1, steps=5)


def test_no_task_loses_nothing():
    assert accounting.stream_delta([], 1.0, 1) == 0.0
    assert accounting.stream_delta([events.Public()], 0.0, 3) == 0.0


def test_a_budget_may_be_used_to_its_last_digit():
    assert accounting.delta(LABELS, 1.0) == 1e-5
    assert accounting.within(LABELS, Budget(epsilon=1.0, delta=1e-5))


def test_gaussians_beyond_use_have_no_bound():
    assert stream._gaussian_event(1e300, 0.0) == events.NonPrivate()


@pytest.mark.parametrize(("eta", "gamma"), [(1.0, 0.8), (0.0, 0.7)])
def test_hardly_more_than_one_run(eta, gamma):
    run = events.Gaussian(noise_multiplier=2.0)
    mean = repeats.mean(eta, gamma)
    assert 1 < mean < 2
    one = np.asarray(renyi.of(run).divergences)
    inside = min(-math.log(gamma), float(((1 - 1 / renyi.ORDERS) * one - math.log(gamma) / renyi.ORDERS).min()))
    expected = one + (1 + eta) * inside + math.log(mean) / (renyi.ORDERS - 1)
    found = renyi.of(events.PrivateSelection(run=run, eta=eta, gamma=gamma)).divergences
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_slips_of_many_runs_are_no_more_than_certain():
    event = events.PrivateSelection(run=events.Exposure(chance=0.5), eta=1.0, gamma=0.1)
    assert renyi.of(event).slip == 1.0
    assert renyi.of(event).delta(50.0) == 1.0


def test_a_test_that_passes_from_the_first_example_on():
    assert selection.BinaryTestLaw(1.0, lambda n: 0.9).threshold == 1
