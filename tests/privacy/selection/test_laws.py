"""Every mechanism of the table, exactly: the probabilities that are drawn, as fractions of 2^256."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.budget import Budget
from reticent.privacy import events, planning, selection

KINDS = [row.event for row in selection.TABLE]
EPSILONS = [1e-6, 1e-3, 0.1, 1.0, 8.0, 20.0]
DELTAS = [1e-15, 1e-9, 1e-5, 0.1]


def drawn(event: events.LabelSelection, size: int) -> mpmath.mpf:
    return mpmath.mpf(selection.law(event).coin(size)) / 2**256


def exact_divergence(p: mpmath.mpf, q: mpmath.mpf, epsilon: float) -> mpmath.mpf:
    """Hockey-stick divergence of two coins: enumerated over both outcomes, both directions."""
    scale = mpmath.exp(mpmath.mpf(epsilon))
    forth = max(p - scale * q, 0) + max((1 - p) - scale * (1 - q), 0)
    back = max(q - scale * p, 0) + max((1 - q) - scale * (1 - p), 0)
    return max(forth, back)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_exact_privacy_of_one_label(kind, epsilon, delta):
    """No tolerance: the drawn fractions satisfy (epsilon, delta) exactly, in both directions, for n = 0..2k."""
    event = kind(epsilon=epsilon, delta=delta)
    sizes = selection.sizes_to_check(selection.law(event).threshold).tolist()
    worst = mpmath.mpf(0)
    with mpmath.workprec(600):
        after, reached = mpmath.mpf(0), -1
        for size in sizes:
            before = after if size == reached else drawn(event, size)
            after, reached = drawn(event, size + 1), size + 1
            worst = max(worst, exact_divergence(before, after, epsilon))
        assert worst <= mpmath.mpf(delta)
        # and the budget is used: a mechanism that releases nothing would pass the line above
        assert worst >= mpmath.mpf(delta) * (0.4 if epsilon <= 1 else 1e-9)
    for size in sizes[:: len(sizes) // 20 + 1]:
        assert selection.divergence(event, size, epsilon) <= delta * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize("kind", KINDS)
def test_one_more_than_the_budget_is_caught(kind):
    """The check above can fail: the same coins, claimed to cost a little less."""
    event = kind(epsilon=1.0, delta=1e-5)
    sizes = selection.sizes_to_check(selection.law(event).threshold)
    law = selection.drawn_law(selection.law(event), sizes)
    assert selection.hockey_stick(law[:, :-1], law[:, 1:], 0.999).max() > 1e-5
    assert selection.hockey_stick(law[:, :-1], law[:, 1:], 1.0).max() > 0.4e-5


@pytest.mark.parametrize("kind", KINDS)
def test_planned_and_drawn_probabilities_agree(kind):
    for epsilon, delta in [(1e-6, 1e-15), (0.025, 2.5e-7), (1.0, 1e-5), (20.0, 0.1)]:
        event = kind(epsilon=epsilon, delta=delta)
        turn = math.ceil(selection.law(event).threshold)
        sizes = np.unique(np.clip([0, 1, 2, turn // 2, turn - 1, turn, turn + 1, 2 * turn, 3 * turn], 0, None))
        planned = selection.law(event).release_probability(sizes)
        with mpmath.workprec(600):
            exact = [float(drawn(event, int(size))) for size in sizes]
        np.testing.assert_allclose(planned, exact, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_optimal_is_never_worse(kind):
    for epsilon, delta in [(0.1, 1e-6), (1.0, 1e-7), (8.0, 1e-5)]:
        sizes = np.arange(1, 400)
        best = selection.law(events.OptimalSelection(epsilon=epsilon, delta=delta)).release_probability(sizes)
        other = selection.law(kind(epsilon=epsilon, delta=delta)).release_probability(sizes)
        assert np.all(other <= best * (1 + 1e-9) + 1e-15)
        assert np.all(best <= selection.upper_bound(sizes, epsilon, delta) * (1 + 1e-9))


@given(st.floats(1e-6, 20), st.floats(1e-15, 0.1), st.sampled_from(KINDS))
def test_probabilities_behave(epsilon, delta, kind):
    event = kind(epsilon=epsilon, delta=delta)
    law = selection.law(event)
    sizes = selection.sizes_to_check(min(law.threshold, 2000.0))
    claimed = law.release_probability(sizes)
    assert claimed[0] == 0
    assert np.all((claimed >= 0) & (claimed <= 1))
    assert np.all(np.diff(claimed) >= -1e-12)
    assert 0 < claimed[1] <= delta * (1 + 1e-12)
    assert Fraction(law.coin(1), 2**256) <= Fraction(delta)


def test_golden_probabilities(golden):
    for row in golden["selection"]:
        budget = Budget(epsilon=row["epsilon"], delta=row["delta"])
        plan = planning.plan(budget, mechanism=row["mechanism"], share=row["share"], class_sizes=[row["size"]])
        assert plan.classes[0].release_probability == pytest.approx(row["value"], abs=row["tolerance"]), row["source"]
        if "threshold" in row:
            assert plan.threshold == row["threshold"], row["source"]
    for row in golden["upper_bound"]:
        bound = float(selection.upper_bound(row["size"], row["epsilon"], row["delta"]))
        assert bound == pytest.approx(row["value"], abs=row["tolerance"]), row["source"]


def test_smallest_class_is_the_smallest():
    law = selection.law(events.OptimalSelection(epsilon=0.05, delta=1e-6))
    for probability in (0.5, 0.99):
        size = selection.smallest_class(law, probability)
        assert law.release_probability(size) >= probability > law.release_probability(size - 1)
