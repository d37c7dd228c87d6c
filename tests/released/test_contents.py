"""Ledger, manifest and releases of a folder belong together, or nothing is learned."""

import json
import shutil
from typing import Any, cast

import pytest

import reticent as rt
from reticent import errors
from reticent.released.contents import read_contents
from reticent.released.ledger_file import FILE_NAME, LedgerFile
from tests.stored import X, Y, classifier, predicts, refuses_to_learn, tasks_of


def test_without_its_ledger_a_model_predicts(tmp_path):
    classifier(tmp_path).learn_task(X, Y, name="march")
    for file in tmp_path.glob(f"{FILE_NAME}*"):
        file.unlink()
    assert predicts(tmp_path)
    assert refuses_to_learn(tmp_path, "has no ledger .* not learn")
    with pytest.raises(errors.LedgerError, match="what was spent on it is unknown"):
        rt.load(tmp_path).privacy_statement()


def test_an_older_ledger_is_refused(tmp_path):
    """The attack: restore yesterday's ledger, and learn the same persons again at the full budget."""
    model = classifier(tmp_path / "model").learn_task(X, Y, name="march")
    yesterday = (tmp_path / "model" / FILE_NAME).read_bytes()
    model.learn_task(X, Y, name="april")
    (tmp_path / "model" / FILE_NAME).write_bytes(yesterday)
    assert predicts(tmp_path / "model")
    assert refuses_to_learn(tmp_path / "model", "does not belong to its releases")
    with pytest.raises(errors.LedgerError, match="does not belong"):
        rt.load(tmp_path / "model").spent()


def test_an_older_ledger_without_a_manifest_is_refused(tmp_path):
    """The same attack, with the manifest removed: the release in the folder tells."""
    folder = tmp_path / "model"
    model = classifier(folder).learn_task(X, Y, name="march")
    yesterday = (folder / FILE_NAME).read_bytes()
    model.learn_task(X, Y, name="april")
    (folder / FILE_NAME).write_bytes(yesterday)
    (folder / "manifest.json").unlink()
    assert refuses_to_learn(folder, "does not belong to its releases")
    with pytest.raises(errors.LedgerError, match="does not belong"):
        model.learn_task(X, Y, name="may")


def test_a_restored_folder_is_learned_into_again(tmp_path):
    """What was refused is looked at anew by every writer."""
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    whole = (tmp_path / FILE_NAME).read_bytes()
    (tmp_path / FILE_NAME).unlink()
    with pytest.raises(errors.LedgerError, match="has no ledger"):
        model.learn_task(X, Y, name="april")
    (tmp_path / FILE_NAME).write_bytes(whole)
    model.learn_task(X, Y, name="april")
    assert tasks_of(tmp_path) == ["march", "april"]


def test_the_ledger_of_another_model_is_refused(tmp_path):
    for name in ("one", "two"):
        classifier(tmp_path / name).learn_task(X, Y, name="march")
    shutil.copy(tmp_path / "two" / FILE_NAME, tmp_path / "one" / FILE_NAME)
    assert predicts(tmp_path / "one")
    assert refuses_to_learn(tmp_path / "one", "does not belong to its releases")


def test_the_release_of_another_model_is_refused(tmp_path):
    for name in ("one", "two"):
        classifier(tmp_path / name).learn_task(X, Y, name="march")
    (one, two) = (tmp_path / name / "releases" / "0001.safetensors" for name in ("one", "two"))
    entry = json.loads((tmp_path / "two" / "manifest.json").read_text())["releases"][0]
    shutil.copy(two, one)
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    (tmp_path / "one" / "manifest.json").write_text(json.dumps({**manifest, "releases": [entry]}))
    for file in (tmp_path / "one").glob(f"{FILE_NAME}*"):
        file.unlink()
    with pytest.raises(errors.InvalidValue, match="belongs to another ledger"):
        rt.load(tmp_path / "one")


@pytest.mark.parametrize("file", ["../../secret", "/etc/passwd", "releases/../manifest.json", "releases/x"])
def test_files_outside_the_folder_are_refused(tmp_path, file):
    classifier(tmp_path).learn_task(X, Y, name="march")
    for ledger in tmp_path.glob(f"{FILE_NAME}*"):
        ledger.unlink()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["releases"][0]["file"] = file
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(errors.InvalidValue, match="names a file outside of it"):
        rt.load(tmp_path)


@pytest.mark.parametrize("damage", [{"releases": [{}]}, {"releases": 3}, {"rule": None}, {"policy": {}}])
def test_a_damaged_manifest_is_refused(tmp_path, damage):
    classifier(tmp_path).learn_task(X, Y, name="march")
    (tmp_path / FILE_NAME).unlink()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, **damage}))
    with pytest.raises(errors.InvalidValue, match="Restore it from a backup"):
        rt.load(tmp_path)
    for name in damage:
        del manifest[name]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(errors.InvalidValue, match="Restore it from a backup"):
        rt.load(tmp_path)


def test_readers_agree_while_others_write(tmp_path, monkeypatch):
    """Random kills found it: a release written after the ledger was read looked like one that nobody had paid for."""
    other = classifier(tmp_path).learn_task(X, Y, name="march")
    opened, tasks = vars(LedgerFile)["open"].__func__, iter(range(9))

    def then_another(kind: type[LedgerFile], *arguments: Any) -> LedgerFile:
        ledger = opened(kind, *arguments)
        if kind is LedgerFile:
            monkeypatch.undo()  # the writer reads, too
            other.learn_task(X, Y, name=f"task {next(tasks)}")
            monkeypatch.setattr(LedgerFile, "open", classmethod(then_another))
        return cast(LedgerFile, ledger)

    monkeypatch.setattr(LedgerFile, "open", classmethod(then_another))
    assert read_contents(tmp_path).problem is None
    assert next(tasks) == 1  # at the first look


def test_an_older_ledger_is_noticed_where_it_published_no_file(tmp_path):
    """A noisy accuracy leaves no release in the folder; the manifest knows how far the ledger had come."""
    folder = tmp_path / "model"
    model = classifier(folder).learn_task(X, Y, name="march")
    yesterday = (folder / FILE_NAME).read_bytes()
    model.private_score(X, Y, epsilon=1.0, name="test")
    (folder / FILE_NAME).write_bytes(yesterday)
    assert refuses_to_learn(folder, "does not belong to its releases")
    with pytest.raises(errors.LedgerError, match="does not belong"):
        rt.load(folder).private_score(X, Y, epsilon=1.0, name="test")


def test_a_killed_copy_is_not_built_upon(tmp_path):
    (tmp_path / "model" / "releases").mkdir(parents=True)
    with pytest.raises(errors.InvalidValue, match="holds releases without a ledger"):
        classifier(tmp_path / "model").learn_task(X, Y, name="march")
