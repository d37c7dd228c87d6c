"""Plans at the ends of their searches, and what stands in for settings that are not given."""

import pytest

from reticent.budget import Budget
from reticent.privacy import accounting, events, planning, selection
from reticent.privacy.count_weights import default_count_weight

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def test_a_class_that_needs_more_than_everything_has_no_share():
    """At share 1 the largest probability that the budget allows; a share of 2 does not exist."""
    whole = selection.law(planning.labels_by_share(BUDGET, events.OptimalSelection, 1.0))
    size = selection.smallest_class(whole, planning.SURE)
    assert planning.smallest_share(BUDGET, events.OptimalSelection, size - 1) is None
    share = planning.smallest_share(BUDGET, events.OptimalSelection, size)
    assert share is not None
    assert 0.5 < share <= 1


def test_a_small_class_takes_most_of_the_release_for_its_count():
    """Up to 0.999 of the squared norm, not only up to a half."""
    size = selection.smallest_class(selection.law(planning.joint_gaussian(BUDGET, 0.999)), planning.SURE)
    weight = planning.smallest_count_weight(BUDGET, size)
    assert weight is not None
    assert 0.5 < weight <= 0.999
    assert planning.smallest_count_weight(BUDGET, size - 1) is None


def test_a_share_that_nothing_fits_is_refused(monkeypatch):
    monkeypatch.setattr(accounting, "within", lambda event, budget: False)
    with pytest.raises(ValueError, match="No label release fits"):
        planning.labels_by_share(BUDGET, events.OptimalSelection, 0.5)


def test_training_is_planned_for_a_hundred_steps_of_a_fifth():
    plan = planning.training_plan(BUDGET, class_size=100)
    assert (plan.rate, plan.steps, plan.batch) == (0.2, 100, 200.0)
    assert plan.noise_multiplier == accounting.noise_multiplier(BUDGET, rate=0.2, steps=100)
    assert plan.noise_per_example == plan.noise_multiplier / 200


def test_labels_take_a_tenth_unless_said():
    plan = planning.plan(BUDGET, mechanism="optimal")
    assert plan.epsilon_labels == pytest.approx(0.1)
    assert plan.delta_labels == pytest.approx(1e-6)
    assert planning.plan(BUDGET).count_weight == default_count_weight(BUDGET)


def test_sizes_are_shown_where_none_are_given():
    assert [one.size for one in planning.plan(BUDGET).classes] == [10, 20, 50, 100, 200, 500, 1000]
    assert [one.size for one in planning.plan(BUDGET, class_sizes=[7]).classes] == [7]
    assert (planning.DEFAULT_SHARE, planning.DEFAULT_SIZES[0]) == (0.1, 10)
