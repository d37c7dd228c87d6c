"""Reading a ledger: verifies every row, and adds up what was spent. Only the gate writes to one.

A ledger is one SQLite file. Every row carries the hash of the row before it; a row is never changed or removed.
Nothing in it is sensitive: it may be read wherever a model is.
"""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from reticent import errors
from reticent.budget import Budget
from reticent.names import shown
from reticent.numerics import databases
from reticent.numerics.reading import MEGABYTE
from reticent.privacy.statement import Spend, Statement
from reticent.released.account import Account
from reticent.released.settings import TOO_OLD

FILE_NAME = "ledger.sqlite"
VERSION = 2
APPLICATION = 0x52544E54
SCHEMA = (  # the same to the letter in every ledger ever written
    "CREATE TABLE entries "
    "(row INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, chain TEXT NOT NULL) STRICT",
    "CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
)
_MOST_BYTES, _LONGEST_ROW = 1024 * MEGABYTE, 64 * MEGABYTE
_LONGEST_REASON = 200  # characters of what SQLite says, which may quote the file
LOOKS = 3  # before a ledger that cannot be read counts as damaged


class LedgerFile(databases.Connected):
    """What was spent, row by row, for reading.

    Guarantees:
      - An edit that does not recompute the chain is noticed.                     test_edited_row_is_noticed
      - Reading changes nothing in the folder.  test_reading_changes_nothing_in_the_folder
      - Other triggers, views or tables in the file are refused before any row is read.
                                                                                  test_a_strange_schema_is_refused
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None, known: Account | None = None) -> None:
        super().__init__(connection)
        self._path = path
        self._account = Account() if known is None else known.copy()
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: str | os.PathLike[str], known: Account | None = None) -> Self:
        """Opens the ledger of a folder to read it, and verifies every row that is not known.

        Args:
            path: The folder.
            known: What its first rows add up to, verified before; rows are never changed.
        """
        for _ in range(LOOKS - 1):
            with contextlib.suppress(errors.LedgerError):  # a writer may be moving rows into the file right now
                return cls._opened(Path(path), "ro", known)
            time.sleep(0.05)
        return cls._opened(Path(path), "ro", known)

    @classmethod
    def _opened(cls, folder: Path, mode: str, known: Account | None) -> Self:
        file = folder / FILE_NAME
        with explained(file):
            if not file.is_file():
                raise errors.LedgerError(f"No ledger at {file}. Expected a folder with a {FILE_NAME} in it.")
        ledger = cls(connect(file, mode), file, known)
        try:
            with explained(file):
                ledger._verify()
        except BaseException:
            ledger.close()
            raise
        return ledger

    @property
    def version(self) -> int:
        """The format of the file."""
        with explained(self._path):
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
        return int(version)

    @property
    def account(self) -> Account:
        """What the rows read so far add up to."""
        return self._account

    @property
    def budget(self) -> Budget:
        """The budget it was made with."""
        return self._account.budget

    @property
    def identity(self) -> str:
        """A random name, repeated in the manifest and the releases that belong to it."""
        return self._account.identity

    @property
    def settings(self) -> Mapping[str, Any] | None:
        """What the model directory was last set to, or None for a ledger without a model."""
        return self._account.settings

    @property
    def releases(self) -> list[dict[str, str]]:
        """File and digest of each published release, in order."""
        return list(self._account.releases)

    def head_at(self, row: int) -> str | None:
        """Returns the hash of a row, which covers all rows before it; None where there is no such row."""
        with self._lock, explained(self._path):
            found = self._db.execute("SELECT chain FROM entries WHERE row = ?", (row,)).fetchone()
        return None if found is None else str(found[0])

    def statement(self) -> Statement:
        """Returns what has been spent so far, rows of other processes included."""
        with self._lock, explained(self._path):
            self._refresh()
            folder = None if self._path is None else self._path.absolute().parent.name
            return self._account.statement(name=folder)

    def spends_like(self, task: str) -> list[Spend]:
        """Returns the spends of a task and of others of nearly its name, rows of other processes included."""
        with self._lock, explained(self._path):
            self._refresh()
            return self._account.spends_like(task)

    def refresh(self) -> None:
        """Reads rows that other processes have added."""
        with self._lock, explained(self._path):
            self._refresh()

    def _verify(self) -> None:
        """Refuses a file that is not a whole ledger of a known format."""
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION:
            raise errors.LedgerError(f"{self._path} is not a reticent ledger. Restore it from a backup.")
        if not databases.has_schema(self._db, SCHEMA):
            raise errors.LedgerError(
                f"{self._path} has other tables or triggers than a ledger. Restore it from a backup."
            )
        if self.version > VERSION:
            raise errors.LedgerError(
                f"{self._path} was written by a newer version (format {self.version}, known: {VERSION}). "
                "Update reticent."
            )
        if self.version < VERSION:
            raise errors.LedgerError(f"{self._path} was written by {TOO_OLD}")
        known = self._account
        if known.rows and self.head_at(known.rows) != known.chain:
            raise errors.LedgerError(
                f"{self._path} is not the ledger that was read before, or an older copy. Restore the latest one."
            )
        self._refresh()
        if self._account.first is None:
            raise errors.LedgerError(f"{self._path} has no first row. Restore it from a backup.")

    def _refresh(self) -> None:
        """Reads rows added since the last look and verifies their chain."""
        account = self._account
        query = "SELECT row, kind, body, chain FROM entries WHERE row > ? ORDER BY row"
        for row, kind, text, chain in self._db.execute(query, (account.rows,)):
            if not isinstance(kind, str) or not isinstance(text, str):  # a page may hold what its table forbids
                raise errors.LedgerError(f"{self._path} is damaged (types of a row). Restore it from a backup.")
            if row != account.rows + 1 or chain != account.link(kind, text):
                raise errors.LedgerError(
                    f"Row {row} of {self._path} does not follow from the rows before it: the ledger was edited or "
                    "damaged. Restore it from a backup."
                )
            account.add(kind, text)


@contextlib.contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """Turns errors of the database and of the disk into one sentence each."""
    where = path or "the ledger in memory"
    try:
        yield
    except OSError as error:
        sentence = f"{where} cannot be used: {error.strerror}. Check the disk and the permissions."
        raise errors.StorageError(sentence) from error
    except sqlite3.OperationalError as error:
        text = shown(error)[:_LONGEST_REASON]
        if "locked" in text or "busy" in text:
            raise errors.StorageError(f"{where} is locked by another process. Try again when it is done.") from error
        if "readonly" in text or "read-only" in text:
            raise errors.StorageError(f"{where} is read-only. Make it writable, or copy the folder.") from error
        if "decode" in text:
            raise errors.LedgerError(f"{where} is damaged (text of a row). Restore it from a backup.") from error
        raise errors.StorageError(f"{where} cannot be used: {text}. Check the disk and the permissions.") from error
    except sqlite3.DatabaseError as error:  # also where the disk failed for a moment
        text = shown(error)[:_LONGEST_REASON]
        sentence = f"{where} seems damaged ({text}). Try again. Restore it from a backup if it stays so."
        raise errors.StorageError(sentence) from error
    except (UnicodeDecodeError, KeyError) as error:  # also in what SQLite says of a schema
        raise errors.LedgerError(f"{where} has a row that cannot be read. Restore it from a backup.") from error


def _refuse_strange(file: Path) -> None:
    try:
        databases.refuse_strange(file, most=_MOST_BYTES)
    except errors.InvalidValue as error:
        raise errors.LedgerError(f"{error} Restore the folder from a backup.") from error


def connect(file: Path | None, mode: str) -> sqlite3.Connection:
    """Opens the database, in memory for None."""
    target = ":memory:" if file is None else f"file:{quote(os.fsencode(file.absolute()))}?mode={mode}"
    with explained(file):
        if mode == "ro" and file is not None and not file.with_name(f"{file.name}-wal").exists():
            target += "&immutable=1"  # no process is writing: leave no working files beside it
        if file is not None:
            _refuse_strange(file)
        db = sqlite3.connect(target, uri=True, isolation_level=None, timeout=10.0, check_same_thread=False)
        try:
            databases.harden(db, longest=_LONGEST_ROW)
            db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            db.close()
            raise
    return db
