"""The ledger: append-only, durable before noise is drawn, never below what was spent.

One SQLite file in WAL mode. Every row carries the hash of the row before it, so an edit shows; a row is never
changed or removed. Several processes may spend at once: each decides and writes inside one exclusive transaction.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from reticent import errors
from reticent.budget import Budget
from reticent.privacy import accounting, events
from reticent.privacy.events import Event
from reticent.privacy.statement import Act, Spend, Statement

FILE_NAME = "ledger.sqlite"
VERSION = 1
_APPLICATION = 0x52544E54
_GENESIS = "reticent ledger"
_SCHEMA = """
CREATE TABLE entries (row INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, chain TEXT NOT NULL) STRICT;
CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""


class Ledger:
    """What was spent, row by row.

    Guarantees:
      - `spend` returns only after the row is on disk; a crash later leaves it spent.   test_kill_after_spend
      - A spend past the budget is refused and changes nothing.                   test_refuses_before_overspending
      - Sequential within a task, parallel across tasks of order n.               test_tasks_compose_in_parallel
      - Rows cannot be changed or removed unnoticed, except from the end.         test_edited_row_is_noticed
      - Safe with several processes.                                              test_concurrent_spends

    Example:
        >>> ledger = Ledger.create(None, Budget(epsilon=1.0, delta=1e-5))
        >>> ledger.spend(events.Gaussian(noise_multiplier=4.0), task="march", private=True)
        2
        >>> ledger.spend(events.Gaussian(noise_multiplier=4.0), task="march", private=True)
        Traceback (most recent call last):
        reticent.errors.BudgetExceeded: Task 'march' would cost more than the budget of epsilon 1, delta 1e-05 \
allows one person; nothing was spent. Use more noise, or a new task name if these are other people's data.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None) -> None:
        self._db = connection
        self._path = path
        self._entries: list[tuple[int, str, dict[str, Any]]] = []
        self._chain = _GENESIS
        self._lock = threading.RLock()

    @classmethod
    def create(cls, path: str | os.PathLike[str] | None, budget: Budget) -> "Ledger":
        """Makes a new ledger in a folder, or in memory for None; refuses where there is one already."""
        if path is None:
            ledger = cls(_connect(None, "memory"), None)
            ledger._lay_out(budget)
            return ledger
        folder = Path(path)
        file, draft = folder / FILE_NAME, folder / f".{FILE_NAME}.{os.getpid()}"
        if file.exists():
            raise errors.LedgerError(f"{file} exists already. Open it, or choose another folder.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with cls(_connect(draft, "rwc"), draft) as ledger:
                ledger._lay_out(budget)
            os.link(draft, file)  # all of it or nothing, and never over another one
            _sync_folder(folder)
        except FileExistsError as error:
            raise errors.LedgerError(f"{file} exists already. Open it, or choose another folder.") from error
        except OSError as error:
            raise errors.LedgerError(f"Cannot make a ledger in {folder}: {error.strerror}.") from error
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()
        return cls.open(folder)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> "Ledger":
        """Opens the ledger of a folder and verifies every row."""
        file = Path(path) / FILE_NAME
        if not file.is_file():
            raise errors.LedgerError(f"No ledger at {file}. Expected a folder with a {FILE_NAME} in it.")
        ledger = cls(_connect(file, "ro" if read_only else "rw"), file)
        try:
            with _explained(file):
                ledger._verify()
                if not read_only:
                    ledger._db.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            ledger.close()
            raise
        return ledger

    def _lay_out(self, budget: Budget) -> None:
        with _explained(self._path):
            self._db.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.strip().splitlines():
                self._db.execute(statement)
            self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {VERSION}")
            self._append("open", budget.to_json())
            self._db.execute("COMMIT")

    def close(self) -> None:
        """Closes the file; the rows stay."""
        self._db.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def budget(self) -> Budget:
        """The budget it was made with."""
        return Budget.from_json(self._entries[0][2])

    def spend(self, event: Event, *, task: str, private: bool) -> int:
        """Records a spend, durably, and returns its row; refuses one that would pass the budget.

        Args:
            event: What is about to be drawn.
            task: The public name of the task.
            private: False if the noise comes from a seeded source.
        """
        body = {"task": _name(task), "event": events.to_json(event), "private": bool(private)}
        with self._exclusive():
            before = self._statement()
            spent = events.compose(*[e for e in (before.tasks.get(task), event) if e is not None])
            others = [e for name, e in before.tasks.items() if name != task]
            if not self._affordable(spent, others):
                budget = self.budget
                raise errors.BudgetExceeded(
                    f"Task {task!r} would cost more than the budget of epsilon {budget.epsilon:g}, delta "
                    f"{budget.delta:g} allows one person; nothing was spent. Use more noise, or a new task name if "
                    "these are other people's data."
                )
            return self._append("spend", body)

    def publish(self, row: int) -> None:
        """Records that the release of a spend is about to leave; such a row can no longer be voided."""
        with self._exclusive():
            if self._spend_in(row).voided is not None:
                raise errors.LedgerError(f"Row {row} is voided: its release must not leave. Spend again.")
            self._append("publish", {"of": row})

    def void(self, row: int, *, reason: str) -> None:
        """Records that a spend was never released, on the word of the caller; the row stays and says why."""
        if not isinstance(reason, str) or not reason.strip():
            raise errors.InvalidValue("Expected a reason for voiding a row: why was its release never published?")
        with self._exclusive():
            spend = self._spend_in(row)
            if spend.published:
                raise errors.LedgerError(f"Row {row} cannot be voided: its release was published.")
            if spend.voided is not None:
                raise errors.LedgerError(f"Row {row} is voided already.")
            self._append("void", {"of": row, "reason": reason.strip()})

    def record(self, act: str) -> int:
        """Records a public act that costs nothing, and returns its row."""
        with self._exclusive():
            return self._append("act", {"text": act})

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """Copies all rows to a new ledger in another folder; what is spent there later is not known here."""
        with Ledger.create(path, self.budget) as other, self._lock, _explained(self._path):
            self._refresh()
            self._db.backup(other._db)

    def statement(self) -> Statement:
        """Returns what the ledger amounts to now, rows of other processes included."""
        with self._lock, _explained(self._path):
            self._refresh()
            return self._statement()

    def _verify(self) -> None:
        """Refuses a file that is not a whole ledger of a known format."""
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise errors.LedgerError(f"{self._path} is not a reticent ledger. Restore it from a backup.")
        if version > VERSION:
            raise errors.LedgerError(
                f"{self._path} was written by a newer version (format {version}, known: {VERSION}). Update reticent."
            )
        self._refresh()
        if not self._entries or self._entries[0][1] != "open":
            raise errors.LedgerError(f"{self._path} has no first row. Restore it from a backup.")

    def _affordable(self, spent: Event, others: list[Event]) -> bool:
        """One person: n tasks like this one, and any n tasks of the stream with it, stay within the budget."""
        budget = self.budget
        if not accounting.within(spent, budget):
            return False
        if budget.tasks_per_person == 1:
            return True
        stream, order = [*others, spent], budget.tasks_per_person
        return accounting.stream_delta(stream, budget.epsilon, order, adjacency=budget.adjacency) <= budget.delta

    def _spend_in(self, row: int) -> Spend:
        for spend in self._statement().spends:
            if spend.row == row:
                return spend
        raise errors.LedgerError(f"Row {row} is not a spend of this ledger. `reticent ledger` lists the rows.")

    def _statement(self) -> Statement:
        published = {body["of"] for _, kind, body in self._entries if kind == "publish"}
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
    def _exclusive(self) -> Iterator[None]:
        """One writer at a time, deciding on all rows there are; on any error nothing was written."""
        with self._lock, _explained(self._path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._refresh()
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                self._entries, self._chain = [], _GENESIS  # a row may have been appended in memory only
                self._refresh()
                raise

    def _append(self, kind: str, body: dict[str, Any]) -> int:
        row = len(self._entries) + 1
        body = {**body, "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        text = json.dumps(body, sort_keys=True, allow_nan=False)
        self._chain = _link(self._chain, row, kind, text)
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (row, kind, text, self._chain))
        self._entries.append((row, kind, body))
        return row

    def _refresh(self) -> None:
        """Reads rows added since the last look and verifies their chain."""
        query = "SELECT row, kind, body, chain FROM entries WHERE row > ? ORDER BY row"
        for row, kind, text, chain in self._db.execute(query, (len(self._entries),)):
            expected = _link(self._chain, row, kind, text)
            if row != len(self._entries) + 1 or chain != expected:
                raise errors.LedgerError(
                    f"Row {row} of {self._path} does not follow from the rows before it: the ledger was edited or "
                    "damaged. Restore it from a backup."
                )
            self._chain = expected
            self._entries.append((row, kind, json.loads(text)))


@contextlib.contextmanager
def _explained(path: Path | None) -> Iterator[None]:
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


def _connect(file: Path | None, mode: str) -> sqlite3.Connection:
    target = ":memory:" if file is None else f"file:{quote(str(file.absolute()))}?mode={mode}"
    if mode == "ro" and file is not None and not file.with_name(f"{file.name}-wal").exists():
        target += "&immutable=1"  # nobody is writing: leave no working files beside it
    with _explained(file):
        db = sqlite3.connect(target, uri=True, isolation_level=None, timeout=10.0, check_same_thread=False)
        try:
            db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            db.close()
            raise
    return db


def _link(before: str, row: int, kind: str, text: str) -> str:
    return hashlib.sha256(json.dumps([before, row, kind, text]).encode()).hexdigest()


def _name(task: object) -> str:
    if not isinstance(task, str) or not task.strip():
        raise errors.InvalidValue("Expected a public name for the task, such as a month.")
    return task


def _sync_folder(folder: Path) -> None:
    """Makes the new file's name durable too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
