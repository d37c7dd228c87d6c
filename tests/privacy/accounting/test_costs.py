import dataclasses
import itertools
import math
import time

import pytest

from reticent import Adjacency, Budget, errors
from reticent.privacy import accounting, events, gaussian
from tests.privacy.accounting.cases import COUNTS, EVENTS, JOINT, LABELLED, LABELS, TRAINING, one_gaussian


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_epsilon_and_delta_are_inverse(event):
    target = 1e-4
    reached = accounting.epsilon(event, target)
    assert accounting.delta(event, reached) <= target * (1 + 1e-9)
    if reached > 0.01:
        assert accounting.delta(event, reached * 0.99) > target


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_delta_falls_with_epsilon(event):
    curve = [accounting.delta(event, e) for e in (0.0, 0.05, 0.1, 0.5, 1.0, 2.0, 4.0)]
    assert all(a >= b for a, b in itertools.pairwise(curve))
    assert 0 <= curve[-1] < curve[0] <= 1


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_replacing_costs_more_than_adding(event):
    cost = accounting.cost(event, 1e-4)
    assert cost.epsilon < cost.replace_one
    twice = accounting.epsilon(events.compose(event, event), 1e-4)
    assert cost.replace_one >= twice * 0.99  # nearly twice the cost of one person


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_composition_costs_more_and_at_most_the_basic_bound(event):
    n, delta = 3, 2e-5
    alone = accounting.epsilon(event, delta)
    together = accounting.epsilon(accounting.repeat(event, n), n * delta)
    assert together <= n * alone * (1 + 1e-6)
    assert accounting.epsilon(accounting.repeat(event, n), delta) >= alone


def test_unknown_is_refused_and_non_private_is_infinite():
    @dataclasses.dataclass(frozen=True)
    class Homemade(events.Event):
        pass

    with pytest.raises(errors.UnsupportedEvent, match="No accountant knows Homemade"):
        accounting.epsilon(Homemade(), 1e-5)
    assert accounting.epsilon(events.compose(one_gaussian(9.0), events.NonPrivate()), 1e-5) == math.inf
    assert accounting.delta(events.NonPrivate(), 100.0) == 1.0
    assert accounting.epsilon(events.Public(), 0.0) == 0.0


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1"])
def test_bad_epsilon_and_delta_are_refused(bad):
    with pytest.raises(errors.InvalidValue, match="Expected epsilon"):
        accounting.delta(one_gaussian(1.0), bad)
    with pytest.raises(errors.InvalidValue, match="Expected delta"):
        accounting.epsilon(one_gaussian(1.0), bad)


def test_replace_one_of_known_labels_needs_sensitivity_two():
    """A replaced example of a known label moves a unit vector to its opposite, however small a is for unknown ones."""
    heavy = events.JointGaussian(noise_multiplier=4.0, count_weight=0.9, threshold=90.0)
    claimed = accounting.delta(heavy, 1.0, adjacency=Adjacency.REPLACE_ONE)
    assert claimed >= gaussian.delta(2 / 4.0, 1.0)


def test_more_noise_costs_less():
    costs = [accounting.epsilon(events.DpSgd(noise_multiplier=s, rate=0.1, steps=50), 1e-5) for s in (1, 2, 4)]
    assert costs[0] > costs[1] > costs[2]


@pytest.mark.parametrize("sigma", [0.5, 1.0, 37.3, 1e3, 1e6, 1e9])
def test_epsilon_just_below_delta_at_zero(sigma):
    """The answer is next to zero, where a search by factors would not move."""
    at_zero = accounting.delta(one_gaussian(sigma), 0.0)
    for target in (math.nextafter(at_zero, 0), at_zero * (1 - 1e-12), at_zero * 0.999):
        reached = accounting.epsilon(one_gaussian(sigma), target)
        assert accounting.delta(one_gaussian(sigma), reached) <= target
        assert reached < 1 / sigma


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.1])
def test_hardly_any_noise_has_a_cost(noise):
    training = events.DpSgd(noise_multiplier=noise, rate=0.1, steps=20)
    assert accounting.epsilon(training, 1e-5) > 1 / noise
    assert accounting.epsilon(events.compose(one_gaussian(noise), LABELS), 1e-5) > 1 / noise


def test_events_for_fewer_examples_than_the_budget_are_refused():
    budget = Budget(epsilon=1.0, delta=1e-5, examples_per_person=5)
    tuned = events.PrivateSelection(run=events.compose(one_gaussian(100.0)), eta=0.0, gamma=0.5)
    for event in (one_gaussian(100.0), JOINT, LABELS, COUNTS, TRAINING, LABELLED, tuned):
        with pytest.raises(errors.InvalidValue, match="5 examples per person"):
            accounting.within(event, budget)
    assert accounting.within(
        events.Gaussian(noise_multiplier=accounting.gaussian_sigma(budget), examples_per_person=5), budget
    )
    with pytest.raises(errors.InvalidValue, match="sample whole persons"):
        accounting.noise_multiplier(budget, rate=0.1, steps=10)
    with pytest.raises(errors.InvalidValue, match="sample whole persons"):
        accounting.labelled_training(budget, count_weight=0.1, rate=0.1, steps=10)


_ABSURD = [
    events.Gaussian(noise_multiplier=1.1e-100, examples_per_person=100_000),
    events.Gaussian(noise_multiplier=0.9e100),
    events.JointGaussian(noise_multiplier=1.1e-100, count_weight=0.1, threshold=0.9e15),
    events.JointGaussian(noise_multiplier=0.9e100, count_weight=0.1, threshold=-0.9e15),
    events.DpSgd(noise_multiplier=1.1e-100, rate=0.5, steps=10),
    events.DpSgd(noise_multiplier=1.1e-100, rate=1.0, steps=10),
    events.OptimalSelection(epsilon=50.0, delta=1e-5, examples_per_person=100_000),
    events.PrivateSelection(run=events.Gaussian(noise_multiplier=1.1e-100), eta=1.0, gamma=0.5),
]


@pytest.mark.parametrize("event", _ABSURD, ids=repr)
@pytest.mark.parametrize("beside", [events.Public(), events.DpSgd(noise_multiplier=2.0, rate=0.1, steps=10)], ids=repr)
def test_every_event_has_a_cost(event, beside):
    """Whatever a ledger holds: a number or infinity, and no arithmetic error."""
    cost = accounting.cost(events.compose(event, beside), 1e-5)
    assert cost.epsilon >= 0
    assert cost.replace_one >= 0


def test_long_trainings_at_low_rates_are_accounted_in_seconds():
    """Took 38 seconds and gigabytes when the grid followed the rate without a limit; the bound stays a bound."""
    training, started = events.DpSgd(noise_multiplier=0.5, rate=1e-4, steps=1_000_000), time.process_time()
    found = accounting.epsilon(training, 1e-5)
    assert time.process_time() - started < 15
    assert 3.8 < found < 4.0
