"""An upgrade that was killed is finished only where ledger and manifest still agree."""

import json
import shutil
from pathlib import Path

import pytest

from reticent import errors
from reticent.gate.upgrade import upgrade
from reticent.released import store

FORMAT_3 = Path(__file__).parents[1] / "golden" / "format-3"


@pytest.fixture
def half(tmp_path, monkeypatch) -> Path:
    """A folder whose ledger is upgraded, and whose manifest is not."""
    folder: Path = tmp_path / "old"
    shutil.copytree(FORMAT_3 / "released", folder)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            upgrade(folder)
    return folder


def change(folder: Path, **others) -> None:
    file = folder / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **others}))


def test_settings_that_were_changed_meanwhile_are_refused(half):
    change(half, rule={"kind": "sums", "combine": "sum"})
    with pytest.raises(errors.LedgerError, match="does not belong to its releases"):
        upgrade(half)


def test_releases_that_were_left_out_meanwhile_are_refused(half):
    change(half, releases=json.loads((half / "manifest.json").read_text())["releases"][:-1])
    with pytest.raises(errors.LedgerError, match="does not belong to its releases"):
        upgrade(half)
