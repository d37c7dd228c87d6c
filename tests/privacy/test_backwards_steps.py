"""The last digits of an epsilon that is planned backwards: rounded up until the class is released."""

from types import SimpleNamespace

import pytest

from reticent import Budget, errors
from reticent.privacy import backwards, planning, selection

BUDGET = Budget(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize(
    ("least", "without", "expected"),
    [(1.00001, (), 1.0001), (1.00001, (1.0001,), 1.0002), (1.00001, (1.0001, 1.0002), 1.0003), (2.49995, (), 2.5)],
)
def test_epsilon_is_rounded_up_until_the_class_is_released(monkeypatch, least, without, expected):
    """A default weight moves in steps, so that a somewhat larger epsilon may not be enough."""

    def law(epsilon: float) -> SimpleNamespace:
        released = epsilon >= least and epsilon not in without
        return SimpleNamespace(release_probability=lambda size: 0.99 if released else 0.98)

    monkeypatch.setattr(planning, "label_event", lambda budget, *_, **__: budget.epsilon)
    monkeypatch.setattr(selection, "law", law)
    assert backwards.budget_to_release(BUDGET, 50, count_weight=0.2).epsilon == expected


@pytest.mark.parametrize("chance", [0.0, 1.0, -0.5])
def test_chances_are_above_zero_and_below_one(chance):
    with pytest.raises(errors.InvalidValue, match="Expected chance > 0"):
        backwards.budget_to_release(BUDGET, 50, chance=chance)
