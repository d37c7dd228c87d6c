import dataclasses
import math

import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent import Adjacency, Budget, errors
from reticent.privacy import accounting, events, planning
from tests.privacy.accounting.cases import BUDGET, one_gaussian


@given(st.floats(0.05, 8.0), st.floats(1e-9, 1e-2), st.integers(1, 5), st.sampled_from(list(Adjacency)))
@settings(max_examples=25)
def test_calibration_never_overspends(epsilon, delta, n, adjacency):
    budget = Budget(epsilon=epsilon, delta=delta, tasks_per_person=n, adjacency=adjacency)
    event = accounting.calibrate(one_gaussian, budget)
    assert isinstance(event, events.Gaussian)
    assert accounting.within(event, budget)
    assert event.noise_multiplier == pytest.approx(
        accounting.gaussian_sigma(budget), rel=1e-4
    )  # the closed form is the oracle


def test_calibration_of_mixed_spends():
    """Counts first, then training: the count release costs little on top (THEORY section 4, with DP-SGD)."""

    def make(noise: float) -> events.Event:
        training = events.DpSgd(noise_multiplier=noise, rate=0.1, steps=100)
        return events.compose(events.Gaussian(noise_multiplier=30.0), training)

    event = accounting.calibrate(make, BUDGET)
    assert accounting.within(event, BUDGET)
    plain = accounting.noise_multiplier(BUDGET, rate=0.1, steps=100)
    assert isinstance(event, events.Composed)
    (_, training) = event.parts
    assert isinstance(training, events.DpSgd)
    assert plain < training.noise_multiplier < plain * 1.05


def test_impossible_calibrations_are_refused():
    nothing = Budget(epsilon=1.0, delta=0.0)
    with pytest.raises(errors.InvalidValue, match="delta > 0"):
        accounting.calibrate(lambda s: one_gaussian(s), nothing)
    with pytest.raises(errors.InvalidValue, match="delta > 0"):
        accounting.noise_multiplier(nothing, rate=0.1, steps=10)
    with pytest.raises(errors.InvalidValue, match="delta > 0"):
        accounting.gaussian_sigma(nothing)
    with pytest.raises(errors.InvalidValue, match="rate"):
        accounting.noise_multiplier(BUDGET, rate=2.0, steps=10)
    with pytest.raises(errors.InvalidValue, match="No noise level"):
        accounting.calibrate(lambda s: events.NonPrivate(), BUDGET)


def test_golden_noise_multipliers(golden):
    for row in golden["dpsgd"]:
        budget = Budget(epsilon=row["epsilon"], delta=1e-5)
        found = accounting.noise_multiplier(budget, rate=0.1, steps=400)
        assert found == pytest.approx(row["value"], rel=row["tolerance"])
        # never below the true value: a ten times finer grid agrees that the budget is kept
        fine = privacy_loss_distribution.from_gaussian_mechanism(
            found, sampling_prob=0.1, value_discretization_interval=2e-5 * row["epsilon"]
        ).self_compose(400)
        assert fine.get_delta_for_epsilon(row["epsilon"]) <= 1e-5


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_planned_joint_release_never_overspends(m, n, adjacency):
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=n, examples_per_person=m, adjacency=adjacency)
    event = planning.joint_gaussian(budget, 0.1)
    assert accounting.within(event, budget)
    assert event.examples_per_person == m
    # and it uses the budget: a twentieth less noise does not fit
    assert not accounting.within(dataclasses.replace(event, noise_multiplier=event.noise_multiplier * 0.95), budget)


def test_sampling_whole_persons_costs_the_same_for_any_number_of_examples():
    alone, several = (
        accounting.noise_multiplier(
            Budget(epsilon=1.0, delta=1e-5, examples_per_person=m), rate=0.1, steps=50, examples_per_person=m
        )
        for m in (1, 7)
    )
    assert alone == several


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 1), (1, 4), (2, 2)])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_labelled_training_never_overspends(n, m, adjacency):
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=n, examples_per_person=m, adjacency=adjacency)
    event = accounting.labelled_training(budget, count_weight=0.1, rate=0.1, steps=50, examples_per_person=m)
    assert accounting.within(event, budget)
    # and it uses the budget: neither a twentieth less noise nor a threshold two thirds as high fits
    less = dataclasses.replace(event.training, noise_multiplier=event.training.noise_multiplier * 0.95)
    assert not accounting.within(dataclasses.replace(event, training=less), budget)
    lower = dataclasses.replace(event.counts, threshold=event.counts.threshold * 0.66)
    assert not accounting.within(dataclasses.replace(event, counts=lower), budget)


def test_counts_are_cheap_beside_training():
    plain = accounting.noise_multiplier(BUDGET, rate=0.1, steps=50)
    event = accounting.labelled_training(BUDGET, count_weight=0.1, rate=0.1, steps=50)
    assert plain < event.training.noise_multiplier < plain * 1.06
    assert event.counts.noise_multiplier == pytest.approx(accounting.gaussian_sigma(BUDGET) / math.sqrt(0.1))
    assert accounting.epsilon(event.counts, 1e-5) < 0.4
    with pytest.raises(errors.InvalidValue, match="count_weight"):
        accounting.labelled_training(BUDGET, count_weight=1.0, rate=0.1, steps=50)
    with pytest.raises(errors.InvalidValue, match="without a public superset"):
        accounting.labelled_training(Budget(epsilon=1.0, delta=0.0), count_weight=0.1, rate=0.1, steps=50)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("n", [1, 3])
def test_tuned_training_is_calibrated(n, adjacency):
    budget = Budget(epsilon=2.0, delta=1e-5, tasks_per_person=n, adjacency=adjacency)

    def make(noise: float) -> events.Event:
        run = events.DpSgd(noise_multiplier=noise, rate=0.1, steps=50)
        return events.PrivateSelection(run=run, eta=0.0, gamma=0.05)

    event = accounting.calibrate(make, budget)
    assert accounting.within(event, budget)
    assert isinstance(event, events.PrivateSelection)
    assert isinstance(event.run, events.DpSgd)
    assert not accounting.within(make(event.run.noise_multiplier * 0.99), budget)
    assert event.run.noise_multiplier > accounting.noise_multiplier(budget, rate=0.1, steps=50)


def test_training_beside_a_spend_of_the_whole_budget_is_refused():
    whole = events.Gaussian(noise_multiplier=accounting.gaussian_sigma(BUDGET) / 2)
    with pytest.raises(errors.InvalidValue, match="leaves part of the budget"):
        accounting.training_beside(whole, BUDGET, rate=0.1, steps=10)
