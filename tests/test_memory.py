"""Memory as a value, what settings store of it, and what a statement says."""

import json
from pathlib import Path
from typing import Any

import pytest

import reticent as rt
from reticent import errors
from reticent.memory import STOLEN, Epoch, place_of
from reticent.privacy import accounting, events
from reticent.privacy.statement import Spend, Statement
from reticent.released import ledger_rows, settings
from tests.privacy.test_statement import SCHEMA, faults

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
EPOCH = Epoch(number=2, vault="0" * 32, place="../vault", eighths=2, horizon=120, recurring=None)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"vault": ""}, "vault to be a folder"),
        ({"vault": 7}, "vault to be a folder"),
        ({"horizon": 1}, "horizon >= 2"),
        ({"horizon": 1.5}, "horizon to be a whole number"),
        ({"horizon": 10**6}, "horizon <= 1200"),
        ({"recurring": "yes"}, "recurring to be True, False, or None"),
    ],
)
def test_memory_refuses(given, sentence):
    with pytest.raises(errors.InvalidValue, match=sentence):
        rt.Memory(**{"vault": "vault/", **given})


def test_the_exponent_follows_from_public_facts():
    def eighths(n: int, recurring: bool | None) -> int:
        budget = rt.Budget(epsilon=1.0, delta=1e-5, tasks_per_person=n)
        return rt.Memory(vault="v", recurring=recurring).correlation(budget).eighths

    assert [eighths(1, recurring) for recurring in (None, False, True)] == [2, 2, 3]
    assert [eighths(n, None) for n in (2, 3, 4)] == [1, 1, 1]
    with pytest.raises(errors.InvalidValue, match="at most 4 tasks per person"):
        eighths(5, True)


def test_reasons_are_given_in_words():
    assert "labels come back by public knowledge" in Epoch(**{**vars(EPOCH), "recurring": True}).why(1)
    assert "are said not to" in Epoch(**{**vars(EPOCH), "recurring": False}).why(1)
    assert "may be in 3 tasks" in EPOCH.why(3)


@pytest.mark.parametrize(
    ("vault", "place"),
    [
        ("/data/vault", "../vault"),
        ("/data/vaults/one", "../vaults/one"),
        ("/elsewhere/vault", None),
        ("/vault", None),
        ("/data/new\nline", None),
        ("/data/" + "x" * 2_000, None),
    ],
)
def test_only_a_place_beside_the_model_is_stored(vault, place):
    assert place_of(Path(vault), Path("/data/model")) == place


def test_nothing_beside_the_root_is_stored():
    """Of a model at the top of a disk, every path would be beside it."""
    assert place_of(Path("/home/somebody/vault"), Path("/model")) is None


CHANGES: list[dict[str, Any]] = [
    {"number": 0},
    {"number": True},
    {"number": "1"},
    {"vault": "short"},
    {"vault": 7},
    {"place": "vault"},
    {"place": "/etc"},
    {"place": "../../up"},
    {"place": "../a/../../up"},
    {"place": "../"},
    {"place": "..\\..\\up"},
    {"place": "../a\0b"},
    {"eighths": 0},
    {"eighths": 9},
    {"horizon": 10**9},
    {"recurring": 1},
    {"more": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_stored_epochs_are_checked(change):
    stored = {**EPOCH.to_json(), **change}
    with pytest.raises(ValueError, match="epoch of memory"):
        Epoch.from_json(stored)
    assert not settings.names_an_epoch({settings.MEMORY: stored})
    row = json.dumps({"at": "2026-01-31", "settings": {settings.MEMORY: stored}})
    with pytest.raises(errors.LedgerError, match="not one that reticent wrote"):
        ledger_rows.read("settings", row)


def test_stored_epochs_are_read():
    assert Epoch.from_json(json.loads(json.dumps(EPOCH.to_json()))) == EPOCH
    stored = {"at": "2026-01-31", "settings": {settings.MEMORY: EPOCH.to_json()}}
    assert ledger_rows.read("settings", json.dumps(stored)) == stored


# --- the statement


def statement(*tasks: tuple[int, bool], weight: float = 0.0) -> Statement:
    """Spends of these epochs, some of them voided."""
    spends = [
        Spend(
            row=row,
            at="2026-01-31",
            task=f"task {row}",
            event=accounting.remembered(BUDGET, epoch=epoch, horizon=12, count_weight=weight),
            private=True,
            published=not voided,
            voided="killed" if voided else None,
        )
        for row, (epoch, voided) in enumerate(tasks, start=2)
    ]
    memory = Epoch(**{**vars(EPOCH), "horizon": 12})
    return Statement(budget=BUDGET, spends=spends, memory=memory, identity="0" * 32, head="0" * 64)


def test_a_statement_says_what_memory_costs():
    told = statement((1, False), (1, False), (1, True), (2, False), weight=0.2)
    assert [(cost.epoch, cost.tasks) for cost in told.epochs] == [(1, 2), (2, 1)]
    assert told.epochs[1].now < told.epochs[0].now < told.epochs[0].at_most
    assert told.epochs[0].at_most == pytest.approx(1.0, abs=1e-6)
    assert told.epsilon == told.epochs[0].now  # a person is in one of them
    text = " ".join(told.text().split())
    for sentence in (STOLEN, "Epoch 2: 1 of at most 12 tasks.", "a = 1/4, because", "for its whole epoch"):
        assert sentence in text
    assert "Epoch 1, its 2 task(s) together: epsilon" in text
    assert "Nobody who sees the releases reads the vault." in text
    assert "vault" not in Statement(budget=BUDGET, spends=()).text()


def test_an_epoch_costs_its_budget_and_no_more():
    """One event for the epoch: its last task costs what the first one promised."""
    told = statement(*[(1, False)] * 12)
    assert told.epochs[0].now == pytest.approx(told.epochs[0].at_most, abs=1e-9)
    assert told.epsilon <= 1.0


def test_statements_of_memory_follow_the_schema():
    told = statement((1, False), (2, False)).json()
    assert faults(told, SCHEMA) == []
    assert told["memory"]["epochs"][0]["at_most"] == 1.0
    assert {event["kind"] for event in (row["event"] for row in told["rows"])} == {events.Remembered.__name__}
    assert "memory" not in Statement(budget=BUDGET, spends=()).json()
    assert faults({**told, "memory": {**told["memory"], "labels": 3}}, SCHEMA) == [
        "/memory: labels is not in the schema"
    ]
