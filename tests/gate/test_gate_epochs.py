"""What a gate refuses of memory, and of another process."""

import json
import os
from dataclasses import replace

import pytest

from reticent import Budget, errors
from reticent.budget import Persons
from reticent.gate.epochs import Kept
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.memory import Epoch
from reticent.privacy import accounting, events

BUDGET = Budget(epsilon=1.0, delta=1e-5)
EPOCH = Epoch(number=1, vault="0" * 32, place=None, eighths=2, horizon=3, recurring=None)
ROW = accounting.remembered(replace(BUDGET, epsilon=0.5), epoch=1, horizon=3)
OTHER = events.Gaussian(noise_multiplier=20.0)


def gate() -> Gate:
    return Gate(Ledger.create(None, BUDGET), memory=Kept(EPOCH, ()))


def test_a_row_of_memory_is_an_event_of_its_own():
    """Beside another part it would be compared with no epoch."""
    with pytest.raises(errors.NotPaidFor, match="epoch that the vault of this model is for"):
        gate().spend(events.compose(ROW, OTHER), task="march")


def test_a_task_with_memory_is_paid_for_by_one_spend():
    mine = gate()
    mine.spend(OTHER, task="march")
    with pytest.raises(errors.NotPaidFor, match="learns one task with memory"):
        mine.spend(ROW, task="march")
    other = gate()
    other.spend(OTHER, task="february")  # of another task it may pay for something
    assert other.spend(ROW, task="march").event == ROW


def test_a_gate_is_for_the_process_that_opened_it(monkeypatch):
    mine = gate()
    permit = mine.spend(OTHER, task="march")
    process = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    for refused in (
        lambda: mine.spend(OTHER, task="april"),
        lambda: mine.uniform(1),
        lambda: permit.release(parameters={}),
    ):
        with pytest.raises(errors.NotPaidFor, match="opened by another process"):
            refused()
    monkeypatch.undo()
    mine.close()
    with pytest.raises(errors.NotPaidFor, match="This gate is closed"):
        mine.uniform(1)


def test_a_release_that_could_not_be_read_back_is_not_paid_for():
    """Eight levels are read from a file: one that is as deep cannot be composed with another of its task."""
    deep: events.Event = OTHER
    for _ in range(7):
        deep = events.Composed((deep,))
    mine = gate()
    mine.spend(deep, task="march")
    mine.spend(deep, task="april")
    with pytest.raises(errors.UnsupportedEvent, match="more parts than reticent ever writes"):
        mine.spend(deep, task="march")
    with pytest.raises(errors.UnsupportedEvent, match="more parts than reticent ever writes"):
        gate().spend(events.Composed((deep,)), task="march")


@pytest.mark.parametrize("whose", list(Persons))
def test_a_spend_records_whose_the_rows_are(whose):
    ledger = Ledger.create(None, BUDGET)
    mine = Gate(ledger)
    mine._admitted["march"] = whose
    mine.spend(OTHER, task="march")
    (row,) = ledger._db.execute("SELECT body FROM entries WHERE kind = 'spend'").fetchone()
    assert json.loads(row)["persons"] == whose.value
    assert [spend.persons for spend in ledger.statement().spends] == [whose]


def test_a_ledger_is_for_the_process_that_opened_it(monkeypatch):
    ledger, process = Ledger.create(None, BUDGET), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    with pytest.raises(errors.LedgerError, match="opened by another process"):
        ledger.spend(OTHER, task="march", private=True)
    monkeypatch.undo()
    assert not ledger.statement().spends


def test_a_gate_is_private_unless_it_is_told_otherwise():
    ledger = Ledger.create(None, BUDGET)
    assert Gate(ledger).private
    assert not Gate(ledger, private=False).private
    assert not Gate(ledger, NoiseSource.seeded(0)).private
    assert Gate(ledger).spend(OTHER, task="march").private
