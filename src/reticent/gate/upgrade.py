"""Upgrades model directories of the previous format, so that they can learn again."""

import os
from pathlib import Path

from reticent import errors
from reticent.gate.ledger import Ledger
from reticent.numerics.files import one_writer
from reticent.released import settings as stored_settings
from reticent.released import store
from reticent.released.contents import foreign
from reticent.released.ledger_file import FIRST_VERSION


def upgrade(path: str | os.PathLike[str]) -> None:
    """Upgrades a folder of the previous format: its ledger gets an identity and the list of releases.

    Refuses where releases and ledger contradict each other. Releases do not change.
    """
    folder = Path(path)
    with one_writer(folder):
        try:
            with store.readable(folder):
                _upgrade(folder)
        except errors.StorageError as error:
            if store.read_manifest(folder)["format"] != store.FORMAT:  # the last file; a failed write may be there
                raise errors.StorageError(f"{error} Upgrade it again when that is mended.") from error


def _upgrade(folder: Path) -> None:
    content = store.read_manifest(folder)
    if content["format"] == store.FORMAT:
        raise errors.InvalidValue(f"{folder} has the current format already.")
    with store.readable(folder / store.MANIFEST):
        settings = stored_settings.checked(content)
    releases = [store.read_release(folder, entry, None) for entry in content["releases"]]
    with Ledger.open(folder) as ledger:
        published = {spend.task for spend in ledger.statement().spends if spend.published}
        lost = [release.task for release in releases if release.parameters and release.task not in published]
        if lost or ledger.budget.to_json() != settings["budget"]:
            raise errors.LedgerError(foreign(folder))
        if ledger.version == FIRST_VERSION:
            ledger.upgrade(settings, content["releases"])
        elif ledger.settings != settings or ledger.releases != content["releases"]:
            raise errors.LedgerError(foreign(folder))  # else it was killed here, before the manifest
        identity = ledger.identity
    store.write_manifest(folder, {"identity": identity, **settings, "releases": content["releases"]})
