"""SQLite files of others: nothing in them acts outside of them."""

import gc
import os
import sqlite3
import struct
from pathlib import Path

import pytest

from reticent import errors
from reticent.gate.ledger import Ledger
from reticent.numerics import databases
from reticent.released.ledger_file import FILE_NAME, SCHEMA, LedgerFile
from tests.stored import BUDGET

_PAGE = 4096


@pytest.fixture
def ledger(tmp_path) -> Path:
    (tmp_path / "model").mkdir()
    Ledger.create(tmp_path / "model", BUDGET).close()
    return Path(tmp_path, "model", FILE_NAME)


def plant_journal(database: Path, victim: Path) -> None:
    """A rollback journal of a transaction over several databases, whose common journal is the victim."""
    magic, name = bytes.fromhex("d9d505f920a163d7"), os.fsencode(victim)
    pages = database.stat().st_size // _PAGE
    header = (magic + struct.pack(">5I", 0, 1, pages, 512, _PAGE)).ljust(512, b"\0")
    common = struct.pack(">I", (1 << 30) // _PAGE + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    database.with_name(f"{database.name}-journal").write_bytes(header + common)


def test_a_journal_deletes_no_file_outside(ledger, tmp_path):
    """SQLite deletes the common journal of a transaction once no database needs it: any file that a journal names."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    plant_journal(ledger, victim)
    for opened in (Ledger.open, LedgerFile.open):
        with pytest.raises(errors.LedgerError, match="names another file"):
            opened(ledger.parent)
    assert victim.read_text() == "precious"
    with sqlite3.connect(ledger) as unguarded:  # the twin: this is what SQLite does by itself
        unguarded.execute("SELECT * FROM entries").fetchall()
    unguarded.close()
    assert not victim.exists()


@pytest.mark.posix
@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "sparse"])
def test_strange_databases_are_refused(ledger, tmp_path, kind, ending):
    place = ledger.with_name(ledger.name + ending)
    if not ending:
        ledger.rename(tmp_path / "moved")
    match kind:
        case "link":
            (tmp_path / "moved").touch()
            place.symlink_to(tmp_path / "moved")
        case "fifo":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
        case "sparse":
            with open(place, "wb") as file:
                file.truncate(1 << 40)
    with pytest.raises(errors.LedgerError, match=r"Expected|No ledger"):
        Ledger.open(ledger.parent)


@pytest.mark.parametrize(
    "addition",
    [
        "CREATE VIEW other AS SELECT * FROM entries",
        "CREATE TRIGGER extra AFTER INSERT ON entries BEGIN SELECT load_extension('own.so'); END",
        "CREATE TRIGGER extra BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END",
        "CREATE INDEX entries_body ON entries (abs(row))",
        "CREATE TABLE entries2 (row INTEGER)",
        "DROP TRIGGER no_update",
    ],
)
def test_a_strange_schema_is_refused(ledger, addition):
    """A trigger that ignores insertions would lose every spend."""
    with sqlite3.connect(ledger) as database:
        database.execute(addition)
    database.close()
    for opened in (Ledger.open, LedgerFile.open):
        with pytest.raises(errors.LedgerError, match="other tables or triggers"):
            opened(ledger.parent)


def test_a_view_is_no_ledger(ledger):
    """Rows that a view computes would be checked once and read differently later."""
    with sqlite3.connect(ledger) as database:
        database.execute("ALTER TABLE entries RENAME TO others")
        database.execute("CREATE VIEW entries AS SELECT * FROM others")
    database.close()
    with pytest.raises(errors.LedgerError, match="other tables or triggers"):
        LedgerFile.open(ledger.parent)


def test_what_sqlite_says_is_one_line(ledger):
    """It quotes the file, which may hold line ends and codes for terminals."""
    content = ledger.read_bytes()
    at = content.index(b"CREATE TABLE entries")
    ledger.write_bytes(content[:at] + b"CREATE \n\x1b[2J\n\xff" + content[at + 15 :])
    with pytest.raises(errors.LedgerError) as refused:
        LedgerFile.open(ledger.parent)
    assert str(refused.value).isprintable()


def test_values_have_a_limited_length(tmp_path):
    database = sqlite3.connect(tmp_path / "a.sqlite")
    databases.harden(database, longest=1_000)
    with pytest.raises(sqlite3.DataError):
        database.execute("SELECT zeroblob(100000000)").fetchone()
    database.close()


def test_values_of_other_types_are_refused(ledger):
    """A table keeps its types against statements, not against who edits its schema."""
    with sqlite3.connect(ledger) as database:
        database.execute("PRAGMA writable_schema = ON")
        loose = SCHEMA[0].removesuffix(" STRICT")
        database.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'entries'", (loose,))
    database.close()
    with sqlite3.connect(ledger) as database:
        database.execute("DROP TRIGGER no_update")
        database.execute("UPDATE entries SET body = CAST(body AS BLOB)")
        database.execute(SCHEMA[1])
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'entries'", (SCHEMA[0],))
        database.execute("UPDATE sqlite_schema SET rowid = 9 WHERE name = 'no_delete'")
    database.close()
    with pytest.raises(errors.LedgerError, match="damaged"):
        LedgerFile.open(ledger.parent)


def test_a_forgotten_database_is_closed():
    """From Python 3.13 on it would warn."""
    database = sqlite3.connect(":memory:")
    held = databases.Connected(database)
    del held
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")
