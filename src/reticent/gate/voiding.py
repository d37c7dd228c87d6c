"""Voids a spend whose release was never published."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from reticent import errors
from reticent.gate import epochs
from reticent.gate.ledger import Ledger
from reticent.numerics.files import one_writer
from reticent.released import store
from reticent.released.contents import foreign
from reticent.released.settings import epoch_of


def void(path: str | os.PathLike[str], row: int, *, reason: str, vault: str | os.PathLike[str] | None = None) -> None:
    """Voids a row of the ledger in a folder, unless somebody may have read what was drawn for it.

    Guarantees:
      - While the folder holds a release or a draft that is not listed, or the vault one that waits, nothing is voided.
        test_what_may_have_been_read_is_never_voided, test_what_a_vault_holds_is_never_voided
      - Without its vault nothing of a model with memory is voided.
                                                               test_without_its_vault_nothing_is_voided

    Args:
        path: A model directory, or any folder with a ledger.
        row: The spend.
        reason: Why its release was never published; recorded beside the row.
        vault: Where the vault of a model with memory is, if it was moved.
    """
    folder = Path(path)
    with one_writer(folder):
        try:
            with Ledger.open(folder) as ledger, _nothing_left(folder, ledger, None if vault is None else Path(vault)):
                ledger.void(row, reason=reason)
        except errors.VaultError as error:
            raise errors.VaultError(f"{error} Nothing was voided.") from error
        except errors.StorageError as error:
            if not _is_voided(folder, row):
                raise errors.StorageError(f"{error} Row {row} was not voided. Try again.") from error


@contextlib.contextmanager
def _nothing_left(folder: Path, ledger: Ledger, vault: Path | None) -> Iterator[None]:
    """Refuses a model that a killed process has left a release to: with other noise, it would be published twice.

    Of a ledger by itself nothing is known, and the word of its user counts.
    """
    if ledger.settings is None:
        if (folder / store.RELEASES).exists():
            raise errors.LedgerError(foreign(folder))
        yield
        return
    advice = (
        "Nothing was voided. Learn the task again: its release is published as it is, or its spend counts for good."
    )
    epoch = epoch_of(ledger.settings)
    with contextlib.nullcontext() if epoch is None else epochs.opened(epoch, folder, ledger, vault) as opened:
        if opened is not None and epochs.unpublished(opened, ledger) is not None:
            raise errors.LedgerError(f"The vault of {folder} holds a release that waits to be published. {advice}")
        if store.left_behind(folder, ledger.releases, ledger.identity):
            raise errors.LedgerError(f"A release that is not listed lies in {folder}, and may have been read. {advice}")
        yield


def _is_voided(folder: Path, row: int) -> bool:
    """Looks again, for a write that failed may have reached the disk."""
    try:
        with Ledger.open(folder) as ledger:
            return ledger.is_voided(row)
    except (errors.LedgerError, LookupError):
        return False
