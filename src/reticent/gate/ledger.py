"""The ledger: append-only, durable before noise is drawn, never below what was spent.

One SQLite file in WAL mode; `released/ledger_file` reads it. Several processes may spend at once: each decides and
writes inside one exclusive transaction.
"""

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from reticent import errors, names
from reticent.budget import Budget, Persons
from reticent.numerics import databases
from reticent.numerics.files import draft_of, sync_folder
from reticent.privacy import accounting, stored_events
from reticent.privacy.events import Event
from reticent.privacy.statement import Spend
from reticent.released.account import Account
from reticent.released.ledger_file import APPLICATION, FILE_NAME, SCHEMA, VERSION, LedgerFile, connect, explained


class Ledger(LedgerFile):
    """What was spent, row by row, for writing.

    Guarantees:
      - `spend` returns only after the row is on disk; a crash later leaves it spent.   test_kill_after_spend
      - A spend past the budget is refused and changes nothing.                   test_refuses_before_overspending
      - Sequential within a task, parallel across tasks of order n.               test_tasks_compose_in_parallel
      - An epoch of memory has one event, and no more rows than places.           test_an_epoch_has_one_event
      - Safe with several processes.                                              test_concurrent_spends
      - A forked child spends nothing here.     test_a_forked_child_loses_and_doubles_nothing
      - It tells the day of a spend, and not how long a task took.           test_the_ledger_tells_no_durations

    Example:
        >>> from reticent.privacy import events
        >>> ledger = Ledger.create(None, Budget(epsilon=1.0, delta=1e-5))
        >>> ledger.spend(events.Gaussian(noise_multiplier=4.0), task="march", private=True)
        2
        >>> ledger.spend(events.Gaussian(noise_multiplier=4.0), task="march", private=True)
        Traceback (most recent call last):
        reticent.errors.BudgetExceeded: Task 'march' would cost more than the budget of epsilon 1, delta 1e-05 \
allows one person; nothing was spent. Use more noise, or a new task name if these are data of other persons.
    """

    @classmethod
    def create(
        cls, path: str | os.PathLike[str] | None, budget: Budget, *, settings: Mapping[str, Any] | None = None
    ) -> Self:
        """Makes a new ledger in a folder, or in memory for None; refuses where there is one already.

        Args:
            path: The folder.
            budget: What one person may lose over the whole stream; it never changes.
            settings: Of the model directory that it belongs to; None for a ledger by itself.
        """
        accounting.refuse_costly_score(budget)
        if path is None:
            ledger = cls(connect(None, "memory"), None)
            ledger._lay_out(budget, settings)
            return ledger
        with _draft(Path(path)) as draft, cls(connect(draft, "rwc"), draft) as ledger:
            ledger._lay_out(budget, settings)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], known: Account | None = None) -> Self:
        """Opens the ledger of a folder to write to it, and verifies every row that is not known."""
        ledger = cls._opened(Path(path), "rw", known)
        try:
            with explained(ledger._path):
                ledger._db.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            ledger.close()
            raise
        return ledger

    def _lay_out(self, budget: Budget, settings: Mapping[str, Any] | None) -> None:
        with explained(self._path), databases.transaction(self._db):
            for statement in SCHEMA:
                self._db.execute(statement)
            self._db.execute(f"PRAGMA application_id = {APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {VERSION}")
            first = {**budget.to_json(), "identity": secrets.token_hex(16)}
            self._append("open", first if settings is None else {**first, "settings": dict(settings)})

    # --- spending

    def spend(self, event: Event, *, task: str, private: bool, persons: Persons = Persons.ASSUMED) -> int:
        """Records a spend, durably, and returns its row; refuses one that would exceed the budget.

        Args:
            event: What is about to be drawn.
            task: The public name of the task.
            private: False if the noise comes from a seeded source.
            persons: How it is known whose the rows of the task are.
        """
        task = names.public_name(task)
        mark = secrets.token_hex(16)  # two copies of a ledger never have the same hash again
        facts = {"task": task, "private": bool(private), "persons": persons.value, "mark": mark}
        body = {**facts, "event": stored_events.to_json(event)}
        with self._exclusive():
            self._refuse_other_epoch(event)
            self._refuse_unaffordable(event, task)
            return self._append("spend", body)

    def publish(
        self,
        rows: int | Sequence[int],
        *,
        write: Callable[[int], Mapping[str, str]] | None = None,
        act: str | None = None,
    ) -> dict[str, str] | None:
        """Records that what was drawn for these spends is published, all at once; such rows can no longer be voided.

        This is the commit point of a release: its file is durable before, and is not read before. It is not written
        for a voided row, and no row can be voided while it is written.

        Args:
            rows: The spends.
            write: From the number of the release to file and digest, where there is a file.
            act: A public act to record with it.
        """
        of = [rows] if isinstance(rows, int) else list(rows)
        with self._exclusive():
            for row in of:
                if self._spend_in(row).voided is not None:
                    raise errors.LedgerError(f"Row {row} is voided: its release must not be published. Spend again.")
            release = None if write is None else dict(write(len(self.releases) + 1))
            if release is not None and release["file"] in {entry["file"] for entry in self.releases}:
                raise errors.LedgerError(f"{release['file']} is published already. Load the model again.")
            if act is not None:
                self._append("act", {"text": act})
            self._append("publish", {"of": of, "release": release})
        return release

    def count_as_published(self, rows: Sequence[int]) -> None:
        """Records that somebody may have read what was drawn for these spends, though no release is listed."""
        named = ", ".join(map(str, rows))
        self.publish(rows, act=f"No release is listed, but it may have been read: row {named} counts as published")

    def void(self, row: int, *, reason: str) -> None:
        """Records that nothing was published for a spend, as the caller states; the row stays, with the reason."""
        if not isinstance(reason, str) or not reason.strip():
            raise errors.InvalidValue("Expected a reason for voiding a row: why was its release never published?")
        reason = names.one_line(reason, what="a reason", longest=names.LONGEST_SENTENCE)
        with self._exclusive():
            spend = self._spend_in(row)
            if spend.published:
                raise errors.LedgerError(f"Row {row} cannot be voided: its release was published.")
            if spend.voided is not None:
                raise errors.LedgerError(f"Row {row} is voided already.")
            self._append("void", {"of": row, "reason": reason})

    def is_voided(self, row: int) -> bool:
        """Returns whether a spend was voided, by this process or another."""
        self.refresh()
        return self._account.spends[row].voided is not None

    def is_private(self, row: int) -> bool:
        """Returns what a spend says of its noise."""
        return self._account.spends[row].private

    def record(self, act: str) -> int:
        """Records a public act that costs nothing, and returns its row."""
        text = names.one_line(act, what="an act", longest=names.LONGEST_SENTENCE)
        with self._exclusive():
            return self._append("act", {"text": text})

    # --- the model directory that it belongs to

    def set(self, settings: Mapping[str, Any]) -> None:
        """Records the settings of the model directory, where they differ from those recorded before."""
        with self._exclusive():
            if self.settings != json.loads(json.dumps(settings)):
                self._append("settings", {"settings": dict(settings)})

    def list_releases(self, releases: Sequence[Mapping[str, str]]) -> None:
        """Records the files of all releases so far: of a model that was in memory until it was saved."""
        with self._exclusive():
            self._append("releases", {"releases": [dict(entry) for entry in releases]})

    def copy_to(
        self, path: str | os.PathLike[str], *, settings: Mapping[str, Any], releases: Sequence[Mapping[str, str]]
    ) -> None:
        """Copies all rows to a new ledger in another folder; what is spent there later is not known here.

        Args:
            path: The folder.
            settings: Of the model directory there.
            releases: Files and digests there.
        """
        with _draft(Path(path)) as draft, Ledger(connect(draft, "rwc"), draft) as other:
            with self._lock, explained(self._path):
                self._db.backup(other._db)
                other._db.execute("PRAGMA journal_mode = DELETE")  # all of it in one file, which gets the name
            other.set(settings)
            other.list_releases(releases)

    # --- inside

    def _refuse_other_epoch(self, event: Event) -> None:
        """Memory: an epoch has one noise and matrix and no more rows than places; an earlier one gets no more."""
        for epoch in accounting.split(event)[0]:
            spends = (spend.event for spend in self._account.spends.values() if spend.voided is None)
            rows = [row for spent in spends for row in accounting.split(spent)[0].elements()]
            mine = [row for row in rows if row.epoch == epoch.epoch]
            if any(row.epoch > epoch.epoch for row in rows) or any(row != epoch for row in mine):
                raise errors.LedgerError(
                    f"Epoch {epoch.epoch} is over, or its rows have other noise; nothing was spent. Begin a new epoch: "
                    "reticent vault rotate."
                )
            if len(mine) >= epoch.horizon:
                raise errors.LedgerError(
                    f"All {epoch.horizon} places of epoch {epoch.epoch} are used; nothing was spent. Begin a new "
                    "epoch: reticent vault rotate."
                )

    def _refuse_unaffordable(self, event: Event, task: str) -> None:
        """Refuses a spend that could lead one person past the budget, see `accounting.refuse_next`."""
        live = [(spend.task, spend.event) for spend in self._account.spends.values() if spend.voided is None]
        leading = self._account.leading.get(task if self.budget.tasks_per_person == 1 else None)
        accounting.refuse_next(self.budget, live, task, event, leading)

    def _spend_in(self, row: int) -> Spend:
        if row not in self._account.spends:
            raise errors.LedgerError(f"Row {row} is not a spend of this ledger. `reticent ledger` lists the rows.")
        return self._account.spends[row]

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """One writer at a time, deciding on all rows there are; on any error nothing was written."""
        if self._process != os.getpid():
            raise errors.LedgerError(
                "This ledger was opened by another process, which would not know what is spent here. Give the model a "
                "path, and open it in this process."
            )
        with self._lock, explained(self._path):
            before = self._account
            try:
                with databases.transaction(self._db):
                    self._refresh()
                    before = self._account.copy()
                    yield
            except BaseException:
                self._account = before  # what was added is in memory only
                raise

    def _append(self, kind: str, body: dict[str, Any]) -> int:
        account = self._account
        if kind != "publish":  # how long a task took depends on its examples: days, and none for its end
            body = {**body, "at": datetime.now(UTC).strftime("%Y-%m-%d")}
        text = json.dumps(body, sort_keys=True, allow_nan=False)
        self._db.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?)", (account.rows + 1, kind, text, account.link(kind, text))
        )
        return account.add(kind, text)


@contextlib.contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """Gives a file that becomes the ledger of a folder once it is whole; never in place of another one."""
    file, draft = folder / FILE_NAME, draft_of(folder / FILE_NAME)
    try:
        if file.exists():
            raise FileExistsError(file)
        folder.mkdir(parents=True, exist_ok=True)
        yield draft
        os.link(draft, file)
        sync_folder(folder)
    except FileExistsError as error:
        raise errors.LedgerError(f"{file} exists already. Open it, or choose another folder.") from error
    except OSError as error:
        raise errors.StorageError(f"Cannot make a ledger in {folder}: {error.strerror}.") from error
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):  # with the database's working files
            with contextlib.suppress(OSError):
                draft.with_name(draft.name + suffix).unlink()
