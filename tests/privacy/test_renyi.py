"""Private selection: the best of a random number of runs, against laws that can be written down exactly."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event, rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

from reticent import errors
from reticent.privacy import accounting, events, planning, renyi, selection, stored_events
from tests.privacy.best_run import BUDGET, RUN, SHAPES, Floats, best_of


def assert_covered(event: events.Event, law: Floats, other: Floats, slack: float = 0.0) -> None:
    for epsilon in (0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0):
        assert float(selection.hockey_stick(law, other, epsilon)) <= accounting.delta(event, epsilon) + slack


# --- what is claimed covers what is exact


@pytest.mark.parametrize(("eta", "gamma"), SHAPES)
@pytest.mark.parametrize("spent", [0.05, 0.5, 1.0, 3.0])
def test_best_of_toy_runs_is_covered(eta, gamma, spent):
    """Randomised response, the worst pure pair, with either answer as the better score."""
    run = events.OptimalSelection(epsilon=spent, delta=1e-12)
    event = events.PrivateSelection(run=run, eta=eta, gamma=gamma)
    coin = np.array([1, math.exp(spent)]) / (1 + math.exp(spent))
    laws = best_of(coin, eta, gamma), best_of(coin[::-1], eta, gamma)
    assert_covered(event, *laws)
    # and the check can fail: one run alone would not pay for the best of many
    assert float(selection.hockey_stick(*laws, spent)) > accounting.delta(run, spent)
    # (2 + eta) epsilon of the pure theorem is the limit
    assert accounting.epsilon(event, 1e-5) <= (2 + eta) * spent * 1.01 + 0.01


@pytest.mark.parametrize(("eta", "gamma"), SHAPES)
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_slips_of_the_runs_are_covered(eta, gamma, order):
    """The worst (epsilon, delta)-DP pair has an outcome on either side that gives everything away; any scores."""
    spent, slip = 0.3, 1e-4
    event = events.PrivateSelection(run=events.OptimalSelection(epsilon=spent, delta=slip), eta=eta, gamma=gamma)
    odds = (1 - slip) / (1 + math.exp(spent))
    pair = np.array([[slip, odds * math.exp(spent), odds, 0.0], [0.0, odds, odds * math.exp(spent), slip]])
    one, other = (best_of(law[list(order)], eta, gamma) for law in pair)
    assert_covered(event, one, other)
    if order == (1, 2, 3, 0):  # what gives away scores best: the slip of one run would not pay for it
        assert float(selection.hockey_stick(one, other, 2.0)) > 1.01 * slip


@pytest.mark.parametrize(("eta", "gamma"), SHAPES)
def test_exposures_of_the_runs_are_covered(eta, gamma):
    """A new label that is seen, and scores best or worst, beside a Gaussian; both ways."""
    joint = events.JointGaussian(noise_multiplier=4.0, count_weight=0.5, threshold=25.0)
    chance = selection.GaussianLaw(joint).exposures(1)[1]
    event = events.PrivateSelection(run=joint, eta=eta, gamma=gamma)
    hidden = np.diff(norm.cdf(np.linspace(-9, 9.25, 4_001)))
    shifted = np.diff(norm.cdf(np.linspace(-9, 9.25, 4_001) - 0.25)) * (1 - chance)
    for seen in (0, len(hidden)):
        without, having = np.insert(hidden, seen, 0.0), np.insert(shifted, seen, chance)
        for one, other in ((without, having), (without[::-1], having[::-1])):
            assert_covered(event, best_of(one, eta, gamma), best_of(other, eta, gamma), slack=1e-12)


@pytest.mark.parametrize(("eta", "gamma"), SHAPES)
@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_best_of_noisy_sums_is_covered(eta, gamma, rate):
    """A Gaussian or one subsampled step on a fine grid, whose score is the noisy sum itself, or minus it."""
    edges = np.linspace(-12, 13, 8_001)
    base = np.diff(norm.cdf(edges))
    moved = (1 - rate) * base + rate * np.diff(norm.cdf(edges - 0.5))
    event = events.PrivateSelection(run=events.DpSgd(noise_multiplier=2.0, rate=rate, steps=1), eta=eta, gamma=gamma)
    for first, second in ((base, moved), (base[::-1], moved[::-1])):
        assert_covered(event, best_of(first, eta, gamma), best_of(second, eta, gamma), slack=1e-12)


@pytest.mark.parametrize(("eta", "gamma"), SHAPES)
def test_selection_beside_other_spends_is_covered(eta, gamma):
    """Exact product of the best coin and one more coin of the same person."""
    tuned = events.PrivateSelection(run=events.OptimalSelection(epsilon=0.5, delta=1e-12), eta=eta, gamma=gamma)
    event = events.compose(tuned, events.OptimalSelection(epsilon=1.0, delta=1e-12))
    run, last = (np.array([1, math.exp(e)]) / (1 + math.exp(e)) for e in (0.5, 1.0))
    one = np.outer(best_of(run, eta, gamma), last).ravel()
    other = np.outer(best_of(run[::-1], eta, gamma), last[::-1]).ravel()
    assert_covered(event, one, other)


# --- golden numbers


def test_golden_cost_of_tuning():
    """THEORY section 7: (1, 1e-5) Gaussian runs, mean 20."""
    logarithmic, geometric = (accounting.private_selection(RUN, mean_runs=20, eta=eta) for eta in (0.0, 1.0))
    assert accounting.epsilon(logarithmic, 1e-5) == pytest.approx(2.04, abs=0.005)
    assert accounting.epsilon(geometric, 1e-5) == pytest.approx(2.51, abs=0.005)
    assert accounting.epsilon(accounting.repeat(RUN, 20), 1e-5) == pytest.approx(5.41, abs=0.005)


def test_theorem_written_out_again():
    """Papernot and Steinke 2022, Theorem 2, for a Gaussian, minimised over real orders by brute force."""
    eta, gamma, sigma, target = 0.5, 0.03, 5.0, 1e-6
    mean = eta * (1 - gamma) / (gamma * (1 - gamma**eta))
    y = np.linspace(1, 500, 500_000)
    inside = ((1 - 1 / y) * y / (2 * sigma**2) + math.log(1 / gamma) / y).min()
    x = np.linspace(1.01, 500, 500_000)
    spent = x / (2 * sigma**2) + (1 + eta) * inside + math.log(mean) / (x - 1)
    best = (spent + np.log1p(-1 / x) - (math.log(target) + np.log(x)) / (x - 1)).min()
    event = events.PrivateSelection(run=events.Gaussian(noise_multiplier=sigma), eta=eta, gamma=gamma)
    assert best * (1 - 1e-6) <= accounting.epsilon(event, target) <= best * 1.003


# --- divergences


@given(st.floats(0.5, 20.0), st.floats(1e-3, 0.9))
@settings(max_examples=20)
def test_subsampled_divergences_are_upper_bounds(noise, rate):
    """Against quadrature in both directions: equal at whole orders, above between them."""
    ours = np.asarray(renyi.of(events.DpSgd(noise_multiplier=noise, rate=rate, steps=1)).divergences)
    for index in np.flatnonzero(renyi.ORDERS <= 64)[::9]:
        order = renyi.ORDERS[index]
        z = np.linspace(-12 * noise - order, 12 * noise + order, 20_001)
        weight = norm.logpdf(z / noise) + math.log((z[-1] - z[0]) / noise / 20_000)
        loss = np.logaddexp(math.log1p(-rate), math.log(rate) + (z - 0.5) / noise**2)
        removed, added = (logsumexp(weight + power * loss) for power in (order, 1 - order))
        claimed = ours[index] * (order - 1)
        assert claimed >= max(removed, added) * (1 - 1e-9) - 1e-12
        if order % 1 == 0:
            assert claimed <= removed * (1 + 1e-6) + 1e-12


def test_googles_divergences_agree():
    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.05, dp_event.GaussianDpEvent(1.3)), 100)
    orders = [4, 16, 64]
    google = rdp.RdpAccountant(orders=orders).compose(event)._rdp
    ours = np.asarray(renyi.of(events.DpSgd(noise_multiplier=1.3, rate=0.05, steps=100)).divergences)
    np.testing.assert_allclose(ours[np.searchsorted(renyi.ORDERS, orders)], google, rtol=1e-8)


def test_renyi_curves_dominate_the_exact_ones():
    """Without selection the bound must lie above the exact curve, for every event it knows."""
    counts = events.LabelCounts(noise_multiplier=12.0, threshold=70.0)
    training = events.DpSgd(noise_multiplier=4.0, rate=0.1, steps=50)
    known = [
        RUN,
        planning.joint_gaussian(BUDGET, 0.1),
        events.OptimalSelection(epsilon=0.4, delta=1e-5),
        events.OptimalSelection(epsilon=0.1, delta=1e-6, examples_per_person=3),
        training,
        events.DpSgd(noise_multiplier=20.0, rate=1.0, steps=16),
        counts,
        events.LabelledTraining(counts=counts, training=training),
        events.Exposure(chance=1e-3),
        events.compose(RUN, RUN, training, events.Public()),
    ]
    for event in known:
        for epsilon in (0.0, 0.2, 1.0, 3.0):
            assert renyi.of(event).delta(epsilon) >= accounting.delta(event, epsilon) - 1e-10  # its Fourier slack
        assert accounting.delta(event, renyi.of(event).epsilon(1e-2)) <= 1e-2


# --- in the accountant


def test_selection_costs_more_than_a_run_and_composes_below_the_basic_bound():
    tuned = accounting.private_selection(RUN, mean_runs=5)
    assert accounting.epsilon(tuned, 1e-5) > accounting.epsilon(RUN, 1e-5)
    counts = events.LabelCounts(noise_multiplier=12.0, threshold=70.0)
    for other in (RUN, counts, events.OptimalSelection(epsilon=0.5, delta=1e-7), events.Exposure(chance=1e-6), tuned):
        both = accounting.epsilon(events.compose(tuned, other), 2e-5)
        assert accounting.epsilon(tuned, 2e-5) < both
        assert both <= renyi.of(tuned).epsilon(1e-5) + renyi.of(other).epsilon(1e-5) + 1e-6
    more = [accounting.epsilon(accounting.private_selection(RUN, mean_runs=mean), 1e-5) for mean in (1.1, 3, 20, 200)]
    assert more == sorted(more)


def test_tuning_of_tuning_and_of_what_is_not_private():
    tuned = accounting.private_selection(RUN, mean_runs=5)
    twice = accounting.private_selection(tuned, mean_runs=5)
    assert accounting.epsilon(twice, 1e-5) > accounting.epsilon(tuned, 1e-5)
    for run in (events.NonPrivate(), events.compose(RUN, events.NonPrivate())):
        exposed = events.PrivateSelection(run=run, eta=0.0, gamma=0.5)
        assert accounting.epsilon(exposed, 1e-5) == math.inf
        assert accounting.delta(events.compose(RUN, exposed), 50.0) == 1.0
    sure = events.PrivateSelection(run=accounting.repeat(events.Exposure(chance=0.6), 2), eta=0.0, gamma=0.5)
    assert accounting.delta(sure, 90.0) == 1.0


def test_unknown_runs_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Homemade(events.Event):
        pass

    event = events.PrivateSelection(run=Homemade(), eta=0.0, gamma=0.5)
    with pytest.raises(errors.UnsupportedEvent, match="No accountant knows Homemade"):
        accounting.epsilon(event, 1e-5)
    with pytest.raises(errors.UnsupportedEvent, match="No ledger can store Homemade"):
        stored_events.to_json(event)
    with pytest.raises(errors.InvalidValue, match="eta > -1"):
        accounting.private_selection(RUN, mean_runs=20, eta=-1.5)
    with pytest.raises(errors.InvalidValue, match="runs > 1"):
        accounting.private_selection(RUN, mean_runs=1)
    with pytest.raises(errors.InvalidValue, match="No gamma"):
        accounting.private_selection(RUN, mean_runs=1e12)
