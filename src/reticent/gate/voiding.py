"""Voids a spend whose release was never published."""

import os
from pathlib import Path

from reticent import errors
from reticent.gate.ledger import Ledger
from reticent.numerics.files import one_writer
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
                    store.remove_unlisted(folder, ledger.releases, ledger.identity)
                ledger.void(row, reason=reason)
        except errors.StorageError as error:
            if not _is_voided(folder, row):
                raise errors.StorageError(f"{error} Row {row} was not voided. Try again.") from error


def _is_voided(folder: Path, row: int) -> bool:
    """Looks again, for a write that failed may have reached the disk."""
    try:
        with Ledger.open(folder) as ledger:
            return ledger.is_voided(row)
    except (errors.LedgerError, LookupError):
        return False
