"""Confidence limits by their definitions: tails of the binomial, and the four ways to win a membership game."""

import math

import pytest
from scipy.stats import binom

from reticent.privacy.confidence import accuracy_bound, clopper_pearson, epsilon_lower_bound


@pytest.mark.parametrize(("wins", "trials"), [(1, 10), (3, 10), (9, 10), (50, 200)])
def test_limits_are_where_the_tails_are_half_of_alpha(wins, trials):
    low, high = clopper_pearson(wins, trials, 0.1)
    assert binom.sf(wins - 1, trials, low) == pytest.approx(0.05)
    assert binom.cdf(wins, trials, high) == pytest.approx(0.05)


def test_limits_at_the_ends():
    assert clopper_pearson(0, 10, 0.1)[0] == 0.0
    assert clopper_pearson(10, 10, 0.1)[1] == 1.0
    assert binom.cdf(0, 10, clopper_pearson(0, 10, 0.1)[1]) == pytest.approx(0.05)
    assert binom.sf(9, 10, clopper_pearson(10, 10, 0.1)[0]) == pytest.approx(0.05)


def test_no_attacker_is_better_than_the_bound():
    """Randomised response that slips with chance delta: the best guess is right this often."""
    for epsilon, delta in ((0.0, 0.0), (0.0, 0.2), (1.0, 0.1), (2.0, 0.3)):
        expected = 0.5 * (1 + delta) + 0.5 * (1 - delta) * math.tanh(epsilon / 2)
        assert accuracy_bound(epsilon, delta) == pytest.approx(expected)


def by_hand(hits: int, present: int, alarms: int, absent: int, *, delta: float, alpha: float) -> float:
    """The four directions, from the limits of both chances, each at half of alpha."""
    hit, alarm = clopper_pearson(hits, present, alpha / 2), clopper_pearson(alarms, absent, alpha / 2)
    miss, quiet = (1 - hit[1], 1 - hit[0]), (1 - alarm[1], 1 - alarm[0])
    pairs = [(hit[0], alarm[1]), (alarm[0], hit[1]), (quiet[0], miss[1]), (miss[0], quiet[1])]
    ratios = [math.log((up - delta) / down) for up, down in pairs if up > delta and down > 0]
    return max(ratios, default=0.0)


@pytest.mark.parametrize(
    "counts",
    [(900, 1000, 10, 1000), (10, 1000, 900, 1000), (999, 1000, 400, 1000), (600, 1000, 2, 1000), (50, 100, 60, 120)],
)
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.1])
def test_lower_bounds_take_the_best_of_four_directions(counts, delta):
    found = epsilon_lower_bound(*counts, delta=delta, alpha=1e-3)
    assert found == pytest.approx(by_hand(*counts, delta=delta, alpha=1e-3), rel=1e-12)


def test_nothing_is_known_of_a_mechanism_that_was_not_tried():
    assert epsilon_lower_bound(0, 1, 0, 1, delta=0.9999, alpha=1e-3) == 0.0


def test_each_direction_can_win():
    """Seen more or less often, missed more or less often: four games with the same bound."""
    games = [(990, 1000, 10, 1000), (10, 1000, 990, 1000)]
    bounds = [epsilon_lower_bound(*game, delta=0.0, alpha=1e-3) for game in games]
    assert bounds[0] == pytest.approx(bounds[1])
    assert epsilon_lower_bound(999, 1000, 900, 1000, delta=0.0, alpha=1e-3) > 1.5  # by what is missed
    assert epsilon_lower_bound(900, 1000, 999, 1000, delta=0.0, alpha=1e-3) > 1.5
