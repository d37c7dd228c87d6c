"""Rényi divergences of every kind of event, written out again: no less than the formula, and hardly more."""

import math

import mpmath
import numpy as np
import pytest

from reticent.privacy import events, pld, renyi, repeats, selection
from reticent.privacy.renyi import ORDERS, Bound

JOINT = events.JointGaussian(noise_multiplier=3.0, count_weight=0.2, threshold=20.0, examples_per_person=2)
COUNTS = events.LabelCounts(noise_multiplier=5.0, threshold=25.0)
TRAINING = events.DpSgd(noise_multiplier=2.0, rate=0.25, steps=7)


def agrees(bound: Bound, divergences: np.ndarray, slip: float = 0.0, shift: float = 0.0) -> None:
    found = np.asarray(bound.divergences)
    np.testing.assert_allclose(found, divergences, rtol=1e-8)
    assert (found >= divergences * (1 - 1e-13)).all()
    assert bound.slip == pytest.approx(slip, rel=1e-8)
    assert bound.shift == pytest.approx(shift, rel=1e-8)


def subsampled(order: float, noise: float, rate: float) -> float:
    """At a whole order: ln E[L^order] / (order - 1), by the binomial sum."""
    with mpmath.workdps(50):
        q, n = mpmath.mpf(rate), int(order)
        terms = [
            mpmath.binomial(n, k) * q**k * (1 - q) ** (n - k) * mpmath.exp(mpmath.mpf(k * (k - 1)) / (2 * noise**2))
            for k in range(n + 1)
        ]
        return float(mpmath.log(mpmath.fsum(terms)) / (n - 1))


def test_orders_are_many_and_above_one():
    assert ORDERS[0] == 1.01
    assert {1.05, 1.1, 2.0, 9.9, 10, 64, 70} <= set(ORDERS.tolist())
    assert ORDERS[-1] == round(64 * 1.1**65)
    assert len(ORDERS) == 9 + 89 + 55 + 65
    assert (np.diff(ORDERS) >= 0).all()


def test_plain_events():
    agrees(renyi.of(events.Gaussian(noise_multiplier=2.0, examples_per_person=3)), ORDERS * 1.5**2 / 2)
    agrees(renyi.of(events.Public()), 0 * ORDERS)
    agrees(renyi.of(events.Exposure(chance=0.2)), 0 * ORDERS, 0.2, -math.log(0.8))
    agrees(renyi.of(events.DpSgd(noise_multiplier=2.0, rate=1.0, steps=9)), 9 * ORDERS / 8)
    assert set(renyi.of(events.NonPrivate()).divergences) == {math.inf}
    assert renyi._contained(ORDERS, 1.0).shift == math.inf


def test_counts_and_joint_releases():
    chance = selection.GaussianLaw(JOINT).exposures(2)[2]
    agrees(renyi.of(JOINT), ORDERS * (2 / 3) ** 2 / 2, chance, -math.log1p(-chance))
    chance = selection.GaussianLaw(COUNTS).exposures(1)[1]
    agrees(renyi.of(COUNTS), ORDERS / 25 / 2, chance, -math.log1p(-chance))


@pytest.mark.parametrize("m", [1, 2])
def test_label_selection_is_the_worst_coin(m):
    event = events.OptimalSelection(epsilon=0.4, delta=1e-4, examples_per_person=m)
    epsilon, delta = pld.group(event)
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    logs = np.logaddexp(
        ORDERS * math.log(p) + (1 - ORDERS) * math.log(1 - p), ORDERS * math.log(1 - p) + (1 - ORDERS) * math.log(p)
    )
    agrees(renyi.of(event), np.minimum(logs / (ORDERS - 1), epsilon), delta, -math.log1p(-delta))


def test_sampled_steps_at_whole_orders_and_between():
    found = np.asarray(renyi.of(TRAINING).divergences)
    logs = {n: 7 * subsampled(n, 2.0, 0.25) * (n - 1) for n in (2, 3, 4, 17, 64)} | {1: 0.0}
    for order in (2, 3, 4, 17, 64):
        assert found[order == ORDERS][0] == pytest.approx(logs[order] / (order - 1), rel=1e-8)
    for between, low in ((1.05, 1), (1.1, 1), (2.5, 2), (3.9, 3)):  # the chord
        chord = logs[low] + (between - low) * (logs[low + 1] - logs[low])
        assert found[between == ORDERS][0] == pytest.approx(chord / (between - 1), rel=1e-8)


def test_compositions_add_up():
    together = renyi.of(events.LabelledTraining(counts=COUNTS, training=TRAINING))
    parts = [renyi.of(COUNTS), renyi.of(TRAINING)]
    total = np.asarray(parts[0].divergences) + np.asarray(parts[1].divergences)
    agrees(together, total, parts[0].slip, parts[0].shift)
    composed = renyi.of(events.Composed((COUNTS, JOINT, COUNTS)))
    joint, counts = renyi.of(JOINT), renyi.of(COUNTS)
    total = np.asarray(joint.divergences) + 2 * np.asarray(counts.divergences)
    agrees(composed, total, joint.slip + 2 * counts.slip, joint.shift + 2 * counts.shift)


@pytest.mark.parametrize(("eta", "gamma"), [(0.0, 0.1), (1.0, 0.05), (-0.5, 0.01), (2.0, 0.6)])
@pytest.mark.parametrize("run", [JOINT, events.Gaussian(noise_multiplier=0.3), events.Gaussian(noise_multiplier=9.0)])
def test_private_selection_is_its_theorem(eta, gamma, run):
    """Papernot and Steinke 2022, Theorem 2, with the slip of every run and the shift of the chosen one."""
    one = renyi.of(run)
    divergences, mean = np.asarray(one.divergences), repeats.mean(eta, gamma)
    choices = [(1 - 1 / y) * d + math.log(1 / gamma) / y for y, d in zip(ORDERS, divergences, strict=True)]
    spread = min(math.log(1 / gamma), *choices)
    expected = divergences + (1 + eta) * spread + math.log(max(mean, 1.0)) / (ORDERS - 1)
    lost = 1 - math.exp(-one.shift)
    shift = one.shift + (1 + eta) * math.log(1 + lost * (1 - gamma) / gamma)
    event = events.PrivateSelection(run=run, eta=eta, gamma=gamma)
    agrees(renyi.of(event), expected, min(1.0, mean * one.slip), shift)


@pytest.mark.parametrize(("slip", "shift"), [(0.0, 0.0), (1e-6, 0.0), (1e-6, 0.3)])
def test_bounds_become_epsilon_and_delta_by_their_formula(slip, shift):
    """Canonne, Kamath, Steinke 2020, Proposition 12, at every order."""
    bound = Bound(tuple(ORDERS * 0.05), slip, shift)
    for epsilon in (0.5, 1.0, 2.0):
        best = min(
            math.exp((x - 1) * (0.05 * x - (epsilon - shift))) / x * (1 - 1 / x) ** (x - 1)
            for x in ORDERS.tolist()
            if (x - 1) * (0.05 * x - (epsilon - shift)) < 600
        )
        assert bound.delta(epsilon) == pytest.approx(min(1.0, slip + best), rel=1e-9)
    for delta in (1e-9, 1e-5, 1e-2):
        left = delta - slip
        best = (
            min(
                (0.05 * x + math.log(1 - 1 / x) - (math.log(left) + math.log(x)) / (x - 1) for x in ORDERS), default=0.0
            )
            if left > 0
            else math.inf
        )
        assert bound.epsilon(delta) == pytest.approx(best + shift, rel=1e-9)
    assert Bound(tuple(0 * ORDERS)).epsilon(0.5) == 0.0
    assert Bound(tuple(0 * ORDERS), 1.0).delta(9.0) == 1.0
    assert Bound(tuple(0 * ORDERS), 0.1).epsilon(0.1) == math.inf


def test_spending_no_more_means_at_every_order_and_in_slip_and_shift():
    less, more = events.Gaussian(noise_multiplier=2.0), events.Gaussian(noise_multiplier=1.0)
    assert renyi.spends_no_more(less, less)
    assert renyi.spends_no_more(less, more)
    assert not renyi.spends_no_more(more, less)
    assert not renyi.spends_no_more(COUNTS, more)  # a chance of exposure, though less divergence
    assert renyi.spends_no_more(events.Exposure(chance=0.1), events.Exposure(chance=0.1))
    assert not renyi.spends_no_more(events.Exposure(chance=0.2), events.Exposure(chance=0.1))
    # crossing: more at low orders, less at high ones
    coin = events.OptimalSelection(epsilon=1.0, delta=1e-12)
    assert not renyi.spends_no_more(coin, events.Gaussian(noise_multiplier=1.5))
    assert not renyi.spends_no_more(events.Gaussian(noise_multiplier=1.5), coin)
