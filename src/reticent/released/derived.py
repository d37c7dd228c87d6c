"""Files of a model directory that follow from its ledger and releases: the manifest and the model card."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.released import card, store
from reticent.released.account import Account
from reticent.released.model import Model


def write(
    folder: Path,
    identity: str,
    settings: Mapping[str, Any],
    releases: Sequence[Mapping[str, str]],
    *,
    model: Model,
    account: Account | None,
) -> None:
    """Writes both anew. Where that fails, the ledger says the same: the next ones are derived from it.

    Args:
        folder: The model directory.
        identity: Of the ledger.
        settings: Of the directory.
        releases: File and digest of each.
        model: What was released.
        account: What the ledger adds up to; None for one that was just made.
    """
    about = {"identity": identity, "head": account and account.head}
    with contextlib.suppress(errors.StorageError):
        store.write_manifest(folder, {**about, **settings, "releases": releases})
    card.write(folder, model, settings, account)
