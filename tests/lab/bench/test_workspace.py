"""Files that are kept: whole, on the disk before they have their name, and made again where damaged."""

import os
from pathlib import Path

import numpy as np
import pytest

from reticent.lab.bench import workspace
from reticent.lab.bench.workspace import Workspace, read, write, write_array
from reticent.sensitive.learners import PeftEnsemble
from tests.lab.tiny import cell, write_features


def test_content_is_on_the_disk_before_its_name(tmp_path, monkeypatch):
    synced: list[int] = []
    rename = Path.replace

    def replace(part: Path, file: Path) -> Path:
        assert synced == [part.stat().st_size], "renamed before it was synced"
        return rename(part, file)

    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    monkeypatch.setattr(Path, "replace", replace)
    write(tmp_path / "a.json", '{"a": "é"}')
    assert read(tmp_path / "a.json") == {"a": "é"}
    synced.clear()
    write_array(tmp_path / "a.npy", np.eye(3, dtype=np.float32))
    assert (np.load(tmp_path / "a.npy") == np.eye(3)).all()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.json", "a.npy"]


@pytest.mark.parametrize("content", [b"", b'{"a": ', b"\xff\xfe"])
def test_what_is_damaged_reads_as_nothing(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    assert read(tmp_path / "a.json") is read(tmp_path / "none.json") is read(tmp_path) is None


def test_settings_that_are_damaged_are_tuned_again(tmp_path, monkeypatch):
    tuned: list[int] = []

    def tune(learner: PeftEnsemble, *arguments: object, **others: object) -> PeftEnsemble:
        tuned.append(1)
        return learner

    monkeypatch.setattr(workspace, "tune_uncounted", tune)
    place, learner = Workspace(tmp_path, tmp_path), PeftEnsemble(task_size=10)
    for _ in range(2):
        assert place.tuned(cell(learner="peft-paper"), learner, [], np.array([])) == learner
    assert len(tuned) == 1
    (file,) = (tmp_path / "tuned").glob("*.json")
    file.write_text(file.read_text()[:-10])
    assert place.tuned(cell(learner="peft-paper"), learner, [], np.array([])) == learner
    assert len(tuned) == 2


@pytest.mark.parametrize("kept", [0, 40, 2_000], ids=["nothing", "half a heading", "some rows"])
def test_features_that_are_damaged_are_encoded_again(tmp_path, kept):
    place = Workspace(write_features(tmp_path / "data"), tmp_path / "out")
    whole = np.array(place.features(cell()))
    (file,) = (tmp_path / "out" / "features").glob("*.npy")
    content = file.read_bytes()
    workspace._mapped.cache_clear()
    file.write_bytes(content[:kept])
    assert (place.features(cell()) == whole).all()
    assert file.read_bytes() == content
