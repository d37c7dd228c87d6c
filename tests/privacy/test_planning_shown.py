"""What a plan shows beside its mechanism."""

import pytest

from reticent import errors
from reticent.budget import Budget
from reticent.privacy import accounting, events, planning
from reticent.privacy.count_weights import default_count_weight, expected_accuracy

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def test_plans_show_round_sizes_where_none_are_given():
    plan = planning.plan(BUDGET)
    assert [row.size for row in plan.classes] == [10, 20, 50, 100, 200, 500, 1000]
    assert plan.count_weight == plan.default_count_weight == default_count_weight(BUDGET)
    assert plan.expected_accuracy == expected_accuracy(BUDGET, default_count_weight(BUDGET))


def test_plans_without_a_count_have_no_weight():
    plan = planning.plan(BUDGET, mechanism="truncated-geometric", class_sizes=[500])
    assert (plan.count_weight, plan.default_count_weight, plan.expected_accuracy) == (None, None, None)
    assert plan.epsilon_labels == pytest.approx(0.1)  # a tenth, where nothing else is said
    assert plan.delta_labels == pytest.approx(1e-6)


def test_labels_give_way_to_rounding_step_by_step(monkeypatch):
    tried = list[events.LabelSelection]()

    def within(event: events.LabelSelection, part: Budget) -> bool:
        tried.append(event)
        return False

    monkeypatch.setattr(accounting, "within", within)
    with pytest.raises(errors.InvalidValue, match="No label release fits"):
        planning.labels_by_share(BUDGET, events.OptimalSelection, 0.5)
    assert [1 - event.epsilon / 0.5 for event in tried] == pytest.approx([0, 1e-9, 1e-6, 1e-4, 1e-2], rel=1e-4)
    assert [1 - event.delta / 0.5e-5 for event in tried] == pytest.approx([0, 1e-9, 1e-6, 1e-4, 1e-2], rel=1e-4)
