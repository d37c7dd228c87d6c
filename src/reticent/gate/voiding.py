"""Voids a spend whose release was never published."""

import os
from pathlib import Path

from reticent import errors
from reticent.gate.ledger import Ledger
from reticent.numerics.files import one_writer
from reticent.privacy.events import Remembered
from reticent.released import store


def void(path: str | os.PathLike[str], row: int, *, reason: str) -> None:
    """Voids a row of the ledger in a folder; a release of it that was written and never published is removed before.

    Args:
        path: A model directory, or any folder with a ledger.
        row: The spend.
        reason: Why its release was never published; recorded beside the row.
    """
    folder = Path(path)
    with one_writer(folder):
        try:
            with Ledger.open(folder) as ledger:
                if ledger.settings is not None:  # it knows which releases were published
                    _refuse_seen(folder, ledger, row)
                    store.remove_unlisted(folder, ledger.releases, ledger.identity)
                ledger.void(row, reason=reason)
        except errors.StorageError as error:
            if not _is_voided(folder, row):
                raise errors.StorageError(f"{error} Row {row} was not voided. Try again.") from error


def _refuse_seen(folder: Path, ledger: Ledger, row: int) -> None:
    """Refuses a row of memory whose release lies in the folder: if it was read, other noise would tell about everybody.

    A row of an epoch holds sums of all of its tasks. The vault has the same bytes, and the next writer publishes them.
    test_a_release_of_memory_that_may_have_been_seen_is_not_voided
    """
    spend = ledger.account.spends.get(row)
    if spend is None or not isinstance(spend.event, Remembered):
        return
    left = store.unlisted(folder, ledger.releases)
    if any(file.ledger == ledger.identity and file.task == spend.task for file in left):
        raise errors.LedgerError(
            f"Row {row} is a task with memory, and its release lies in {folder} already, where it may have been read. "
            "It is published as it is by the next task, or by reticent vault rotate; nothing was voided."
        )


def _is_voided(folder: Path, row: int) -> bool:
    """Looks again, for a write that failed may have reached the disk."""
    try:
        with Ledger.open(folder) as ledger:
            return ledger.is_voided(row)
    except (errors.LedgerError, LookupError):
        return False
