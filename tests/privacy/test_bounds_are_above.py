"""Bounds against the numbers they bound, in high precision: rounding never goes below."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest

from reticent.budget import Budget
from reticent.privacy import (
    accounting,
    confidence,
    events,
    gaussian,
    pld,
    profiles,
    renyi,
    repeats,
    replacing,
    selection,
)
from reticent.privacy.accounting import calibration

KINDS = (events.TruncatedGeometric, events.OptimalSelection, events.LaplaceThreshold)


@pytest.mark.parametrize("epsilon", [0.03, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("noise", [2.0, 3.7, 11.3])
def test_replaced_joint_releases_cost_no_less_than_the_exact_sum(epsilon, noise):
    """The sum of an exposure and a delta is rounded up, not to the nearest."""
    event = events.JointGaussian(noise_multiplier=noise, count_weight=0.1, threshold=7.3 * noise, examples_per_person=3)
    found = Fraction(replacing.OneReplacedJoint(event).delta(epsilon))
    for shared, chance in profiles.placements(event, 6):
        assert found >= min(Fraction(1), Fraction(chance) + Fraction(gaussian.delta(shared / noise, epsilon)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [0.0, 0.25, 0.5, 0.9])
def test_one_selection_costs_no_less_than_its_coins(kind, part):
    """Over all neighbouring sizes, in both directions, from the fractions that are drawn."""
    event = kind(epsilon=1.1, delta=1e-3)
    law = selection.law(event)
    coins = [law.coin(size) for size in range(3 * math.ceil(law.threshold) + 3)]
    with mpmath.workprec(600):
        whole, scale = mpmath.mpf(2) ** 256, mpmath.exp(mpmath.mpf(part * 1.1))
        pairs = list(itertools.pairwise(coins))
        exact = max(
            max(mpmath.mpf(0), mpmath.mpf(p) - scale * q) + max(mpmath.mpf(0), (whole - p) - scale * (whole - q))
            for fewer, more in pairs
            for p, q in ((fewer, more), (more, fewer))
        )
        assert mpmath.mpf(profiles.OneSelection(event).delta(part * 1.1)) >= exact / whole


def test_a_selection_never_costs_a_delta_above_one():
    event = events.LaplaceThreshold(epsilon=40.0, delta=math.nextafter(1, 0))
    assert profiles.OneSelection(event).delta(0.0) <= 1


@pytest.mark.parametrize(("k", "exact"), [(999, True), (1000, True), (1001, False), (1002, False)])
def test_selections_are_exact_up_to_a_threshold_of_a_thousand(k, exact):
    """Beyond, the worst mechanism with this epsilon and delta is taken: an upper bound."""
    low, high = 1e-4, 1.0
    law = selection.law
    while law(event := events.TruncatedGeometric(epsilon=math.sqrt(low * high), delta=1e-5)).threshold != k:
        low, high = (math.sqrt(low * high), high) if law(event).threshold > k else (low, math.sqrt(low * high))
    spent, half = event.epsilon, event.epsilon / 2
    worst = 1e-5 + (1 - 1e-5) * -math.expm1(half - spent) / (1 + math.exp(-spent))
    found = profiles.OneSelection(event).delta(half)
    assert (found < worst * (1 - 1e-9)) if exact else found == pytest.approx(worst, rel=1e-12)


def test_training_with_some_new_labels_can_be_the_worst_case():
    """Of two examples one may be on a new label: its exposure and the training of the other add up."""
    training = events.DpSgd(noise_multiplier=2.0, rate=0.05, steps=50, examples_per_person=2)
    counts = events.LabelCounts(noise_multiplier=200.0, threshold=885.0, examples_per_person=2)
    profile = profiles.of(events.LabelledTraining(counts=counts, training=training))
    one, both = selection.GaussianLaw(counts).exposures(2)[1:]
    beside = events.compose(events.Gaussian(noise_multiplier=200.0, examples_per_person=1), training)
    known = events.compose(events.Gaussian(noise_multiplier=200.0, examples_per_person=2), training)
    alone = profiles.of(beside).delta(0.8)
    assert profile.delta(0.8) >= one + alone > 1.1 * max(both, profiles.of(known).delta(0.8))


def test_renyi_bounds_end_at_one():
    much = renyi.Bound(tuple([1e3] * len(renyi.ORDERS)), slip=0.5)
    assert much.delta(0.0) == 1.0
    assert renyi.of(events.NonPrivate()) == renyi.Bound(tuple([math.inf] * len(renyi.ORDERS)), 0.0, 0.0)


@pytest.mark.parametrize("delta", [0.944, 0.9441, 0.9442, 0.9443])
def test_epsilon_of_a_renyi_bound_is_rounded_up(delta):
    """At the lowest order alone, where the rounding of delta - slip is magnified a hundredfold."""
    slip = 1e-3
    bound = renyi.Bound((0.0, *[math.inf] * (len(renyi.ORDERS) - 1)), slip=slip)
    with mpmath.workprec(200):
        order = mpmath.mpf(float(renyi.ORDERS[0]))
        left = mpmath.mpf(delta) - mpmath.mpf(slip)
        exact = mpmath.log1p(-1 / order) - (mpmath.log(left) + mpmath.log(order)) / (order - 1)
        assert exact > 0.01
        assert mpmath.mpf(bound.epsilon(delta)) >= exact


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 3e-9, 1e-8, 3e-8, 1e-7])
def test_divergences_are_never_negative(epsilon):
    found = renyi.of(events.LaplaceThreshold(epsilon=epsilon, delta=1e-9))
    assert min(found.divergences) >= 0


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("gamma", [0.5, 0.05, 0.003])
def test_the_slip_of_the_best_run_is_rounded_up(eta, gamma):
    run = events.Exposure(chance=1e-7)
    with mpmath.workprec(200):
        g, e = mpmath.mpf(gamma), mpmath.mpf(eta)
        runs = (1 - g) / (g * -mpmath.log(g)) if eta == 0 else e * (1 - g) / (g * (1 - g**e))
        slip = renyi.of(events.PrivateSelection(run=run, eta=eta, gamma=gamma)).slip
        assert runs * mpmath.mpf(1e-7) <= mpmath.mpf(slip) <= runs * mpmath.mpf(1e-7) * (1 + 1e-8)


def test_numbers_of_runs_up_to_the_ends_of_the_bracket():
    assert repeats.mean(1.0, repeats.gamma(1.0, 5e8)) == pytest.approx(5e8, rel=1e-6)
    for runs in (1 + 1e-12, 1e12):
        with pytest.raises(ValueError, match="No gamma gives"):
            repeats.gamma(1.0, runs)


def test_groups_of_much_epsilon_keep_their_delta():
    """e^699.3 is a float64 still."""
    event = events.LaplaceThreshold(epsilon=99.9, delta=1e-270, examples_per_person=7)
    epsilon, delta = pld.group(event)
    assert epsilon == pytest.approx(699.3)
    assert delta == pytest.approx(1e-270 * math.exp(599.4), rel=1e-9, abs=0)
    assert delta < 1e-6


def test_confidence_at_the_ends():
    """No hit and no alarm; and so many that a chance is 1 in float64."""
    assert confidence.epsilon_lower_bound(0, 10, 0, 10, delta=0.0, alpha=1e-6) <= 0
    many = 10**18
    assert 30 < confidence.epsilon_lower_bound(many, many, 0, many, delta=0.0, alpha=1e-6) < math.inf


def test_training_is_for_one_example_unless_said():
    budget = Budget(epsilon=1.0, delta=1e-5)
    alone = calibration.training_beside(events.Public(), budget, rate=0.5, steps=3)
    assert alone.examples_per_person == 1
    assert alone.noise_multiplier == accounting.noise_multiplier(budget, rate=0.5, steps=3)


def test_calibrations_are_checked_at_the_end(monkeypatch):
    monkeypatch.setattr(calibration, "within", lambda event, budget: False)
    with pytest.raises(AssertionError, match="overspent"):
        calibration.calibrate(lambda s: events.Gaussian(noise_multiplier=s), Budget(epsilon=1.0, delta=1e-5))


def test_labelled_training_is_checked_at_the_end(monkeypatch):
    monkeypatch.setattr(calibration, "within", lambda event, budget: not isinstance(event, events.LabelledTraining))
    with pytest.raises(AssertionError, match="overspent"):
        calibration.labelled_training(Budget(epsilon=1.0, delta=1e-5), count_weight=0.1, rate=0.5, steps=3)
