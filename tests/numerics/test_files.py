"""Files that are written whole: synced before they get their names, and nothing is left of a failure."""

import os
from pathlib import Path

import pytest

from reticent import errors
from reticent.numerics.files import write_whole


def test_content_is_synced_before_it_gets_its_name(tmp_path, monkeypatch):
    synced: list[int] = []
    rename = os.replace

    def replace(draft: Path, file: Path) -> None:
        assert synced == [draft.stat().st_size], "renamed before it was synced"
        rename(draft, file)

    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    monkeypatch.setattr(os, "replace", replace)
    for name, content in (("a.txt", "é"), ("b.npy", b"\0" * 100)):
        synced.clear()
        write_whole(tmp_path / name, content)
        assert (tmp_path / name).read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.txt", "b.npy"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    write_whole(tmp_path / "a.txt", "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.InvalidValue, match="No space left on device"):
        write_whole(tmp_path / "a.txt", "new")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.txt", "old")]
