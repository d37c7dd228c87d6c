import dataclasses
import math

import pytest

from reticent import Adjacency, Budget, ReticentError


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": 10**400},
        {"epsilon": 1000},
        {"epsilon": "1"},
        {"epsilon": True},
        {"epsilon": None},
        {"delta": -1e-9},
        {"delta": 1.0},
        {"delta": math.nan},
        {"delta": "1e-5"},
        {"tasks_per_person": 0},
        {"tasks_per_person": 1.5},
        {"examples_per_person": 0},
        {"examples_per_person": True},
        {"adjacency": "add"},
    ],
)
def test_budget_refuses(bad):
    (name,) = bad
    with pytest.raises(ReticentError, match=f"Expected {name}") as refusal:
        Budget(**{"epsilon": 1.0, "delta": 1e-5, **bad})
    assert isinstance(refusal.value, ValueError)
    assert "\n" not in str(refusal.value)


def test_budget_is_a_value():
    budget = Budget(epsilon=1, delta=0)
    assert isinstance(budget.epsilon, float)
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 2.0  # type: ignore[misc]
    assert {budget: 1}[Budget(epsilon=1.0, delta=0.0)] == 1


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_budget_survives_json(adjacency):
    budget = Budget(epsilon=0.5, delta=1e-6, adjacency=adjacency, tasks_per_person=3, examples_per_person=2)
    assert Budget.from_json(budget.to_json()) == budget
