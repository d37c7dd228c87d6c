"""Private selection: the best of a random number of runs, against laws that can be written down exactly."""

import dataclasses
import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from dp_accounting import dp_event, rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chisquare, norm

from reticent import Adjacency, Budget, errors
from reticent.gate.noise import NoiseSource
from reticent.gate.repeats import number_of_runs
from reticent.numerics import precision
from reticent.privacy import accounting, events, planning, renyi, repeats, selection
from reticent.privacy.statement import Spend, Statement
from tests.conftest import ALPHA

Floats = npt.NDArray[np.float64]
BUDGET = Budget(epsilon=1.0, delta=1e-5)
LAWS = [(0.0, 0.01), (1.0, 0.05), (-0.5, 0.02), (2.5, 0.3)]
RUN = events.Gaussian(noise_multiplier=accounting.gaussian_sigma(BUDGET))


def best_of(run: Floats, eta: float, gamma: float) -> Floats:
    """The law of the best run, where outcomes are listed from the worst score to the best.

    Pr[best <= y] = f(Pr[run <= y]) with the generating function f of the number of runs.
    """
    upto = np.concatenate([[0.0], np.cumsum(run)])
    if eta == 0:
        grown = np.log1p(-(1 - gamma) * upto) / math.log(gamma)
    else:
        grown = np.expm1(-eta * np.log1p(-(1 - gamma) * upto)) / math.expm1(-eta * math.log(gamma))
    law: Floats = np.diff(grown)
    return law


def assert_covered(event: events.Event, law: Floats, other: Floats, slack: float = 0.0) -> None:
    for epsilon in (0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0):
        assert float(selection.hockey_stick(law, other, epsilon)) <= accounting.delta(event, epsilon) + slack


# --- what is claimed covers what is exact


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
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


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
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


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
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


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_best_of_noisy_sums_is_covered(eta, gamma, rate):
    """A Gaussian or one subsampled step on a fine grid, whose score is the noisy sum itself, or minus it."""
    edges = np.linspace(-12, 13, 8_001)
    base = np.diff(norm.cdf(edges))
    moved = (1 - rate) * base + rate * np.diff(norm.cdf(edges - 0.5))
    event = events.PrivateSelection(run=events.DpSgd(noise_multiplier=2.0, rate=rate, steps=1), eta=eta, gamma=gamma)
    for first, second in ((base, moved), (base[::-1], moved[::-1])):
        assert_covered(event, best_of(first, eta, gamma), best_of(second, eta, gamma), slack=1e-12)


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
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
        events.to_json(event)
    with pytest.raises(errors.InvalidValue, match="eta > -1"):
        accounting.private_selection(RUN, mean_runs=20, eta=-1.5)
    with pytest.raises(errors.InvalidValue, match="runs > 1"):
        accounting.private_selection(RUN, mean_runs=1)
    with pytest.raises(errors.InvalidValue, match="No gamma"):
        accounting.private_selection(RUN, mean_runs=1e12)


def test_streams_with_tuning_are_bounded_from_above():
    tasks: list[events.Event] = [accounting.private_selection(RUN, mean_runs=mean) for mean in (5, 10)]
    tasks += [events.Gaussian(noise_multiplier=4.0 + i) for i in range(5)]
    exact = accounting.epsilon(events.compose(*tasks[:2]), 1e-5)
    assert accounting.stream_cost(tasks, 1e-5, 2).epsilon >= exact


def test_statement_names_the_selection():
    event = accounting.private_selection(RUN, mean_runs=5)
    spend = Spend(row=1, at="2025-01-01", task="tuning", event=event, private=True)
    statement = Statement(budget=Budget(epsilon=3.0, delta=1e-5), spends=[spend])
    assert "PrivateSelection(run=Gaussian(" in statement.text()
    assert statement.json()["rows"][0]["event"]["run"]["kind"] == "Gaussian"


# --- the number of runs


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
def test_law_of_the_number_of_runs(eta, gamma):
    event = events.PrivateSelection(run=RUN, eta=eta, gamma=gamma)
    with precision.bits(200) as mp:
        chances = [repeats.pmf(event, k, mp) for k in range(1, 6_000)]
        assert float(mp.fsum(chances)) == pytest.approx(1, abs=1e-12)
        mean = float(mp.fsum(k * chance for k, chance in enumerate(chances, start=1)))
        for k in (1, 2, 7, 40):
            tail = 1 - mp.fsum(chances[: k - 1])
            assert float(repeats.hazard(event, k, mp) * tail / chances[k - 1]) == pytest.approx(1, rel=1e-12)
    assert repeats.mean(eta, gamma) == pytest.approx(mean, rel=1e-9)
    assert repeats.gamma(eta, mean) == pytest.approx(gamma, rel=1e-9)
    # the generating function used above, at one point
    assert best_of(np.array([0.3, 0.7]), eta, gamma)[0] == pytest.approx(
        sum(float(chance) * 0.3**k for k, chance in enumerate(chances[:60], start=1)), rel=1e-9
    )


def follows(draws: list[int], event: events.PrivateSelection) -> bool:
    """Chi-square over 1, 2, ..., 12 and all beyond."""
    with precision.bits(128) as mp:
        expected = [float(repeats.pmf(event, k, mp)) for k in range(1, 13)]
    expected.append(1 - sum(expected))
    observed = np.bincount(np.minimum(draws, 13), minlength=14)[1:]
    return bool(chisquare(observed, np.array(expected) * len(draws)).pvalue >= ALPHA)


@pytest.mark.parametrize(("eta", "gamma"), [(0.0, 0.05), (1.0, 0.2), (-0.5, 0.02), (2.0, 0.4)])
def test_number_of_runs_follows_its_pmf(eta, gamma, rng):
    event = events.PrivateSelection(run=RUN, eta=eta, gamma=gamma)
    draws = [number_of_runs(event, rng=rng) for _ in range(4_000)]
    assert follows(draws, event)
    # mutants: one run too many, and another shape
    assert not follows([k + 1 for k in draws], event)
    other = dataclasses.replace(event, eta=eta + 1)
    assert not follows([number_of_runs(other, rng=rng) for _ in range(4_000)], event)


def test_doubtful_coins_are_decided_exactly(monkeypatch):
    """With bounds that decide nothing, every coin takes the exact road; both roads give the same runs."""
    event = events.PrivateSelection(run=RUN, eta=0.0, gamma=0.1)
    fast = [number_of_runs(event, rng=NoiseSource.seeded(seed)) for seed in range(40)]
    below = NoiseSource.below

    def undecided(self, low, high, exact):
        return below(self, np.zeros_like(low), np.ones_like(high), exact)

    monkeypatch.setattr(NoiseSource, "below", undecided)
    assert [number_of_runs(event, rng=NoiseSource.seeded(seed)) for seed in range(40)] == fast
