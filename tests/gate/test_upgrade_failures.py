"""An upgrade whose last write fails: whether it is done is looked up."""

import pytest

from reticent import errors
from reticent.gate import upgrade as upgrades
from reticent.released import store


@pytest.mark.parametrize("written", [False, True])
def test_an_upgrade_that_fails_says_whether_to_do_it_again(tmp_path, monkeypatch, written):
    format_now = store.FORMAT if written else store.FORMAT - 1
    monkeypatch.setattr(store, "read_manifest", lambda folder: {"format": format_now})

    def fail(folder):
        (tmp_path / "tried").touch()
        raise errors.StorageError("Disk full.")

    monkeypatch.setattr(upgrades, "_upgrade", fail)
    if written:
        upgrades.upgrade(tmp_path)
    else:
        with pytest.raises(errors.StorageError, match=r"Disk full\. Upgrade it again when that is mended\."):
            upgrades.upgrade(tmp_path)
    assert (tmp_path / "tried").exists()
