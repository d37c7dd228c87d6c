"""A model directory: one writer, one commit point, and inconsistent state is refused."""

import copy
import json
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.directory import Directory, learn
from reticent.gate.ledger import Ledger
from reticent.gate.upgrade import upgrade
from reticent.numerics import files
from reticent.released import store
from reticent.released.contents import read_contents
from reticent.released.ledger_file import FILE_NAME, LedgerFile
from reticent.sensitive.task import Task

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
LABELS = rt.PublicLabels(["a", "b"])
X = np.repeat(np.eye(2, 8), 20, axis=0)
Y = ["a"] * 20 + ["b"] * 20
FORMAT_3 = Path(__file__).parent / "golden" / "format-3"


def classifier(path: Path | None, **settings: Any) -> rt.ContinualClassifier:
    return rt.ContinualClassifier(labels=LABELS, budget=BUDGET, path=path, **settings)


def tasks_of(path: Path) -> list[str]:
    return [release.task for release in rt.load(path).releases]


# --- the loop


def test_learn_publishes_one_release_per_task(tmp_path):
    directory = Directory.create(tmp_path / "model", LABELS, rt.Cosine().rule, BUDGET)
    months = (Task(X, Y, name=name) for name in ("march", "april"))
    model = learn(months, rt.Cosine(), LABELS, directory)
    assert [release.task for release in model.releases] == ["march", "april"]
    assert tasks_of(tmp_path / "model") == ["march", "april"]


def test_releases_have_numbers_and_not_names(tmp_path):
    """Two names that would be written alike no longer destroy each other's file."""
    model = classifier(tmp_path)
    for name in ("a b", "a/b", "../up"):
        model.learn_task(X, Y, name=name)
    assert sorted(file.name for file in (tmp_path / "releases").iterdir()) == [f"000{n}.safetensors" for n in (1, 2, 3)]
    assert tasks_of(tmp_path) == ["a b", "a/b", "../up"]


# --- several writers


def _learn_many(path: Path, worker: int, tasks: int) -> None:
    model = rt.load(path)
    for task in range(tasks):
        model.learn_task(X, Y, name=f"{worker}.{task}")


def learned_by_two(path: Path, tasks: int) -> None:
    assert len(classifier(path).directory.model.labels) == 2  # made here
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_learn_many, args=(path, worker, tasks)) for worker in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    expected = sorted(f"{worker}.{task}" for worker in range(2) for task in range(tasks))
    model = rt.load(path)
    assert sorted(release.task for release in model.releases) == expected
    assert sorted(spend.task for spend in model.statement().spends if spend.published) == expected
    assert len(list((path / "releases").iterdir())) == 2 * tasks
    assert json.loads((path / "manifest.json").read_text())["releases"] == LedgerFile.open(path).releases
    assert not [file for file in path.rglob(".*") if file.is_file()]  # no draft stays


def test_two_processes_lose_nothing(tmp_path):
    learned_by_two(tmp_path / "model", 5)


@pytest.mark.slow
def test_two_processes_of_fifty_tasks_lose_nothing(tmp_path):
    learned_by_two(tmp_path / "model", 50)


def test_threads_on_one_object_lose_nothing(tmp_path):
    model = classifier(tmp_path)
    threads = [threading.Thread(target=model.learn_task, args=(X, Y), kwargs={"name": f"{i}"}) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(tasks_of(tmp_path)) == [str(i) for i in range(8)]
    assert sorted(release.task for release in model.releases) == [str(i) for i in range(8)]


def test_a_second_writer_is_refused_after_a_while(tmp_path, monkeypatch):
    model = classifier(tmp_path)
    model.learn_task(X, Y, name="march")
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    refusal = pytest.raises(errors.LedgerError, match=r"Another process is writing to .* Try again")
    with files.one_writer(tmp_path), refusal:
        model.learn_task(X, Y, name="april")
    model.learn_task(X, Y, name="april")
    assert tasks_of(tmp_path) == ["march", "april"]


def test_an_object_sees_what_others_have_published(tmp_path):
    mine, theirs = classifier(tmp_path).learn_task(X, Y, name="march"), rt.load(tmp_path)
    theirs.learn_task(X, Y, name="april")
    mine.learn_task(X, Y, name="may")
    assert [release.task for release in mine.releases] == ["march", "april", "may"]
    with pytest.raises(errors.BudgetExceeded, match="in the ledger already"):
        theirs.learn_task(X, Y, name="may")


def test_one_thread_opens_one_writer(tmp_path):
    for path in (tmp_path / "model", None):
        directory = classifier(path).directory
        with directory.writer(), pytest.raises(errors.LedgerError, match="open in this thread already"):
            directory.record("an act")
        directory.record("an act")


def test_of_two_creators_one_is_refused(tmp_path, monkeypatch):
    """Both saw an empty folder; the later one must not write over the labels of the other."""
    write = store.write_labels
    others: list[object] = []

    def meanwhile(folder, labels, remap):
        if not others:
            others.append("asked")
            monkeypatch.setattr(files, "PATIENCE", 0.05)
            with pytest.raises(errors.LedgerError, match="Another process is writing"):
                rt.ContinualClassifier(labels=rt.PublicLabels(["z"]), budget=BUDGET, path=folder).learn_task(
                    X, ["z"] * 40, name="march"
                )
        return write(folder, labels, remap)

    monkeypatch.setattr(store, "write_labels", meanwhile)
    classifier(tmp_path).learn_task(X, Y, name="march")
    assert rt.load(tmp_path).classes_.tolist() == ["a", "b"]


def test_a_release_is_published_once(tmp_path):
    directory = classifier(tmp_path).directory
    task = Task(X, Y, name="march")
    with directory.writer() as gate:
        release = rt.Cosine().learn_task(
            gate.admit(task), LABELS, known=directory.model.labels, encoder=None, gate=gate, past=()
        )
        directory.publish(release)
        with pytest.raises(errors.NotPaidFor, match="gate is closed"):
            directory.publish(release)
    assert tasks_of(tmp_path) == ["march"]


def test_the_folder_stays_the_one_it_was(tmp_path, monkeypatch):
    """Another current folder, the model moved away, or another model in its place."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    model = classifier(Path("model")).learn_task(X, Y, name="march")
    monkeypatch.chdir(tmp_path / "elsewhere")
    model.learn_task(X, Y, name="april")
    assert tasks_of(tmp_path / "model") == ["march", "april"]
    (tmp_path / "model").rename(tmp_path / "moved")
    for act in (lambda: model.learn_task(X, Y, name="may"), model.spent):
        with pytest.raises(errors.InvalidValue, match=r"No folder at|No model at"):
            act()
    assert not (tmp_path / "model").exists()
    classifier(tmp_path / "model").learn_task(X, Y, name="march")
    for act in (lambda: model.learn_task(X, Y, name="may"), model.spent):
        with pytest.raises(errors.LedgerError, match="does not belong to its releases"):
            act()
    assert tasks_of(tmp_path / "moved") == ["march", "april"]


def test_no_working_files_stay(tmp_path):
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    model.spent()
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(
        [FILE_NAME, files.LOCK, store.LABELS, store.MANIFEST, store.RELEASES]
    )


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])  # noqa: S301
def test_copies_of_a_model_write_to_its_folder(tmp_path, copied):
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    other = copied(model)
    other.learn_task(X, Y, name="april")
    model.learn_task(X, Y, name="may")
    assert tasks_of(tmp_path) == ["march", "april", "may"]
    with pytest.raises(errors.InvalidValue, match="in memory cannot be copied"):
        copied(classifier(None).learn_task(X, Y, name="march"))
    twin = copy.copy(other.directory)
    twin.add_labels(["c"])
    other.extend_labels(["d"])
    assert rt.load(tmp_path).classes_.tolist() == ["a", "b", "c", "d"]


# --- one commit point


KILLED = """
import os, signal, sys
import numpy as np, reticent as rt
from reticent.{module} import {owner}
model = rt.load(sys.argv[1])
original = {owner}.{method}
def killed(*args, **others):
    {before}
    result = original(*args, **others)
    os.kill(os.getpid(), signal.SIGKILL)
{owner}.{method} = killed
model.learn_task(np.repeat(np.eye(2, 8), 20, axis=0), ["a"] * 20 + ["b"] * 20, name="april")
"""
NOW = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.posix
@pytest.mark.parametrize(
    ("owner", "method", "before", "published"),
    [
        (("gate.ledger", "Ledger"), "spend", NOW, False),
        (("gate.ledger", "Ledger"), "spend", "", False),
        (("released", "store"), "write_release", NOW, False),
        (("released", "store"), "write_release", "", False),
        (("gate.ledger", "Ledger"), "publish", NOW, False),
        (("gate.ledger", "Ledger"), "publish", "", True),
        (("released", "store"), "write_manifest", NOW, True),
        (("released", "store"), "write_manifest", "", True),
    ],
)
def test_the_ledger_decides_what_is_published(tmp_path, owner, method, before, published):
    """Killed before and after every step: the model loads and can learn; what the ledger published is there."""
    classifier(tmp_path).learn_task(X, Y, name="march")
    code = KILLED.format(module=owner[0], owner=owner[1], method=method, before=before)
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    model = rt.load(tmp_path)
    assert [release.task for release in model.releases] == ["march", "april"][: 1 + published]
    lost = [s for s in model.statement().spends if not s.published]
    assert len(lost) == (not published and not (method == "spend" and before == NOW))
    for spend in lost:
        with Ledger.open(tmp_path) as ledger:
            ledger.void(spend.row, reason="killed before its release")
    name = "may" if published else "april"
    model.learn_task(X, Y, name=name)
    assert tasks_of(tmp_path)[-1] == name
    assert len(list((tmp_path / "releases").iterdir())) == len(model.releases)


def test_a_crash_while_creating_leaves_a_model_or_none(tmp_path):
    classifier(tmp_path / "model").learn_task(X, Y, name="march")
    (tmp_path / "model" / "manifest.json").unlink()  # killed before the first one was written: the ledger knows
    model = rt.load(tmp_path / "model")
    assert [release.task for release in model.releases] == ["march"]
    model.learn_task(X, Y, name="april")
    assert tasks_of(tmp_path / "model") == ["march", "april"]
    with pytest.raises(errors.InvalidValue, match="holds a model already"):
        classifier(tmp_path / "model").learn_task(X, Y, name="may")


def test_what_is_published_is_read_from_the_ledger_that_is_written_to(tmp_path, monkeypatch):
    """Random kills found it: a reader may not see the last commit of a killed process, which the next writer sees."""
    model, other = classifier(tmp_path).learn_task(X, Y, name="march"), rt.load(tmp_path)
    before = read_contents(tmp_path)
    other.learn_task(X, Y, name="april")
    monkeypatch.setattr("reticent.directory.read_contents", lambda folder: before)
    model.learn_task(X, Y, name="may")
    assert tasks_of(tmp_path) == ["march"]  # as the reader says that does not see more
    monkeypatch.undo()
    assert tasks_of(tmp_path) == ["march", "april", "may"]
    with Ledger.open(tmp_path) as ledger, pytest.raises(errors.LedgerError, match="is published already"):
        ledger.publish([], release=ledger.releases[0])


def _learn_and_tell(path: Path, worker: int, told: Path) -> None:
    model = rt.load(path)
    with open(told, "a", encoding="utf-8", buffering=1) as file:
        for task in range(1_000):
            model.learn_task(X, Y, name=f"{worker}.{task}")
            file.write(f"{worker}.{task}\n")  # from here on it must be there
            if task % 4 == 0:
                model.extend_labels([f"{worker}.{task}"])


@pytest.mark.posix
@pytest.mark.slow
def test_random_kills_lose_nothing(tmp_path):
    """For 20 seconds two writers are killed at random moments, and a reader looks on."""
    path, told = tmp_path / "model", tmp_path / "told"
    classifier(path).learn_task(X, Y, name="first")
    context, chance = multiprocessing.get_context("fork"), random.Random(0)
    running: list[tuple[Any, float]] = []
    kills, end = 0, time.monotonic() + 20
    while time.monotonic() < end:
        for process, until in list(running):
            if time.monotonic() > until:
                process.kill()
                process.join()
                running.remove((process, until))
                kills += 1
        while len(running) < 2:
            worker = context.Process(target=_learn_and_tell, args=(path, kills + len(running), told))
            worker.start()
            running.append((worker, time.monotonic() + 0.3 + chance.random()))
        assert rt.load(path).statement().spends  # never refused
    for process, _ in running:
        process.kill()
        process.join()
    model = rt.load(path)
    learned = [release.task for release in model.releases if release.parameters]
    assert kills > 10
    assert len(set(learned)) == len(learned)
    assert {*told.read_text().split()} <= {*learned} == {s.task for s in model.statement().spends if s.published}
    model.learn_task(X, Y, name="last")
    assert tasks_of(path)[-1] == "last"


def test_readers_look_again_while_others_write(tmp_path, monkeypatch):
    """A release that was written after the ledger was read looks like one that nobody paid for."""
    classifier(tmp_path).learn_task(X, Y, name="march")
    looks = iter([[("april", None, True)], []])
    monkeypatch.setattr(store, "unlisted", lambda folder, listed: next(looks))
    assert read_contents(tmp_path).problem is None


def test_a_failed_write_changes_nothing(tmp_path, monkeypatch):
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    write = files.write_whole

    def full(file, content):
        raise errors.InvalidValue(f"Cannot write {file}: No space left on device.")

    monkeypatch.setattr(store, "write_whole", full)
    with pytest.raises(errors.InvalidValue, match="No space left"):
        model.learn_task(X, Y, name="april")
    assert [release.task for release in model.releases] == ["march"] == tasks_of(tmp_path)
    monkeypatch.setattr(store, "write_whole", write)
    model.learn_task(X, Y, name="may")
    assert tasks_of(tmp_path) == ["march", "may"]


def test_a_manifest_that_cannot_be_written_is_derived_later(tmp_path, monkeypatch):
    """After the commit point nothing may look like a failure: the same task would be learned again."""
    model = classifier(tmp_path).learn_task(X, Y, name="march")

    def full(folder, content):
        raise errors.InvalidValue("Cannot write: No space left on device.")

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_manifest", full)
        model.learn_task(X, Y, name="april")
    assert len(json.loads((tmp_path / "manifest.json").read_text())["releases"]) == 1
    assert tasks_of(tmp_path) == ["march", "april"]
    model.learn_task(X, Y, name="may")
    assert len(json.loads((tmp_path / "manifest.json").read_text())["releases"]) == 3


def test_a_refusal_says_whether_a_row_can_be_voided(tmp_path, monkeypatch):
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    with pytest.raises(errors.BudgetExceeded, match=r"another name\.$"):
        model.learn_task(X, Y, name="march")
    with monkeypatch.context() as patch:
        patch.setattr(Directory, "publish", lambda self, release: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.learn_task(X, Y, name="april")
    with pytest.raises(errors.BudgetExceeded, match="--void 4 --reason"):
        model.learn_task(X, Y, name="april")


# --- ledger and releases belong together


def predicts(path: Path) -> bool:
    return rt.load(path).predict(np.eye(2, 8)).shape == (2,)


def refused_to_learn(path: Path, sentence: str) -> None:
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file() and "lock" not in file.name}
    with pytest.raises(errors.LedgerError, match=sentence):
        rt.load(path).learn_task(X, Y, name="new")
    assert before == {f: f.read_bytes() for f in path.rglob("*") if f.is_file() and "lock" not in f.name}


def test_without_its_ledger_a_model_predicts(tmp_path):
    classifier(tmp_path).learn_task(X, Y, name="march")
    for file in tmp_path.glob(f"{FILE_NAME}*"):
        file.unlink()
    assert predicts(tmp_path)
    refused_to_learn(tmp_path, "has no ledger .* not learn")
    with pytest.raises(errors.LedgerError, match="what was spent on it is unknown"):
        rt.load(tmp_path).privacy_statement()


def test_an_older_ledger_is_refused(tmp_path):
    """The attack: restore yesterday's ledger, and learn the same persons again at the full budget."""
    model = classifier(tmp_path / "model").learn_task(X, Y, name="march")
    yesterday = (tmp_path / "model" / FILE_NAME).read_bytes()
    model.learn_task(X, Y, name="april")
    (tmp_path / "model" / FILE_NAME).write_bytes(yesterday)
    assert predicts(tmp_path / "model")
    refused_to_learn(tmp_path / "model", "does not belong to its releases")
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
    refused_to_learn(folder, "does not belong to its releases")
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
    refused_to_learn(tmp_path / "one", "does not belong to its releases")


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


def test_settings_of_other_processes_are_seen(tmp_path):
    mine, paper = classifier(tmp_path).learn_task(X, Y, name="march"), rt.load(tmp_path, learner=rt.Cosine.paper())
    ours = rt.load(tmp_path, learner=rt.Cosine())
    ours.learn_task(X, Y, name="april")
    paper.learn_task(X, Y, name="may")
    mine.learn_task(X, Y, name="june")
    assert mine._learner() == rt.Cosine.paper()
    assert mine.directory.model.rule == rt.Cosine.paper().rule
    ours.learn_task(X, Y, name="july")  # it was set before, and is set again
    assert rt.load(tmp_path)._learner() == rt.Cosine()


def test_a_learner_of_another_kind_is_refused(tmp_path):
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    model.learner = rt.PeftEnsemble()
    with pytest.raises(errors.InvalidValue, match="rule 'sums', as those of this model are; got 'ensemble'"):
        model.learn_task(X, Y, name="april")
    with pytest.raises(errors.InvalidValue, match="Start a new model"):
        rt.load(tmp_path, learner=rt.PeftEnsemble())
    assert [spend.task for spend in rt.load(tmp_path).statement().spends] == ["march"]


def test_path_and_labels_stay(tmp_path):
    model = classifier(tmp_path / "one").learn_task(X, Y, name="march")
    model.path = tmp_path / "two"
    with pytest.raises(errors.InvalidValue, match="Expected the path"):
        model.learn_task(X, Y, name="april")
    model.path, model.labels = tmp_path / "one", rt.PublicLabels(["a", "b", "c"])
    with pytest.raises(errors.InvalidValue, match="Expected the labels"):
        model.learn_task(X, Y, name="april")


def test_looking_makes_no_folder(tmp_path):
    model = rt.ContinualClassifier(labels=LABELS, path=tmp_path / "model")
    assert model.classes_.tolist() == ["a", "b"]
    assert model.releases == ()
    assert model.predict(np.eye(2, 8)).shape == (2,)
    assert not (tmp_path / "model").exists()


def test_settings_follow_the_learner(tmp_path):
    classifier(tmp_path).learn_task(X, Y, name="march")
    model = rt.load(tmp_path, learner=rt.Cosine.paper())
    model.learn_task(X, Y, name="april").learn_task(X, Y, name="may")
    assert rt.load(tmp_path)._learner() == rt.Cosine.paper()
    with LedgerFile.open(tmp_path) as ledger:
        assert [kind for _, kind, _ in ledger._entries].count("settings") == 1  # written when it changes


def test_an_unwritable_folder_prints_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.InvalidValue, match="Cannot make"):
        classifier(tmp_path / "file" / "model").learn_task(X, Y, name="march")


# --- the previous format


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
    assert model.spent() == pytest.approx(expected["spent"], rel=1e-9)
    refused_to_learn(old / name, "earlier version .* reticent upgrade")


@pytest.mark.parametrize("name", ["released", "public", "peft"])
def test_folders_of_format_3_are_upgraded(old, name):
    expected = EXPECTED[name]
    files = {file.name: file.read_bytes() for file in (old / name / "releases").iterdir()}
    upgrade(old / name)
    model = rt.load(old / name)
    assert model.predict(CENTRES).tolist() == expected["predictions"]
    assert model.spent() == pytest.approx(expected["spent"], rel=1e-9)
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
    refused_to_learn(folder, "earlier version .* reticent upgrade")
    upgrade(folder)
    rt.load(folder).learn_task(CENTRES, ["code 0", "code 1", "code 2"], name="may")
    assert rt.load(folder).releases[-1].task == "may"


def test_a_ledger_of_the_first_format_is_refused_beside_the_current_one(old):
    upgrade(old / "public")
    shutil.copy(FORMAT_3 / "public" / FILE_NAME, old / "public" / FILE_NAME)
    refused_to_learn(old / "public", "does not belong to its releases")


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


# --- copies


def test_saved_copies_belong_together(tmp_path):
    model = classifier(None).learn_task(X, Y, name="march")
    model.save(tmp_path / "copy")
    again = rt.load(tmp_path / "copy")
    again.learn_task(X, Y, name="april")
    again.save(tmp_path / "second")
    assert tasks_of(tmp_path / "second") == ["march", "april"]
    with pytest.raises(errors.InvalidValue, match="holds a model already"):
        model.save(tmp_path / "copy")
    assert os.listdir(tmp_path / "second") != []


def test_a_killed_copy_is_no_model(tmp_path, monkeypatch):
    """The ledger gets its name last: before that there is nothing to learn into."""
    model = classifier(None).learn_task(X, Y, name="march")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "list_releases", killed)
        with pytest.raises(KeyboardInterrupt):
            model.save(tmp_path / "copy")
    assert not list((tmp_path / "copy").glob(f"*{FILE_NAME}*"))
    with pytest.raises(errors.InvalidValue, match="No model at"):
        rt.load(tmp_path / "copy")
    model.save(tmp_path / "copy")
    assert tasks_of(tmp_path / "copy") == ["march"]
