"""Reading a ledger: verifies every row, and adds up what was spent. Only the gate writes to one.

A ledger is one SQLite file. Every row carries the hash of the row before it; a row is never changed or removed.
Nothing in it is sensitive: it may be read wherever a model is.
"""

import contextlib
import hashlib
import json
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
from reticent.privacy import events
from reticent.privacy.statement import Act, Spend, Statement

FILE_NAME = "ledger.sqlite"
VERSION = 2
FIRST_VERSION = 1  # without identity, settings and releases; readable, and upgraded before it is written to
APPLICATION = 0x52544E54
_GENESIS = "reticent ledger"
LOOKS = 3  # before a ledger that cannot be read counts as damaged


class LedgerFile:
    """What was spent, row by row, for reading.

    Guarantees:
      - An edit that does not recompute the chain is noticed.                     test_edited_row_is_noticed
      - Reading changes nothing in the folder.  test_reading_changes_nothing_in_the_folder
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None) -> None:
        self._db = connection
        self._path = path
        self._entries: list[tuple[int, str, dict[str, Any]]] = []
        self._chain = _GENESIS
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Opens the ledger of a folder to read it, and verifies every row."""
        for _ in range(LOOKS - 1):
            with contextlib.suppress(errors.LedgerError):  # a writer may be moving rows into the file right now
                return cls._opened(Path(path), "ro")
            time.sleep(0.05)
        return cls._opened(Path(path), "ro")

    @classmethod
    def _opened(cls, folder: Path, mode: str) -> Self:
        file = folder / FILE_NAME
        if not file.is_file():
            raise errors.LedgerError(f"No ledger at {file}. Expected a folder with a {FILE_NAME} in it.")
        ledger = cls(connect(file, mode), file)
        try:
            with explained(file):
                ledger._verify()
        except BaseException:
            ledger.close()
            raise
        return ledger

    def close(self) -> None:
        """Closes the file; the rows stay."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def version(self) -> int:
        """The format of the file."""
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        return int(version)

    @property
    def budget(self) -> Budget:
        """The budget it was made with."""
        return Budget.from_json(self._entries[0][2])

    @property
    def identity(self) -> str | None:
        """A random name, repeated in the manifest and the releases that belong to it; None in the first format."""
        found = (
            body["identity"] for _, kind, body in self._entries if kind in ("open", "upgrade") and "identity" in body
        )
        return next(found, None)

    @property
    def settings(self) -> Mapping[str, Any] | None:
        """What the model directory was last set to, or None for a ledger without a model."""
        kinds = ("open", "settings", "upgrade")
        found = [body["settings"] for _, kind, body in self._entries if kind in kinds and "settings" in body]
        return found[-1] if found else None

    @property
    def releases(self) -> list[dict[str, str]]:
        """File and digest of each published release, in order."""
        found: list[dict[str, str]] = []
        for _, kind, body in self._entries:
            if kind == "publish" and body.get("release") is not None:
                found.append(body["release"])
            elif kind in ("upgrade", "releases"):
                found = list(body["releases"])
        return found

    def statement(self) -> Statement:
        """Returns what has been spent so far, rows of other processes included."""
        with self._lock, explained(self._path):
            self._refresh()
            return self._statement()

    def refresh(self) -> None:
        """Reads rows that other processes have added."""
        with self._lock, explained(self._path):
            self._refresh()

    def _verify(self) -> None:
        """Refuses a file that is not a whole ledger of a known format."""
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION:
            raise errors.LedgerError(f"{self._path} is not a reticent ledger. Restore it from a backup.")
        if self.version > VERSION:
            raise errors.LedgerError(
                f"{self._path} was written by a newer version (format {self.version}, known: {VERSION}). "
                "Update reticent."
            )
        self._refresh()
        if not self._entries or self._entries[0][1] != "open":
            raise errors.LedgerError(f"{self._path} has no first row. Restore it from a backup.")

    def _refresh(self) -> None:
        """Reads rows added since the last look and verifies their chain."""
        query = "SELECT row, kind, body, chain FROM entries WHERE row > ? ORDER BY row"
        for row, kind, text, chain in self._db.execute(query, (len(self._entries),)):
            expected = link(self._chain, row, kind, text)
            if row != len(self._entries) + 1 or chain != expected:
                raise errors.LedgerError(
                    f"Row {row} of {self._path} does not follow from the rows before it: the ledger was edited or "
                    "damaged. Restore it from a backup."
                )
            self._chain = expected
            self._entries.append((row, kind, json.loads(text)))

    def _statement(self) -> Statement:
        published = {row for _, kind, body in self._entries if kind == "publish" for row in _rows(body["of"])}
        voided = {body["of"]: body["reason"] for _, kind, body in self._entries if kind == "void"}
        spends = [
            Spend(
                row=row,
                at=body["at"],
                task=body["task"],
                event=events.from_json(body["event"]),
                private=body["private"],
                published=row in published,
                voided=voided.get(row),
            )
            for row, kind, body in self._entries
            if kind == "spend"
        ]
        acts = [Act(row=row, at=body["at"], text=body["text"]) for row, kind, body in self._entries if kind == "act"]
        return Statement(budget=self.budget, spends=tuple(spends), acts=tuple(acts))


@contextlib.contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """Turns the database's errors into one sentence each."""
    where = path or "the ledger in memory"
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise errors.LedgerError(f"{where} is locked by another process. Try again when it is done.") from error
        if "readonly" in text or "read-only" in text:
            raise errors.LedgerError(f"{where} is read-only. Make it writable, or copy the folder.") from error
        raise errors.LedgerError(f"{where} cannot be used: {text}. Check the folder's permissions.") from error
    except sqlite3.DatabaseError as error:
        raise errors.LedgerError(f"{where} is damaged ({error}). Restore it from a backup.") from error
    except (json.JSONDecodeError, KeyError) as error:
        raise errors.LedgerError(f"{where} has a row that cannot be read. Restore it from a backup.") from error


def connect(file: Path | None, mode: str) -> sqlite3.Connection:
    """Opens the database, in memory for None."""
    target = ":memory:" if file is None else f"file:{quote(str(file.absolute()))}?mode={mode}"
    if mode == "ro" and file is not None and not file.with_name(f"{file.name}-wal").exists():
        target += "&immutable=1"  # no process is writing: leave no working files beside it
    with explained(file):
        db = sqlite3.connect(target, uri=True, isolation_level=None, timeout=10.0, check_same_thread=False)
        try:
            db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            db.close()
            raise
    return db


def link(before: str, row: int, kind: str, text: str) -> str:
    """Returns the hash of a row, which covers all rows before it."""
    return hashlib.sha256(json.dumps([before, row, kind, text]).encode()).hexdigest()


def _rows(of: int | list[int]) -> list[int]:
    """The rows that were published: one in the first format, several since."""
    return of if isinstance(of, list) else [of]
