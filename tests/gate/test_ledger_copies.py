"""Copies of a ledger: one file each, and told apart by what each spends."""

import errno
import json
import os

import pytest

from reticent import Budget, errors
from reticent.gate.ledger import Ledger
from reticent.privacy import events
from reticent.released.ledger_file import FILE_NAME, LedgerFile

BUDGET = Budget(epsilon=1.0, delta=1e-5)
EVENT = events.Gaussian(noise_multiplier=9.0)
RELEASE = {"file": "releases/0001.safetensors", "sha256": "0" * 64}


def marks(ledger: Ledger) -> list[str]:
    rows = ledger._db.execute("SELECT body FROM entries WHERE kind = 'spend' ORDER BY row").fetchall()
    return [json.loads(body)["mark"] for (body,) in rows]


def test_each_spend_has_a_mark_of_its_own():
    with Ledger.create(None, BUDGET) as ledger:
        for task in ("march", "april"):
            ledger.spend(EVENT, task=task, private=True)
        first, second = marks(ledger)
    assert first != second
    assert all(len(bytes.fromhex(mark)) == 16 for mark in (first, second))


def test_a_copy_is_one_file_without_a_log(tmp_path):
    """In the mode of a write-ahead log its last rows could lie in another file, which nobody copies."""
    with Ledger.create(tmp_path / "one", BUDGET, settings={}) as ledger:
        ledger.spend(EVENT, task="march", private=True)
        ledger.copy_to(tmp_path / "two", settings={"kind": "copy"}, releases=[RELEASE])
    assert [file.name for file in (tmp_path / "two").iterdir()] == [FILE_NAME]
    assert (tmp_path / "two" / FILE_NAME).read_bytes()[18:20] == b"\x01\x01"  # a rollback journal, by SQLite's format
    with LedgerFile.open(tmp_path / "two") as copy:
        assert copy.settings == {"kind": "copy"}
        assert copy.releases == [RELEASE]
        assert [spend.task for spend in copy.statement().spends] == ["march"]


def test_a_ledger_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    def fail(draft, file):
        for ending in ("-journal", "-wal", "-shm"):
            draft.with_name(draft.name + ending).touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(errors.StorageError, match=r"Cannot make a ledger in .*: No space left on device"):
        Ledger.create(tmp_path / "one", BUDGET)
    assert list((tmp_path / "one").iterdir()) == []


def test_a_ledger_that_is_there_stays(tmp_path):
    Ledger.create(tmp_path, BUDGET).close()
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(errors.LedgerError, match="exists already"):
        Ledger.create(tmp_path, Budget(epsilon=9.0, delta=1e-5))
    assert (tmp_path / FILE_NAME).read_bytes() == before
