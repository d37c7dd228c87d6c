"""A model directory as an object: the loop, settings, and copies."""

import math
import os
import shutil
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import reticent as rt
from reticent import encoders, errors
from reticent.directory import Directory
from reticent.encoders.adapters import last_layer
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import GaussianSum
from reticent.privacy import events
from reticent.program import learn
from reticent.released.account import Account
from reticent.released.aggregate import median
from reticent.released.ledger_file import FILE_NAME, LedgerFile
from reticent.released.release import Release
from reticent.sensitive.task import Task
from tests.stored import BUDGET, LABELS, X, Y, classifier, tasks_of


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


def test_heads_keep_the_length_of_their_features(tmp_path):
    learner = rt.PeftEnsemble(adapter=last_layer, task_size=40, epochs=1, rate=0.5)
    model = classifier(tmp_path, learner=learner).learn_task(X, Y, name="march")
    model.learner = replace(learner, length=2.0)
    with pytest.raises(errors.InvalidValue, match="learner with the length that this model's releases have"):
        model.learn_task(X, Y, name="april")
    model.learner = replace(learner, aggregate=median, task_size=30)
    model.learn_task(X, Y, name="april")
    assert tasks_of(tmp_path) == ["march", "april"]


class Careless(rt.Cosine):
    """Releases what the rule of its parent cannot read."""

    def learn_task(self, task: Task, *rest: Any, **facts: Any) -> Release:
        event, gate = events.Gaussian(noise_multiplier=50.0), facts["gate"]
        permit = gate.spend(event, task=gate.admit(task).name)
        sums = permit.draw(GaussianSum(event), np.zeros(2, np.int64)).reshape(1, 2) + math.nan
        return cast(Release, permit.release(parameters={"rows": np.zeros(1, np.int32), "sums": sums, "noise": sums[0]}))


def test_a_release_that_cannot_be_read_back_is_not_published(tmp_path):
    model = classifier(tmp_path).learn_task(X, Y, name="march")
    model.learner = Careless()
    with pytest.raises(errors.InvalidValue, match=r"'april' does not fit .* It was not published: correct the learner"):
        model.learn_task(X, Y, name="april")
    assert tasks_of(tmp_path) == ["march"]
    assert [spend.published for spend in model.statement().spends] == [True, False]
    model.learner = rt.Cosine()
    model.learn_task(X, Y, name="may")
    assert tasks_of(tmp_path) == ["march", "may"]


class Stored(rt.Cosine):
    """Stored as something that is not read back."""

    written: Any = None

    def to_json(self) -> Any:
        return self.written


@pytest.mark.parametrize(
    "written", [{"mine": 1}, {"kind": "k" * 1_001}, {"kind": "mine", "x": math.nan}, {"kind": {1}}]
)
def test_settings_that_cannot_be_read_back_are_refused(tmp_path, monkeypatch, written):
    monkeypatch.setattr(Stored, "written", written)
    model = classifier(tmp_path / "model").learn_task(X, Y, name="march")
    model.learner = Stored()
    for attempt in (
        lambda: model.learn_task(X, Y, name="april"),
        lambda: model.save(tmp_path / "copy"),
        lambda: classifier(tmp_path / "new", learner=Stored()).learn_task(X, Y, name="march"),
        lambda: classifier(None, learner=Stored()).learn_task(X, Y, name="march"),
    ):
        with pytest.raises(errors.InvalidValue, match="Expected a rule and a learner whose to_json"):
            attempt()
    assert [spend.task for spend in rt.load(tmp_path / "model").statement().spends] == ["march"]
    assert not list(tmp_path.glob("*/ledger.sqlite"))[1:]


def test_an_encoder_whose_name_is_not_read_back_is_refused(tmp_path):
    encoder = encoders.wrap(lambda x: x, width=8, name="n" * 1_001)
    with pytest.raises(errors.InvalidValue, match="at most 1,000 characters"):
        classifier(tmp_path, encoder=encoder).learn_task(X, Y, name="march")
    assert not (tmp_path / FILE_NAME).exists()


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
    with pytest.raises(NotFittedError):
        model.predict(np.eye(2, 8))
    assert not (tmp_path / "model").exists()


def test_settings_follow_the_learner(tmp_path):
    classifier(tmp_path).learn_task(X, Y, name="march")
    model = rt.load(tmp_path, learner=rt.Cosine.paper())
    model.learn_task(X, Y, name="april").learn_task(X, Y, name="may")
    assert rt.load(tmp_path)._learner() == rt.Cosine.paper()
    with LedgerFile.open(tmp_path) as ledger:
        assert ledger.account.kinds["settings"] == 1  # written when it changes


def test_an_unwritable_folder_prints_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.InvalidValue, match="Cannot make"):
        classifier(tmp_path / "file" / "model").learn_task(X, Y, name="march")


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


def test_a_task_costs_the_same_after_many_tasks(tmp_path, monkeypatch):
    """Rows that were verified once are not read again by the same process."""
    read = []
    add = Account.add

    def counted(account: Account, kind: str, text: str) -> int:
        read.append(kind)
        return add(account, kind, text)

    monkeypatch.setattr(Account, "add", counted)
    model, costs = classifier(tmp_path), []
    for task in range(12):
        read.clear()
        model.learn_task(X, Y, name=f"task {task}")
        costs.append(len(read))
    assert costs[2:] == costs[2:3] * 10
    read.clear()
    rt.load(tmp_path).learn_task(X, Y, name="another process")
    assert read[:-2] == ["open", *["spend", "publish"] * 12]  # each row once


def test_a_folder_that_went_back_is_noticed_by_a_live_process(tmp_path):
    folder, backup = tmp_path / "model", tmp_path / "backup"
    model = classifier(folder).learn_task(X, Y, name="march")
    shutil.copytree(folder, backup)
    model.learn_task(X, Y, name="april")
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    with pytest.raises(errors.LedgerError, match="older copy"):
        model.learn_task(X, Y, name="april")
    with pytest.raises(errors.LedgerError, match="older copy"):
        model.privacy_statement()


def test_a_ledger_that_went_back_is_noticed_by_an_idle_process(tmp_path):
    """It learned on, without the rows that it had not read, and removed the release that they had paid for."""
    folder, backup = tmp_path / "model", tmp_path / "backup"
    model = classifier(folder).learn_task(X, Y, name="march")
    idle = rt.load(folder)
    shutil.copytree(folder, backup)
    model.learn_task(X, Y, name="april")
    for file in folder.glob("ledger.sqlite*"):
        file.unlink()
    for file in backup.glob("ledger.sqlite*"):
        shutil.copy(file, folder)
    with pytest.raises(errors.LedgerError, match="older copy"):
        idle.learn_task(X, Y, name="may")
    with pytest.raises(errors.LedgerError, match="older copy"):
        idle.privacy_statement()
    assert len(list(folder.glob("releases/*.safetensors"))) == 2
