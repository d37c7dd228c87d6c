"""What a ledger records of the folder that it belongs to."""

import contextlib
import math
import sqlite3

import pytest

from reticent import Budget
from reticent.gate.ledger import Ledger
from reticent.released.ledger_file import FILE_NAME

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def test_settings_that_are_no_json_are_refused():
    with Ledger.create(None, BUDGET) as ledger:
        with pytest.raises(ValueError, match="JSON"):
            ledger.set({"share": math.nan})
        assert ledger.settings is None


def test_a_copy_of_a_ledger_needs_no_other_file(tmp_path):
    """One file, without a write-ahead log: what is copied on by hand is whole."""
    entries = [{"file": "releases/0001.safetensors", "sha256": "0" * 64}]
    with Ledger.create(None, BUDGET) as ledger:
        ledger.copy_to(tmp_path / "copy", settings={"share": 0.5}, releases=entries)
    with contextlib.closing(sqlite3.connect(tmp_path / "copy" / FILE_NAME)) as database, database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    database.close()
    with Ledger.open(tmp_path / "copy") as copied:
        assert (copied.settings, copied.releases) == ({"share": 0.5}, entries)
