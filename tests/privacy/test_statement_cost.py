"""What a statement says of a cost just above its budget, and of memory."""

from importlib import metadata

import pytest

from reticent import Adjacency, Budget
from reticent.memory import Epoch
from reticent.privacy import accounting, events
from reticent.privacy.statement import Spend, Statement

EVENT = events.Gaussian(noise_multiplier=4.0)
ROW = events.Remembered(noise_multiplier=4.0, epoch=1, horizon=12, eighths=3)
MEMORY = Epoch(number=2, vault=None, place=None, eighths=3, horizon=12, recurring=True)


def spent(event: events.Event, row: int = 2, voided: str | None = None) -> Spend:
    return Spend(row=row, at="2026-01-31", task=f"task {row}", event=event, private=True, voided=voided)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(
    ("above", "reached", "delta", "cut"),
    [
        (0.75e-6, 0.9e-5, 1e-5, True),
        (0.75e-6, 1e-5, 1e-5, True),  # the budget holds
        (0.75e-6, 1.1e-5, 1e-5, False),  # it does not
        (0.75e-6, 0.9e-5, 1e-6, False),  # another delta than that of the budget
        (1.5e-6, 0.9e-5, 1e-5, False),  # more than a search leaves
        (0.5, 0.9e-5, 1e-5, False),
        (-0.5, 0.9e-5, 1e-5, False),
    ],
)
def test_a_cost_just_above_its_budget_is_the_budget_where_that_holds(
    monkeypatch, epsilon, adjacency, above, reached, delta, cut
):
    asked = []
    budget = Budget(epsilon=epsilon, delta=1e-5, adjacency=adjacency)
    cost = accounting.Cost(9.0, 9.0, False).at_most(epsilon * (1 + above), adjacency)
    monkeypatch.setattr(accounting, "stream_cost", lambda *_: cost)

    def stream_delta(tasks, at, order, *, adjacency):
        asked.append((tasks, at, order, adjacency))
        return reached

    monkeypatch.setattr(accounting, "stream_delta", stream_delta)
    found = Statement(budget=budget, spends=())._cost([EVENT], 3, delta)
    assert found == (cost.at_most(epsilon, adjacency) if cut else cost)
    assert asked in ([], [([EVENT], epsilon, 3, adjacency)])
    assert asked or not cut


def test_memory_is_stated_in_numbers():
    budget = Budget(epsilon=1.0, delta=1e-5)
    statement = Statement(budget=budget, spends=[spent(ROW), spent(ROW, 3), spent(ROW, 4, "a slip")], memory=MEMORY)
    said = statement.json()["memory"]
    assert (said["a"], said["horizon"], said["epoch"], said["recurring"]) == (0.375, 12, 2, True)
    assert [(epoch["epoch"], epoch["tasks"]) for epoch in said["epochs"]] == [(1, 2)]
    now, most = (accounting.stream_cost(rows, 1e-5, 1).epsilon for rows in (accounting.so_far([ROW] * 2), [ROW] * 2))
    (epoch,) = statement.epochs
    assert (epoch.now, epoch.at_most) == (now, most)
    assert now < most
    first, *others = statement.memory_sentences(MEMORY)
    assert first == "Epoch 2: 0 of at most 12 tasks."  # it has no row yet
    assert MEMORY.why(1) in others


def test_the_vault_is_an_assumption_of_memory_alone():
    budget, sentence = Budget(epsilon=1.0, delta=1e-5), "Nobody who sees the releases reads the vault."
    assert sentence in Statement(budget=budget, spends=(), memory=MEMORY).assumptions()
    assert sentence not in Statement(budget=budget, spends=()).assumptions()


def test_a_spend_is_published_when_the_ledger_says_so():
    assert not spent(EVENT).published
    assert Statement(budget=Budget(epsilon=1.0, delta=1e-5), spends=()).software == metadata.version("reticent")


def test_what_was_spent_stands_beside_what_it_assumes():
    budget = Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE)
    assert Statement(budget=budget, spends=()).spent() == {
        "epsilon": 0.0,
        "if": "no person is in more than 1 task, and each row is another person; this is not checked",
        "budget": 1.0,
        "delta": 1e-5,
        "adjacency": "replace-one",
        "private": True,
        "warnings": [],
        "in_tasks": [
            f"In {tasks}: epsilon 0.0000 at delta 1e-05" for tasks in ("1 such task", "3 such tasks", "12 such tasks")
        ],
    }
    spends = [spent(events.Gaussian(noise_multiplier=9.0))]
    found = Statement(budget=Budget(epsilon=1.0, delta=1e-5), spends=spends).spent()
    exact = accounting.epsilon(spends[0].event, 1e-5)
    assert exact <= found["epsilon"] < exact + 1e-4
