"""Folders that reticent 0.1 wrote: they predict as they did, and learn once they are upgraded."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.gate.upgrade import upgrade
from reticent.released import store
from reticent.released.ledger_file import FILE_NAME
from tests.stored import refuses_to_learn

FORMAT_3 = Path(__file__).parents[1] / "golden" / "format-3"


@pytest.fixture
def old(tmp_path) -> Path:
    folder: Path = tmp_path / "old"
    shutil.copytree(FORMAT_3, folder)
    return folder


EXPECTED = json.loads((FORMAT_3 / "expected.json").read_text())
CENTRES = np.array(EXPECTED["centres"])


@pytest.mark.parametrize("name", ["released", "public", "peft"])
def test_folders_of_format_3_predict_as_they_did(old, name):
    model, expected = rt.load(old / name), EXPECTED[name]
    assert model.predict(CENTRES).tolist() == expected["predictions"]
    assert model.classes_.tolist() == expected["classes"]
    spent = {name: value for name, value in model.spent().items() if name in expected["spent"]}  # there are more now
    assert spent == pytest.approx(expected["spent"], abs=1e-4)  # rounded up since
    assert refuses_to_learn(old / name, "earlier version .* reticent upgrade")


@pytest.mark.parametrize("name", ["released", "public", "peft"])
def test_folders_of_format_3_are_upgraded(old, name):
    expected = EXPECTED[name]
    files = {file.name: file.read_bytes() for file in (old / name / "releases").iterdir()}
    upgrade(old / name)
    model = rt.load(old / name)
    assert model.predict(CENTRES).tolist() == expected["predictions"]
    spent = {name: value for name, value in model.spent().items() if name in expected["spent"]}  # there are more now
    assert spent == pytest.approx(expected["spent"], abs=1e-4)  # rounded up since
    assert len(model.statement().spends) == expected["rows"]
    assert {file.name: file.read_bytes() for file in (old / name / "releases").iterdir()} == files
    before = len(model.releases)
    model.learn_task(CENTRES, ["code 0", "code 1", "code 2"], name="may")
    assert len(rt.load(old / name).releases) == before + 1
    with pytest.raises(errors.InvalidValue, match="current format already"):
        upgrade(old / name)


def test_a_killed_upgrade_is_finished(old, monkeypatch):
    folder = old / "released"

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            upgrade(folder)
    assert rt.load(folder).predict(CENTRES).tolist() == EXPECTED["released"]["predictions"]
    assert refuses_to_learn(folder, "earlier version .* reticent upgrade")
    upgrade(folder)
    rt.load(folder).learn_task(CENTRES, ["code 0", "code 1", "code 2"], name="may")
    assert rt.load(folder).releases[-1].task == "may"


def test_a_ledger_of_the_first_format_is_refused_beside_the_current_one(old):
    upgrade(old / "public")
    shutil.copy(FORMAT_3 / "public" / FILE_NAME, old / "public" / FILE_NAME)
    assert refuses_to_learn(old / "public", "does not belong to its releases")


def test_a_contradictory_folder_is_not_upgraded(old):
    manifest = json.loads((old / "released" / "manifest.json").read_text())
    shutil.copy(old / "public" / FILE_NAME, old / "released" / FILE_NAME)
    with pytest.raises(errors.LedgerError, match="does not belong to its releases"):
        upgrade(old / "released")
    assert json.loads((old / "released" / "manifest.json").read_text()) == manifest


def test_an_upgraded_learner_keeps_its_settings(old):
    upgrade(old / "peft")
    learner = rt.load(old / "peft")._learner()
    assert isinstance(learner, rt.PeftEnsemble)
    assert (learner.task_size, learner.epochs, learner.decoys) == (900, 2, 50)
    assert "NOT COVERED" in rt.load(old / "peft").privacy_statement()
