"""Writers of a model directory: several at once, killed at any moment, on a full disk."""

import contextlib
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.directory import Directory
from reticent.gate import voiding
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import GaussianSum
from reticent.numerics import files
from reticent.privacy import events
from reticent.released import store
from reticent.released.card import CARD
from reticent.released.contents import read_contents
from reticent.released.ledger_file import FILE_NAME, LedgerFile
from reticent.released.release import Release
from reticent.sensitive.task import Task
from tests.cli.command import refused, reticent
from tests.stored import BUDGET, LABELS, X, Y, classifier, tasks_of


def _learn_many(path: Path, worker: int, tasks: int) -> None:
    model = rt.load(path)
    for task in range(tasks):
        model.learn_task(X, Y, name=f"{worker}.{task}")


def lost_by(path: Path, workers: int, tasks: int) -> list[str]:
    """Returns what is missing, or too much, after several processes have learned into a new folder at once."""
    assert len(classifier(path).directory.model.labels) == 2  # made here
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=_learn_many, args=(path, worker, tasks)) for worker in range(workers)]
    for worker in started:
        worker.start()
    for worker in started:
        worker.join()
        assert worker.exitcode == 0
    model = rt.load(path)
    with LedgerFile.open(path) as ledger:
        assert json.loads((path / "manifest.json").read_text())["releases"] == ledger.releases
    assert len(list((path / "releases").iterdir())) == len(model.releases)
    assert not [file for file in path.rglob(".*") if file.is_file()]  # no draft stays
    expected = Counter(f"{worker}.{task}" for worker in range(workers) for task in range(tasks))
    learned = Counter(release.task for release in model.releases)
    paid = Counter(spend.task for spend in model.statement().spends if spend.published)
    return sorted((expected - learned) + (learned - expected) + (expected - paid) + (paid - expected))


def test_two_processes_lose_nothing(tmp_path):
    assert lost_by(tmp_path / "model", 2, 5) == []


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "tasks"), [(2, 50), (8, 15)])
def test_many_writers_lose_nothing(tmp_path, workers, tasks):
    assert lost_by(tmp_path / "model", workers, tasks) == []


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


def drawn(directory: Directory, gate: Gate) -> Release:
    """Learns a task up to its release, which is drawn and not yet published."""
    task, model = gate.admit(Task(X, Y, name="march")), directory.model
    return rt.Cosine().learn_task(task, LABELS, known=model.labels, encoder=None, gate=gate, past=model.releases)


def test_no_row_is_voided_while_its_release_is_made(tmp_path, monkeypatch):
    """The attack in order: A runs, its row is voided, B learns the task, A finishes. One spend, two releases."""
    directory, other = classifier(tmp_path).directory, rt.load(tmp_path)
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    with directory.writer() as gate:
        release = drawn(directory, gate)
        voided = reticent("ledger", tmp_path, "--void", 2, "--reason", "never published")
        assert "Another process is writing" in refused(voided)
        with pytest.raises(errors.LedgerError, match="Another process is writing"):
            other.learn_task(X, Y, name="march")
        directory.publish(release)
    with pytest.raises(errors.BudgetExceeded, match="in the ledger already"):
        other.learn_task(X, Y, name="march")
    assert "its release was published" in refused(reticent("ledger", tmp_path, "--void", 2, "--reason", "none"))
    assert tasks_of(tmp_path) == ["march"]
    assert [(s.published, s.voided) for s in rt.load(tmp_path).statement().spends] == [(True, None)]


def test_the_release_of_a_voided_row_never_reaches_the_folder(tmp_path):
    """The same attack by somebody who voids without waiting for the writer, and breaks its lock: B alone counts."""
    directory = classifier(tmp_path).directory
    with directory.writer() as gate:
        release = drawn(directory, gate)
        with Ledger.open(tmp_path) as ledger:
            ledger.void(2, reason="never published")
        with pytest.raises(errors.LedgerError, match="Row 2 is voided: its release must not be published"):
            directory.publish(release)
    assert not (tmp_path / "releases").exists()
    with directory.writer() as gate:
        release = drawn(directory, gate)
        with Ledger.open(tmp_path) as ledger:
            ledger.void(4, reason="never published")
        (tmp_path / files.LOCK).unlink()
        rt.load(tmp_path).learn_task(X, Y, name="march")
        kept = (tmp_path / "releases" / "0001.safetensors").read_bytes()
        with pytest.raises(errors.LedgerError, match="Row 4 is voided"):
            directory.publish(release)
    assert [file.read_bytes() for file in (tmp_path / "releases").iterdir()] == [kept]
    assert tasks_of(tmp_path) == ["march"]
    assert [spend.published for spend in rt.load(tmp_path).statement().spends] == [False, False, True]


def _publish_late(path: Path, pipe: Any) -> None:
    directory = rt.load(path).directory
    with directory.writer() as gate:
        release = drawn(directory, gate)
        pipe.send("drawn")
        pipe.recv()
        try:
            directory.publish(release)
        except errors.LedgerError as error:
            pipe.send(str(error))


@pytest.mark.posix
def test_a_writer_that_hangs_cannot_publish_a_voided_row(tmp_path, monkeypatch):
    """Two processes: A hangs after its draw; its row is voided, its lock broken, B learns the task; A goes on."""
    classifier(tmp_path).learn_task(X, Y, name="february")
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_publish_late, args=(tmp_path, theirs))
    process.start()
    assert ours.recv() == "drawn"
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    void = ["ledger", tmp_path, "--void", 4, "--reason", "it hangs"]
    assert "Another process is writing" in refused(reticent(*void))
    (tmp_path / files.LOCK).unlink()
    assert reticent(*void).returncode == 0
    rt.load(tmp_path).learn_task(X, Y, name="march")
    ours.send("go on")
    assert "Row 4 is voided: its release must not be published" in ours.recv()
    process.join()
    assert len(list((tmp_path / "releases").iterdir())) == 2
    assert tasks_of(tmp_path) == ["february", "march"]


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
        [FILE_NAME, files.LOCK, store.LABELS, store.MANIFEST, store.RELEASES, CARD]
    )


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
    written = (method, before) == ("write_release", "")  # and may have been read: the next writer publishes it
    for spend in [] if written else lost:
        voiding.void(tmp_path, spend.row, reason="killed before its release")
    name = "may" if published or written else "april"
    model.learn_task(X, Y, name=name)
    assert tasks_of(tmp_path) == ["march", "april", "may"][: 2 + (name == "may")]
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
        ledger.publish([], write=lambda number: ledger.releases[0])


def _learn_and_tell(path: Path, worker: int, told: Path) -> None:
    model = rt.load(path)
    with open(told, "a", encoding="utf-8", buffering=1) as file:
        for task in range(1_000):
            model.learn_task(X, Y, name=f"{worker}.{task}")
            file.write(f"{worker}.{task}\n")  # from here on it must be there
            if task % 4 == 0:
                model.extend_labels([f"{worker}.{task}"])


def killed_at_random(folder: Path, *, seconds: float) -> tuple[int, int, list[str]]:
    """Two writers are killed at random moments, and a reader looks on; returns kills, tasks told, and what is wrong."""
    path, told = folder / "model", folder / "told"
    classifier(path).learn_task(X, Y, name="first")
    context, chance = multiprocessing.get_context("fork"), random.Random(0)
    running: list[tuple[Any, float]] = []
    kills, end = 0, time.monotonic() + seconds
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
    learned = Counter(release.task for release in model.releases if release.parameters)
    counts = re.findall(r"read: row ([0-9]+) counts", " ".join(act.text for act in model.statement().acts))
    paid = {spend.task for spend in model.statement().spends if spend.published and str(spend.row) not in counts}
    known = set(told.read_text().split())
    model.learn_task(X, Y, name="last")
    wrong = [task for task, times in learned.items() if times > 1]
    return kills, len(known), wrong + sorted(known - set(learned)) + sorted(paid ^ set(learned))


@pytest.mark.posix
@pytest.mark.slow
def test_random_kills_lose_nothing(tmp_path):
    kills, told, wrong = killed_at_random(tmp_path, seconds=20)
    assert kills > 10
    assert told
    assert wrong == []
    assert tasks_of(tmp_path / "model")[-1] == "last"


def test_a_failed_write_changes_nothing(tmp_path, monkeypatch):
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    write = files.write_whole

    def full(file, content, **_):
        raise errors.StorageError(f"Cannot write {file}: No space left on device.")

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
        raise errors.StorageError("Cannot write: No space left on device.")

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
        with pytest.raises(errors.LearningFailed):
            model.learn_task(X, Y, name="april")
    with pytest.raises(errors.BudgetExceeded, match="--void 4 --reason"):
        model.learn_task(X, Y, name="april")


@pytest.mark.posix
@pytest.mark.parametrize("path", ["model", None])
def test_a_forked_child_loses_and_doubles_nothing(tmp_path, monkeypatch, path):
    """Forked while a writer is open: the child draws, spends and publishes nothing, and frees no lock."""
    directory = classifier(None if path is None else tmp_path / path).directory
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    event, told = events.Gaussian(noise_multiplier=8.0), tmp_path / "told"
    with contextlib.ExitStack() as stack:
        gate = stack.enter_context(directory.writer())
        permit = gate.spend(event, task="march")
        if (child := _forked()) == 0:
            acts = (
                lambda: permit.draw(GaussianSum(event), np.zeros(2, np.int64)),
                lambda: gate.spend(event, task="march"),
                lambda: gate._ledger.spend(event, task="march", private=True),
                lambda: directory.publish(None),  # type: ignore[arg-type]
                lambda: directory.record("an act"),
            )
            try:
                told.write_text(json.dumps([_refusal(act) for act in acts]))
                stack.close()  # leaves the writer, as an exception would
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        if path is not None:
            with pytest.raises(errors.LedgerError, match="Another process is writing"):
                stack.enter_context(files.one_writer(tmp_path / path))
        noisy = permit.draw(GaussianSum(event), np.zeros(2, np.int64))
        sums = noisy.astype(np.float32)[:, None]
        arrays: dict[str, np.ndarray] = {"rows": np.arange(2), "sums": sums, "noise": np.ones(2, np.float32)}
        directory.publish(permit.release(parameters=arrays))
    refusals = json.loads(told.read_text())
    assert [bool(re.search(r"nother (process|writer|thread)|open in this thread", said)) for said in refusals] == [
        True
    ] * 5, refusals
    assert [spend.published for spend in directory.statement().spends] == [True]
    assert directory.statement().acts == ()


def _forked() -> int:
    with warnings.catch_warnings():  # newer Pythons warn of forks beside threads
        warnings.simplefilter("ignore")
        return os.fork()


def _refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except errors.LedgerError as error:
        return str(error)
    return ""


@pytest.mark.posix
def test_a_forked_child_learns_into_the_folder_of_its_parent(tmp_path):
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    child = _forked()
    if child == 0:
        try:
            model.learn_task(X, Y, name="april")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    model.learn_task(X, Y, name="may")
    assert tasks_of(tmp_path) == ["march", "april", "may"]


# --- what a failure says and leaves


def _no_room(*_: object, **__: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def test_failures_say_what_was_spent(tmp_path, monkeypatch):
    """The advice works: the row that is named can be voided, and the task is learned."""
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_append", _no_room)
        with pytest.raises(errors.StorageError, match=r"disk is full\..* Nothing was spent\.$"):
            model.learn_task(X, Y, name="april")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(errors.StorageError, match=r"No space left on device\. Row 4 is spent .* --void 4 --reason"):
            model.learn_task(X, Y, name="april")
    voiding.void(tmp_path, 4, reason="the disk was full")
    model.learn_task(X, Y, name="april")
    assert tasks_of(tmp_path) == ["march", "april"]


def test_a_publication_that_only_seemed_to_fail_is_told(tmp_path, monkeypatch):
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    publish = Ledger.publish

    def written(self: Ledger, *given: Any, **others: Any) -> None:
        publish(self, *given, **others)
        raise errors.StorageError("The disk failed.")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "publish", written)
        with pytest.raises(errors.StorageError, match=r"failed\. It is published all the same"):
            model.learn_task(X, Y, name="april")
    assert tasks_of(tmp_path) == ["march", "april"]
    assert model.learn_task(X, Y, name="may").releases[1].task == "april"


def test_a_disk_that_fails_for_a_moment_is_no_other_ledger(tmp_path, monkeypatch):
    """It was said that the ledger is another model's, and must be restored."""
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    opened = LedgerFile._verify

    def once(self: LedgerFile) -> None:
        monkeypatch.setattr(LedgerFile, "_verify", opened)
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(LedgerFile, "_verify", once)
    with pytest.raises(errors.StorageError, match=r"disk I/O error\. Check the disk .* Nothing was spent\.$"):
        model.learn_task(X, Y, name="april")
    model.learn_task(X, Y, name="april")
    assert tasks_of(tmp_path) == ["march", "april"]


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    left = [tmp_path / f".manifest.json.{'0' * 16}", tmp_path / f".{FILE_NAME}.{'1' * 16}-journal"]
    left += [tmp_path / "releases" / f".0002.safetensors.{'2' * 16}", tmp_path / "releases" / "0007.safetensors"]
    for file in left:
        shutil.copy(tmp_path / "releases" / "0001.safetensors", file)
    (tmp_path / ".notes").write_text("of the user")
    model.learn_task(X, Y, name="april")
    assert not [file for file in left if file.exists()]
    assert (tmp_path / ".notes").exists()
    assert tasks_of(tmp_path) == ["march", "april"]


def _killed_before_publishing(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    model = classifier(path).learn_task(X, Y, name="march")
    with monkeypatch.context() as patch:
        append = Ledger._append
        patch.setattr(Ledger, "_append", lambda self, kind, body: 1 / (kind != "publish") and append(self, kind, body))
        with pytest.raises(ZeroDivisionError):
            model.learn_task(X, Y, name="april")
    assert (path / "releases" / "0002.safetensors").exists()
    return path / "releases" / "0002.safetensors"


def test_where_releases_cannot_be_looked_for_nothing_is_voided(tmp_path, monkeypatch):
    lost = _killed_before_publishing(tmp_path, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", lambda _: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
        with pytest.raises(errors.StorageError, match=r"Permission denied.* Row 4 was not voided"):
            voiding.void(tmp_path, 4, reason="killed")
    assert lost.exists()


def test_a_failed_write_of_settings_changes_nothing(tmp_path, monkeypatch):
    model, learner = classifier(tmp_path).learn_task(X, Y, name="march"), rt.Cosine.paper()
    before = model.directory.model.rule
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_append", _no_room)
        with pytest.raises(errors.StorageError, match="Nothing was spent"):
            model.directory.set({"learner": learner.to_json()}, rule=learner.rule)
    assert before == model.directory.model.rule != learner.rule


def test_a_saved_ledger_is_one_file(tmp_path):
    """Rows beside it, in a file that is not linked, were lost where the disk failed while it was closed."""
    classifier(tmp_path / "model").learn_task(X, Y, name="march").save(tmp_path / "copy")
    kept_in_one_file = b"\x01\x01"
    assert (tmp_path / "copy" / FILE_NAME).read_bytes()[18:20] == kept_in_one_file


def test_a_model_that_could_not_be_made_says_whether_it_is_there(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(errors.StorageError, match=r"No space left on device\. No model was made\. Try again\."):
            classifier(tmp_path).learn_task(X, Y, name="march")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "open", lambda *_: (_ for _ in ()).throw(errors.StorageError("The disk failed.")))
        with pytest.raises(errors.StorageError, match=r"The model is there all the same: load\(path\)\."):
            classifier(tmp_path).learn_task(X, Y, name="march")
    rt.load(tmp_path).learn_task(X, Y, name="march")
    assert tasks_of(tmp_path) == ["march"]


def test_a_ledger_that_cannot_be_read_is_told_by_the_writer(tmp_path, monkeypatch):
    """A look for names that are nearly equal comes before the writer, and did not say that nothing was spent."""
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    monkeypatch.setattr(LedgerFile, "_verify", _no_room)
    with pytest.raises(errors.StorageError, match=r"Nothing was spent\.$"):
        model.learn_task(X, Y, name="april")
    monkeypatch.undo()
    monkeypatch.setattr(Directory, "statement", lambda self: (_ for _ in ()).throw(errors.StorageError("Unreadable.")))
    monkeypatch.setattr(Directory, "refuse_second_time", lambda self, name: None)
    assert model.learn_task(X, Y, name="april").releases[-1].task == "april"
