"""How the ledger writes: what a failed write leaves, which files stay, and what is asked of other tasks."""

import contextlib
import json
import math
import sqlite3
from pathlib import Path

import pytest

from reticent import Adjacency, Budget, errors
from reticent.gate import ledger as ledgers
from reticent.gate.ledger import Ledger
from reticent.privacy import accounting, events
from reticent.released.ledger_file import FILE_NAME

BUDGET = Budget(epsilon=1.0, delta=1e-5)
GAUSSIAN = events.Gaussian(noise_multiplier=4.0)


def test_a_row_that_was_not_committed_is_not_remembered(monkeypatch):
    ledger = Ledger.create(None, BUDGET)
    append = ledger._append

    def failing(kind, body):
        append(kind, body)
        raise OSError("disk full")

    monkeypatch.setattr(ledger, "_append", failing)
    with pytest.raises((OSError, errors.LedgerError)):
        ledger.spend(GAUSSIAN, task="march", private=True)
    monkeypatch.undo()
    assert ledger.statement().spends == ()
    assert ledger.spend(GAUSSIAN, task="march", private=True) == 2


def test_ledgers_are_made_in_new_folders_and_leave_no_draft(tmp_path, monkeypatch):
    synced: list[Path] = []
    monkeypatch.setattr(ledgers, "sync_folder", synced.append)
    folder = tmp_path / "a" / "b" / "c"
    Ledger.create(folder, BUDGET).close()
    assert {path.name for path in folder.iterdir()} <= {FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"}
    assert synced == [folder]


def test_a_ledger_that_appears_meanwhile_is_not_overwritten(tmp_path):
    def make() -> None:
        with ledgers._draft(tmp_path) as draft:
            draft.write_bytes(b"mine")
            (tmp_path / FILE_NAME).write_bytes(b"another's")

    with pytest.raises(errors.LedgerError, match="exists already"):
        make()
    assert (tmp_path / FILE_NAME).read_bytes() == b"another's"
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.LedgerError, match="Cannot make a ledger in"):
        Ledger.create(tmp_path / "file" / "model", BUDGET)


def test_rows_are_written_in_one_form(tmp_path):
    with Ledger.create(tmp_path, BUDGET, settings={}) as ledger:
        ledger.spend(GAUSSIAN, task="march", private=True)
        with pytest.raises(ValueError, match="JSON compliant"):
            ledger.set({"rate": math.nan})
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as file, file:
        bodies = [body for (body,) in file.execute("SELECT body FROM entries")]
    file.close()
    assert len(bodies) == 2
    assert all(body == json.dumps(json.loads(body), sort_keys=True) for body in bodies)


def test_any_two_tasks_stay_within_a_budget_under_replace_one():
    """Added or removed, one task of each kind is within the budget; replaced, it is not."""
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2, adjacency=Adjacency.REPLACE_ONE)
    noisy = events.Gaussian(noise_multiplier=accounting.gaussian_sigma(budget))
    labels = events.OptimalSelection(epsilon=0.2, delta=1e-6)
    assert accounting.within(noisy, budget)
    assert accounting.within(labels, budget)
    both = events.compose(noisy, labels)
    assert accounting.delta(both, 1.0) < 1e-5 < accounting.delta(both, 1.0, adjacency=Adjacency.REPLACE_ONE)
    ledger = Ledger.create(None, budget)
    ledger.spend(labels, task="march", private=True)
    with pytest.raises(errors.BudgetExceeded):
        ledger.spend(noisy, task="april", private=True)
