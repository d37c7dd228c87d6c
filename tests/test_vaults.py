"""Models with memory: what a vault lets them do, and every vault that is refused, with nothing spent or lost."""

import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors, vaults
from reticent.gate import epochs, voiding
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.gate.remembered import FINE, Entry
from reticent.gate.seal import SEAL
from reticent.gate.vault import FILE_NAME, Vault
from reticent.memory import STOLEN
from reticent.numerics import files
from reticent.privacy import events
from reticent.released.release import Release
from tests.stored import BUDGET, LABELS, X, Y, tasks_of


@pytest.fixture
def place(tmp_path) -> Path:
    return Path(tmp_path)


def model_in(
    place: Path, *, labels: Any = LABELS, budget: rt.Budget = BUDGET, **settings: Any
) -> rt.ContinualClassifier:
    memory = rt.Memory(vault=place / "vault", **settings)
    return rt.ContinualClassifier(labels=labels, budget=budget, path=place / "model", memory=memory)


def learned(place: Path, *tasks: str, **settings: Any) -> rt.ContinualClassifier:
    model = model_in(place, **settings)
    for task in tasks:
        model.learn_task(X, Y, name=task)
    return model


def epoch_of(release: Release) -> events.Remembered:
    assert isinstance(release.event, events.Remembered)
    return release.event


def entries(vault: Path) -> tuple[Entry, ...]:
    with Vault.open(vault) as opened:
        return tuple(replace(e, vectors=e.vectors[np.arange(len(e.labels))]) for e in opened.entries())


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the locks, whose content says nothing."""
    return {
        str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file() and f.name != files.LOCK
    }


def refuses(place: Path, sentence: str, **settings: Any) -> bool:
    """Refuses to learn with this sentence; predicts; and neither model nor vault changes."""
    model = rt.load(place / "model", **settings)
    before = {folder: contents(place / folder) for folder in ("model", "vault") if (place / folder).exists()}
    with pytest.raises(errors.ReticentError, match=sentence) as refused:
        model.learn_task(X, Y, name="refused")
    assert "othing was spent" in str(refused.value)
    assert model.predict(np.eye(2, 8)).shape == (2,)
    return before == {folder: contents(place / folder) for folder in before}


# --- what it does


def test_memory_learns_loads_and_goes_on(place):
    learned(place, "march", "april")
    model = rt.load(place / "model")
    assert model.memory == rt.Memory(vault=place / "vault", horizon=120)
    model.learn_task(X, Y, name="may")
    assert tasks_of(place / "model") == ["march", "april", "may"]
    assert [release.parameters["place"].tolist() for release in model.releases] == [[1], [2], [3]]
    assert {release.event for release in model.releases} == {model.releases[0].event}  # one event for the epoch
    assert [entry.labels for entry in entries(place / "vault")] == [("a", "b")] * 3


def test_rows_are_sums_of_all_tasks_with_the_noise_of_their_keys(place):
    """What is published follows from the vault alone: C x and the noise of each task's key, for whoever has both."""
    from reticent.gate.noise import keys
    from reticent.privacy.correlation import Correlation

    model = learned(place, "march", "april", "may")
    kept, event = entries(place / "vault"), epoch_of(model.releases[0])
    for t, release in enumerate(model.releases, start=1):
        for row, label in enumerate(("a", "b")):
            key = keys.derived(kept[t - 1].key, 1, label, keys.SUMS)
            (noise,) = NoiseSource.from_os().rounded_gaussians([key], event.noise * FINE, 8)
            exact = sum(
                c * e.vectors[np.array([e.labels.index(label)])][0]
                for c, e in zip(Correlation(2, 120).row(t), kept[:t], strict=True)
            )
            assert release.parameters["sums"][row].tolist() == ((exact + noise) / FINE).astype(np.float32).tolist()


def test_labels_gather_evidence_over_tasks(place):
    """A label that no task alone would release becomes known, with its rows of all tasks before."""
    budget = rt.Budget(epsilon=8.0, delta=1e-5)
    model = model_in(place, labels=rt.ReleasedLabels(), budget=budget, horizon=12)
    each = 3  # a tenth of what one task needs
    while "rare" not in model.classes_ and len(model.releases) < 12:
        model.learn_task(np.eye(1, 8).repeat(each, axis=0), ["rare"] * each, name=f"month {len(model.releases)}")
    place_of_it = len(model.releases)
    assert 1 < place_of_it < 12
    found = model.releases[-1].parameters
    assert found["earlier_places"].tolist() == list(range(1, place_of_it))
    assert found["earlier_rows"].tolist() == [0] * (place_of_it - 1)
    assert found["earlier_sums"].shape == (place_of_it - 1, 8)
    assert rt.load(place / "model").classes_.tolist() == ["rare"]


def test_a_label_declared_public_while_pending_drops_what_it_had(place):
    model = model_in(place, labels=rt.ReleasedLabels())
    model.learn_task(X[:3], Y[:3], name="march")
    assert model.classes_.tolist() == []
    model.extend_labels(["a"])
    model.learn_task(X[:0], Y[:0], name="april")
    noise = epoch_of(model.releases[-1]).noise
    assert np.abs(model.releases[-1].parameters["sums"]).max() < 9 * noise
    assert model.classes_.tolist() == ["a"]


def test_tasks_of_an_epoch_have_centres_of_their_own(place):
    """Rows add up tasks that were seen from several centres; the estimator knows, and predictions are right."""
    labels = [f"label {i}" for i in range(10)]  # of fewer no centre is taken off
    model = model_in(place, labels=rt.PublicLabels(labels), budget=rt.Budget(epsilon=8.0, delta=1e-5))
    x, y = np.eye(10, 12).repeat(90, axis=0) + 0.5, np.repeat(labels, 90)
    for name in ("march", "april", "may"):
        model.learn_task(x, y, name=name)
    march, april, may = (release.parameters["centre"].astype(np.float64) for release in model.releases)
    assert not march.any()
    assert np.linalg.norm(april) > 0.3
    assert np.linalg.norm(april - may) < np.linalg.norm(april)
    assert (model.predict(x) == y).mean() > 0.9


def test_a_seeded_task_marks_the_epoch(place):
    """Its rows are published again with every task that follows."""
    model = model_in(place)
    model.noise = NoiseSource.seeded(1)
    model.learn_task(X, Y, name="march")
    model.noise = None
    model.learn_task(X, Y, name="april")
    assert [release.private for release in model.releases] == [False, False]


def test_private_accuracy_needs_no_vault(place):
    learned(place, "march", budget=rt.Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2))
    shutil.rmtree(place / "vault")
    with pytest.raises(errors.BudgetExceeded):  # and not for a vault
        rt.load(place / "model").private_score(X, Y, epsilon=0.9, name="test")


# --- crashes


@contextlib.contextmanager
def killed_at(monkeypatch, owner: Any, name: str) -> Iterator[None]:
    def killed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, killed)
        with pytest.raises(KeyboardInterrupt):
            yield


def test_what_was_committed_is_published_by_the_next_writer(place, monkeypatch):
    """Killed between the vault and the ledger: the very same bytes are published, and nothing is drawn again."""
    model = learned(place, "march")
    with killed_at(monkeypatch, Ledger, "publish"):
        model.learn_task(X, Y, name="april")
    with Vault.open(place / "vault") as vault:
        waiting = vault.waiting()
        assert waiting is not None
    assert tasks_of(place / "model") == ["march"]
    with pytest.raises(errors.BudgetExceeded, match="'april' is in the ledger already"):
        rt.load(place / "model").learn_task(X, Y, name="april")
    assert tasks_of(place / "model") == ["march", "april"]
    assert (place / "model" / "releases" / "0002.safetensors").read_bytes() == waiting.release
    rt.load(place / "model").learn_task(X, Y, name="may")
    assert [r.parameters["place"][0] for r in rt.load(place / "model").releases] == [1, 2, 3]


def test_labels_wait_for_what_was_committed(place, monkeypatch):
    """Rows of a release are rows of the labels that were known then: it is published before labels are added."""
    model = learned(place, "march")
    with killed_at(monkeypatch, Ledger, "publish"):
        model.learn_task(X, Y, name="april")
    rt.load(place / "model").extend_labels(["c"])
    assert tasks_of(place / "model") == ["march", "april", "public labels"]


def test_a_voided_place_is_burned(place, monkeypatch):
    """Row and column leave the matrix: the next task has its place, with a key of its own."""
    model, lost = learned(place, "march"), list[Entry]()

    def killed(self: Vault, entry: Entry, *_: object) -> None:
        lost.append(entry)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Vault, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            model.learn_task(X, Y, name="april")
    voiding.void(place / "model", lost[0].row, reason="killed")
    rt.load(place / "model").learn_task(X, Y, name="april")
    kept = entries(place / "vault")
    assert tasks_of(place / "model") == ["march", "april"]
    assert [release.parameters["place"][0] for release in rt.load(place / "model").releases] == [1, 2]
    assert lost[0].row not in [entry.row for entry in kept]
    assert lost[0].key not in [entry.key for entry in kept]


def test_a_spend_without_a_commit_takes_no_place(place, monkeypatch):
    model = learned(place, "march")
    with killed_at(monkeypatch, Vault, "commit"):
        model.learn_task(X, Y, name="april")
    rt.load(place / "model").learn_task(X, Y, name="may")
    assert [release.parameters["place"][0] for release in rt.load(place / "model").releases] == [1, 2]
    assert len(entries(place / "vault")) == 2


# --- vaults that are refused


def test_a_vault_restored_behind_the_ledger_is_refused(place):
    """The twin of a backup: sums of the same persons would be published again, with new noise."""
    learned(place, "march")
    backup = (place / "vault" / FILE_NAME).read_bytes()
    rt.load(place / "model").learn_task(X, Y, name="april")
    (place / "vault" / FILE_NAME).write_bytes(backup)  # into the same file
    assert refuses(place, "behind the ledger")
    assert refuses(place, "behind the ledger", vault=place / "vault")


def test_without_that_check_old_sums_are_published_twice(place, monkeypatch):
    """What the refusal prevents: two tasks in one place of the epoch, each with the sums of march and new noise."""
    learned(place, "march")
    backup = (place / "vault" / FILE_NAME).read_bytes()
    rt.load(place / "model").learn_task(X, Y, name="april")
    (place / "vault" / FILE_NAME).write_bytes(backup)
    monkeypatch.setattr(epochs, "_refuse_out_of_step", lambda *_: None)
    monkeypatch.setattr(epochs, "_refuse_copied", lambda *_, **__: None)  # the seal would tell, too
    model = rt.load(place / "model").learn_task(X, Y, name="may")
    assert [release.parameters["place"].tolist() for release in model.releases] == [[1], [2], [2]]


def test_a_vault_ahead_of_the_ledger_is_refused(place):
    """The model was restored, or a copy of it has learned with the vault."""
    learned(place, "march")
    shutil.copytree(place / "model", place / "before")
    rt.load(place / "model").learn_task(X, Y, name="april")
    shutil.rmtree(place / "model")
    os.rename(place / "before", place / "model")
    assert refuses(place, "knows a task that the ledger does not")


def test_a_copied_folder_leaves_the_vault_to_the_original(place):
    """Also where the user vouches for the vault; each goes on with a vault of its own."""
    learned(place, "march")
    shutil.copytree(place / "model", place / "other")
    for vault in (None, place / "vault"):
        with pytest.raises(errors.VaultError, match="of which this model is a copy"):
            rt.load(place / "other", vault=vault).learn_task(X, Y, name="april")
    vaults.rotate(place / "new", model=place / "other")
    rt.load(place / "other").learn_task(X, Y, name="april")
    rt.load(place / "model").learn_task(X, Y, name="may")
    assert tasks_of(place / "model") == ["march", "may"]


def april_in_a_copy(place: Path) -> None:
    """A model has learned march; a copy of it learns april with its vault while the original is away."""
    learned(place, "march")
    shutil.copytree(place / "model", place / "other")
    (place / "model").rename(place / "away")
    rt.load(place / "other").learn_task(X, Y, name="april")
    (place / "other").rename(place / "gone")
    (place / "away").rename(place / "model")


def test_two_models_that_share_a_vault_in_turn_are_told_apart(place):
    """The copy learns while the original is away; both have the row, and its hash tells them apart."""
    april_in_a_copy(place)
    with pytest.raises(errors.VaultError, match="knows a task that the ledger does not"):
        rt.load(place / "model").learn_task(X, Y, name="may")
    assert [spend.task for spend in rt.load(place / "model").statement().spends] == ["march"]


def test_copied_vaults_are_refused(place):
    """A copy in place of the file, until it gets another name and the user vouches for it there."""
    learned(place, "march")
    shutil.copytree(place / "vault", place / "copy")
    (place / "vault").rename(place / "original")
    (place / "copy").rename(place / "vault")
    assert refuses(place, "copied, restored or moved to another disk")
    assert refuses(place, "copied, restored or moved to another disk", vault=place / "vault")
    (place / "vault").rename(place / "moved")
    rt.load(place / "model", vault=place / "moved").learn_task(X, Y, name="april")
    rt.load(place / "model").learn_task(X, Y, name="may")


@pytest.mark.parametrize("way", ["anew", "in place", "in place, without the seal"])
def test_a_model_and_its_vault_restored_together_are_refused(place, way):
    """From one backup, in step with each other, also where the vault is named each time."""
    learned(place, "march")
    for folder in ("model", "vault"):
        shutil.copytree(place / folder, place / "backup" / folder)
    rt.load(place / "model").learn_task(X, Y, name="april")
    for folder in ("model", "vault"):
        if way == "anew":
            shutil.rmtree(place / folder)
            shutil.copytree(place / "backup" / folder, place / folder)
            continue
        for file in [file for file in (place / folder).rglob("*") if file.is_file()]:
            before = place / "backup" / file.relative_to(place)
            if not before.exists():
                file.unlink()
            elif way == "in place" or file.name != SEAL:
                with open(file, "r+b") as stream:  # it stays the same file
                    stream.truncate()
                    stream.write(before.read_bytes())
                shutil.copystat(before, file)
    assert tasks_of(place / "model") == ["march"]
    assert refuses(place, "copied, restored or moved to another disk")
    assert refuses(place, "copied, restored or moved to another disk", vault=place / "vault")


def test_copies_of_a_ledger_are_told_apart(place):
    """Both have spent on a task of the same name on the same day; the vault knows the one that it has kept."""
    april_in_a_copy(place)
    with Ledger.open(place / "model") as ledger:
        (march,) = ledger.account.spends.values()
        ledger.spend(march.event, task="april", private=True)
    assert refuses(place, "knows a task that the ledger does not")


def test_foreign_vaults_are_refused(place):
    learned(place, "march")
    (place / "other").mkdir()
    learned(place / "other", "march")
    assert refuses(place, "belongs to another model", vault=place / "other" / "vault")


def test_lost_and_moved_vaults(place):
    learned(place, "march")
    (place / "vault").rename(place / "elsewhere")
    assert refuses(place, "No vault at .*vault rotate")
    rt.load(place / "model", vault=place / "elsewhere").learn_task(X, Y, name="april")
    rt.load(place / "model").learn_task(X, Y, name="may")  # its new place is known
    assert tasks_of(place / "model") == ["march", "april", "may"]


def test_where_a_vault_is_tells_nothing_about_the_machine(place):
    """Beside the model its name is stored; elsewhere nothing is, and it is named again."""
    (place / "deep").mkdir()
    vault, model = place / "vault", place / "deep" / "model"
    memory = rt.Memory(vault=vault)
    rt.ContinualClassifier(labels=LABELS, budget=BUDGET, path=model, memory=memory).learn_task(X, Y, name="march")
    with pytest.raises(errors.VaultError, match="would tell about this machine"):
        rt.load(model).learn_task(X, Y, name="april")
    rt.load(model, vault=vault).learn_task(X, Y, name="april")
    for name, blob in contents(model).items():
        assert os.fsencode(place) not in blob, name
        assert os.fsencode(place.name) not in blob, name
    assert json.loads((model / "manifest.json").read_text())["memory"]["place"] is None


@pytest.mark.posix
def test_a_vault_that_others_may_read_is_refused(place):
    learned(place, "march")
    (place / "vault" / FILE_NAME).chmod(0o644)
    assert refuses(place, "used by others than its owner")


def test_a_half_written_vault_is_refused(place):
    learned(place, "march")
    file = place / "vault" / FILE_NAME
    file.write_bytes(file.read_bytes()[:6000])
    assert refuses(place, "not a whole vault")


def test_a_locked_vault_is_refused(place, monkeypatch):
    model = learned(place, "march")
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    with files.one_writer(place / "vault"), pytest.raises(errors.LedgerError, match="Another process is writing"):
        model.learn_task(X, Y, name="april")
    model.learn_task(X, Y, name="april")


@pytest.mark.posix
def test_two_processes_share_a_vault_in_turns(place):
    """Each opens model and vault anew: every task has a place of its own."""
    learned(place, "march")
    children = []
    for who in ("one", "two"):
        children.append(os.fork())
        if children[-1] == 0:
            status = 1
            with contextlib.suppress(Exception):
                for task in range(3):
                    rt.load(place / "model").learn_task(X, Y, name=f"{who} {task}")
                status = 0
            os._exit(status)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    releases = rt.load(place / "model").releases
    assert [release.parameters["place"].tolist() for release in releases] == [[n] for n in range(1, 8)]
    assert len({entry.key for entry in entries(place / "vault")}) == 7


def test_vaults_and_models_lie_apart(place):
    for vault, model in (("model/vault", "model"), ("vault", "vault/model"), ("same", "same")):
        memory = rt.Memory(vault=place / vault)
        with pytest.raises(errors.InvalidValue, match="outside of the model's folder"):
            _ = rt.ContinualClassifier(labels=LABELS, budget=BUDGET, path=place / model, memory=memory).directory
    assert os.listdir(place) == []
    learned(place, "march")
    for vault, sentence in (("model/deep/vault", "lies in the folder of a model"), ("vault", "holds a vault already")):
        memory = rt.Memory(vault=place / vault)
        with pytest.raises(errors.InvalidValue, match=sentence):
            _ = rt.ContinualClassifier(labels=LABELS, budget=BUDGET, path=place / "other", memory=memory).directory
    (place / "link").symlink_to(place / "model")
    with pytest.raises(errors.InvalidValue, match="outside of the model's folder"):
        rt.load(place / "model", vault=place / "link").learn_task(X, Y, name="april")


def test_a_model_that_is_there_is_loaded(place):
    learned(place, "march")
    with pytest.raises(errors.InvalidValue, match="holds a model already"):
        model_in(place).learn_task(X, Y, name="april")


@pytest.mark.posix
def test_a_model_behind_a_link_finds_its_vault(place):
    (place / "disk").mkdir()
    learned(place / "disk", "march")
    (place / "link").symlink_to(place / "disk" / "model")
    rt.load(place / "link").learn_task(X, Y, name="april")
    assert tasks_of(place / "disk" / "model") == ["march", "april"]


@pytest.mark.posix
def test_a_forked_child_leaves_the_vault_alone(place):
    model = learned(place, "march")
    with model.directory.writer() as gate:
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(errors.LedgerError):
                gate.spend(epoch_of(model.releases[0]), task="april")
                status = 2
            os._exit(0 if status == 1 else status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    model.learn_task(X, Y, name="april")
    assert len(entries(place / "vault")) == 2


def test_what_memory_is_not_made_for_is_refused_before_anything_is_made(place):
    memory = rt.Memory(vault=place / "vault")
    many = rt.PublicLabels([f"label {n}" for n in range(2_001)])
    n, m = replace(BUDGET, tasks_per_person=2), replace(BUDGET, examples_per_person=2)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("Expected a path with memory", {"path": None}),
        ("Cosine as it is set cannot", {"learner": rt.Cosine.paper()}),
        ("PeftEnsemble as it is set cannot", {"learner": rt.PeftEnsemble()}),
        ("at most 2,000 public labels", {"labels": many}),
        ("without a selection of its own", {"labels": rt.ReleasedLabels.paper()}),
        ("without a selection of its own", {"labels": rt.ReleasedLabels(remember=False)}),
        ("one task and one example per person", {"labels": rt.ReleasedLabels(), "budget": n}),
        ("one task and one example per person", {"labels": rt.ReleasedLabels(), "budget": m}),
        ("at most 4 tasks per person", {"budget": rt.Budget(epsilon=1.0, delta=1e-5, tasks_per_person=5)}),
        ("Expected memory=Memory", {"memory": "vault/"}),
    ]
    for sentence, settings in cases:
        wanted = {"labels": LABELS, "budget": BUDGET, "path": place / "model", "memory": memory, **settings}
        with pytest.raises(errors.InvalidValue, match=sentence):
            _ = rt.ContinualClassifier(**wanted).directory
    assert os.listdir(place) == []
    model = learned(place, "march")
    model.learner = rt.PeftEnsemble()
    with pytest.raises(errors.InvalidValue):
        model.learn_task(X, Y, name="april")
    model.learner, model.memory = None, None
    with pytest.raises(errors.InvalidValue, match="memory that the model was made with"):
        model.learn_task(X, Y, name="april")
    assert len(rt.load(place / "model").statement().spends) == 1
    rt.ContinualClassifier(labels=LABELS, budget=BUDGET, path=place / "plain").learn_task(X, Y)
    with pytest.raises(errors.InvalidValue, match="has no memory"):
        rt.load(place / "plain", vault=place / "vault")


def test_public_labels_are_not_extended_beyond_what_memory_can_publish(place):
    model = learned(place, "march")
    model.extend_labels([f"label {n}" for n in range(2_000)])
    with pytest.raises(errors.InvalidValue, match="at most 2,000 public labels"):
        model.learn_task(X, Y, name="april")
    assert len(model.statement().spends) == 1


def test_a_horizon_that_is_used_up_is_refused(place):
    learned(place, "march", "april", horizon=2)
    assert refuses(place, "has had its 2 tasks.*vault rotate")
    vaults.rotate(place / "vault")
    rt.load(place / "model").learn_task(X, Y, name="may")


# --- copies and epochs


def test_a_saved_copy_has_no_vault(place):
    """Two copies must not publish the same sums twice: the copy predicts, and learns in an epoch of its own."""
    model = learned(place, "march")
    model.save(place / "copy")
    assert not [name for name in contents(place / "copy") if "vault" in name]
    copy = rt.load(place / "copy")
    assert copy.predict(np.eye(2, 8)).tolist() == model.predict(np.eye(2, 8)).tolist()
    for settings in ({}, {"vault": place / "vault"}):
        with pytest.raises(errors.VaultError, match="saved copy, and a vault is never copied"):
            rt.load(place / "copy", **settings).learn_task(X, Y, name="april")
    with pytest.raises(errors.VaultError, match="memory of another model, or of another copy"):
        vaults.rotate(place / "vault", model=place / "copy")
    vaults.rotate(place / "own", model=place / "copy")
    rt.load(place / "copy").learn_task(X, Y, name="april")
    model.learn_task(X, Y, name="april")
    mine, theirs = entries(place / "vault"), entries(place / "own")
    assert [len(kept) for kept in (mine, theirs)] == [2, 1]  # nothing of march is published by the copy again
    assert rt.load(place / "copy").releases[-1].parameters["place"].tolist() == [1]


def test_rotation_begins_an_epoch_and_carries_nothing_over(place):
    model = learned(place, "march", "april")
    before = entries(place / "vault")
    epoch = vaults.rotate(place / "vault")
    assert (epoch.number, entries(place / "vault")) == (2, ())
    model.learn_task(X, Y, name="may")  # an open model notices
    assert model.releases[-1].parameters["place"].tolist() == [1]
    assert [epoch_of(release).epoch for release in model.releases] == [1, 1, 2]
    assert not {e.key for e in before} & {e.key for e in entries(place / "vault")}
    assert model.statement().epsilon <= 1.0
    assert len(rt.load(place / "model").releases) == 3


def test_rotation_publishes_what_was_committed(place, monkeypatch):
    model = learned(place, "march")
    with killed_at(monkeypatch, Ledger, "publish"):
        model.learn_task(X, Y, name="april")
    vaults.rotate(place / "vault")
    assert tasks_of(place / "model") == ["march", "april"]


def test_rotation_killed_in_between_is_refused_until_it_is_done_again(place, monkeypatch):
    model = learned(place, "march")
    with killed_at(monkeypatch, Vault, "create"):
        vaults.rotate(place / "vault")
    assert refuses(place, "earlier epoch of this one")
    assert vaults.rotate(place / "vault").number == 3
    model.learn_task(X, Y, name="april")
    assert sorted(name for name in os.listdir(place / "vault") if name != files.LOCK) == [SEAL, FILE_NAME]


@pytest.mark.parametrize("harm", ["lost", "behind", "half-written", "copied", "earlier"])
def test_rotation_helps_where_a_vault_is_refused(place, harm):
    learned(place, "march")
    file = place / "vault" / FILE_NAME
    old = file.read_bytes()
    rt.load(place / "model").learn_task(X, Y, name="april")
    if harm == "lost":
        shutil.rmtree(place / "vault")
    elif harm == "copied":
        shutil.copytree(place / "vault", place / "copy")
        shutil.rmtree(place / "vault")
        os.rename(place / "copy", place / "vault")
    elif harm == "earlier":  # of a version whose noise is another function of its keys
        with contextlib.closing(sqlite3.connect(file)) as db:
            db.execute("PRAGMA user_version = 2")
    else:
        file.write_bytes(old if harm == "behind" else old[:5000])
    with pytest.raises(errors.VaultError, match="reticent vault rotate"):
        rt.load(place / "model").learn_task(X, Y, name="may")
    assert len(rt.load(place / "model").statement().spends) == 2
    if harm in ("lost", "half-written", "earlier"):
        with pytest.raises(errors.InvalidValue, match="--model MODEL"):
            vaults.rotate(place / "vault")
    vaults.rotate(place / "vault", model=place / "model")
    rt.load(place / "model").learn_task(X, Y, name="may")
    assert [epoch_of(release).epoch for release in rt.load(place / "model").releases] == [1, 1, 2]


def test_vaults_of_others_are_not_replaced(place):
    learned(place, "march")
    (place / "other").mkdir()
    other = learned(place / "other", "march")
    with pytest.raises(errors.VaultError, match="memory of another model"):
        vaults.rotate(place / "vault", model=place / "other" / "model")
    other.learn_task(X, Y, name="april")
    (place / "strange").mkdir(mode=0o700)
    (place / "strange" / FILE_NAME).write_bytes(b"something")
    (place / "strange" / FILE_NAME).chmod(0o600)
    with pytest.raises(errors.VaultError, match="holds something else"):
        vaults.rotate(place / "strange", model=place / "other" / "model")
    plain = rt.ContinualClassifier(labels=LABELS, budget=BUDGET, path=place / "plain").learn_task(X, Y, name="march")
    with pytest.raises(errors.InvalidValue, match="has no memory"):
        vaults.rotate(place / "new", model=place / "plain")
    assert len(plain.releases) == 1


def test_a_view_of_a_vault_is_public(place):
    """It is the same whatever the examples were."""
    model = model_in(place, labels=rt.ReleasedLabels())
    model.learn_task(X, Y, name="march")
    seen = vaults.view(place / "vault").json()
    assert {**seen, "model": ""} == {
        "model": "",
        "epoch": 1,
        "a": "1/4",
        "horizon": 120,
        "tasks": 1,
        "in_step": True,
        "problem": None,
        "stolen": STOLEN,
    }
    (place / "empty").mkdir()
    model_in(place / "empty", labels=rt.ReleasedLabels()).learn_task(X[:0], Y[:0], name="march")
    assert {**vaults.view(place / "empty" / "vault").json(), "model": seen["model"]} == seen
    shutil.rmtree(place / "model")
    assert not vaults.view(place / "vault").in_step
