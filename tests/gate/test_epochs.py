"""Epochs by themselves, without a model: ledger and vault alone, every refusal, and what each leaves as it was."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent import Budget, Memory, PublicLabels, ReleasedLabels, errors
from reticent.gate import epochs
from reticent.gate.ledger import Ledger
from reticent.gate.remembered import Entry
from reticent.gate.seal import SEAL
from reticent.gate.vault import FILE_NAME, Vault
from reticent.memory import Epoch, remembered
from reticent.numerics import databases
from reticent.privacy import events
from reticent.released.ledger_file import LedgerFile
from reticent.released.settings import MEMORY

BUDGET = Budget(epsilon=1.0, delta=1e-5)
LABELS = PublicLabels(["a", "b"])
OTHERS = {"labels": "kept as they are"}  # settings that epochs do not touch


class Stream:
    """A ledger and a vault side by side, as a model has them."""

    def __init__(self, folder: Path, *, vault: str = "vault", horizon: int = 3) -> None:
        self.model, self.vault = folder / "model", folder / vault
        memory = Memory(vault=self.vault, horizon=horizon)
        self.epoch = epochs.first(memory, self.model, LABELS, BUDGET)
        with Ledger.create(self.model, BUDGET, settings={**OTHERS, MEMORY: self.epoch.to_json()}) as ledger:
            epochs.make_vault(self.vault, self.epoch, self.model, ledger.identity)

    @property
    def event(self) -> events.Remembered:
        return remembered(self.epoch, LABELS, BUDGET)

    def spend(self, task: str, *, private: bool = True, commit: bool = True, publish: bool = True) -> int:
        with Ledger.open(self.model) as ledger:
            row = ledger.spend(self.event, task=task, private=private)
            if commit:
                sums = np.ones((1, 2), np.int64)
                entry = Entry(row, bytes(32), ("a",), np.zeros(1, np.int64), sums, 2, (True,))
                with Vault.open(self.vault) as vault:
                    vault.commit(entry, ledger.head_at(row), [row], task.encode())
            if publish:
                ledger.publish(row)
        return row

    def open(self, given: Path | None = None, *, epoch: Epoch | None = None) -> epochs.Kept:
        with Ledger.open(self.model) as ledger, epochs.opened(epoch or self.epoch, self.model, ledger, given) as vault:
            return epochs.kept(vault, self.epoch, ledger)

    def refuses(self, sentence: str, given: Path | None = None) -> bool:
        """Refuses to open with this sentence, says how to begin anew, and changes nothing."""
        before = contents(self.vault), contents(self.model)
        with pytest.raises(errors.VaultError, match=sentence) as refusal:
            self.open(given)
        return "reticent vault rotate" in str(refusal.value) and before == (contents(self.vault), contents(self.model))

    def problem(self) -> str | None:
        with LedgerFile.open(self.model) as ledger:
            return epochs.problem_of(self.vault, self.model, ledger)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith((".lock", "-shm"))}


@pytest.fixture
def stream(tmp_path) -> Stream:
    return Stream(tmp_path)


# --- what is kept


def test_places_count_from_one_to_the_horizon(stream):
    empty = stream.open()
    assert (empty.place, empty.private, empty.entries) == (1, True, ())
    assert repr(empty) == f"Kept(epoch={stream.epoch!r}, <sensitive>)"
    for place in (1, 2, 3):
        kept = stream.open()
        assert kept.place == place
        kept.refuse_if_full()
        assert kept.pays_for(stream.event)
        assert stream.problem() is None
        stream.spend(f"task {place}")
    full = stream.open()
    assert not full.pays_for(stream.event)
    with pytest.raises(errors.VaultError, match="has had its 3 tasks"):
        full.refuse_if_full()
    assert "has had its 3 tasks" in (stream.problem() or "")


def test_an_epoch_pays_for_its_own_event_alone(stream):
    kept = epochs.Kept(stream.epoch, ())
    for other in (
        replace(stream.event, epoch=2),
        replace(stream.event, eighths=1),
        replace(stream.event, horizon=4),
        events.Gaussian(noise_multiplier=4.0),
    ):
        assert not kept.pays_for(other)
    assert kept.pays_for(replace(stream.event, noise_multiplier=9.0))  # the ledger compares it with the rows before


def test_one_seeded_task_is_enough(stream):
    stream.spend("march")
    assert stream.open().private
    stream.spend("april", private=False)
    assert not stream.open().private


# --- where it is


def test_a_vault_is_where_it_was_or_where_the_user_says(stream, tmp_path):
    assert epochs.where(stream.epoch, stream.model, None) == stream.vault
    assert epochs.where(stream.epoch, stream.model, tmp_path / "other") == tmp_path / "other"
    (tmp_path / "link").symlink_to(stream.vault)
    assert epochs.where(stream.epoch, stream.model, tmp_path / "link") == stream.vault
    for epoch, given, sentence in (
        (replace(stream.epoch, vault=None), None, "is a saved copy"),
        (replace(stream.epoch, vault=None), stream.vault, "is a saved copy"),
        (replace(stream.epoch, place=None), None, "would tell about this machine"),
    ):
        with pytest.raises(errors.VaultError, match=sentence):
            epochs.where(epoch, stream.model, given)
    assert epochs.where(replace(stream.epoch, place=None), stream.model, stream.vault) == stream.vault


def test_vaults_and_models_do_not_overlap(stream, tmp_path):
    for vault, model in (
        (stream.model, stream.model),
        (stream.model / "vault", stream.model),
        (tmp_path / "a", tmp_path / "a" / "model"),
    ):
        with pytest.raises(errors.InvalidValue, match="Expected a vault outside of the model's folder"):
            epochs.refuse_overlap(vault, model)
    with pytest.raises(errors.InvalidValue, match="lies in the folder of a model"):
        epochs.refuse_overlap(stream.model / "deep" / "vault", tmp_path / "other")
    epochs.refuse_overlap(tmp_path / "vault", tmp_path / "other")


def test_first_epochs_are_refused_before_anything_is_made(stream, tmp_path):
    memory = Memory(vault=tmp_path / "new")
    with pytest.raises(errors.InvalidValue, match="Expected a path with memory"):
        epochs.first(memory, None, LABELS, BUDGET)
    with pytest.raises(errors.InvalidValue, match="holds a model already"):
        epochs.first(memory, stream.model, LABELS, BUDGET)
    with pytest.raises(errors.InvalidValue, match="holds a vault already"):
        epochs.first(Memory(vault=stream.vault), tmp_path / "other", LABELS, BUDGET)
    with pytest.raises(errors.InvalidValue, match="outside of the model's folder"):
        epochs.first(Memory(vault=tmp_path / "other" / "vault"), tmp_path / "other", LABELS, BUDGET)
    several = replace(BUDGET, tasks_per_person=2)
    with pytest.raises(errors.InvalidValue, match="one task and one example per person"):
        epochs.first(memory, tmp_path / "other", ReleasedLabels(), several)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    if os.name == "posix":
        with pytest.raises(errors.VaultError, match="chmod 700"):
            epochs.first(Memory(vault=tmp_path / "open"), tmp_path / "other", LABELS, BUDGET)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "open", "vault"]
    (tmp_path / "open").chmod(0o700)
    first = epochs.first(Memory(vault=tmp_path / "open"), tmp_path / "other", LABELS, BUDGET)
    assert (first.number, first.place, len(bytes.fromhex(first.vault or ""))) == (1, "../open", 16)
    assert first.vault != epochs.first(Memory(vault=tmp_path / "open"), tmp_path / "other", LABELS, BUDGET).vault


def test_a_new_vault_says_whose_it_is(stream, tmp_path):
    with LedgerFile.open(stream.model) as ledger, Vault.open(stream.vault) as vault:
        about = vault.about
        assert about == replace(
            about,
            vault=stream.epoch.vault,
            ledger=str(ledger.identity),
            epoch=1,
            eighths=2,
            horizon=3,
            model=str(stream.model),
            home=str(stream.vault),
        )
    assert epochs.make_vault(tmp_path / "second", stream.epoch, stream.model, None) is None
    hidden = replace(stream.epoch, place=None, vault=None)
    assert epochs.make_vault(tmp_path / "second", hidden, stream.model, None) == tmp_path / "second"
    with Vault.open(tmp_path / "second") as vault:
        assert (vault.about.vault, vault.about.ledger) == ("", "")
    assert epochs.own_vault(tmp_path / "second") == tmp_path / "second"
    assert epochs.own_vault(tmp_path) is None


# --- whose it is


def lost(stream: Stream) -> None:
    shutil.rmtree(stream.vault)


def behind(stream: Stream) -> None:
    backup = (stream.vault / FILE_NAME).read_bytes()
    stream.spend("later")
    (stream.vault / FILE_NAME).write_bytes(backup)


def ahead(stream: Stream) -> None:
    shutil.copytree(stream.model, stream.model.with_name("before"))
    stream.spend("later")
    shutil.rmtree(stream.model)
    stream.model.with_name("before").rename(stream.model)


def forked(stream: Stream) -> None:
    shutil.copytree(stream.model, stream.model.with_name("before"))
    stream.spend("later")
    shutil.rmtree(stream.model)
    stream.model.with_name("before").rename(stream.model)
    stream.spend("later", commit=False, publish=False)


def forgot(stream: Stream) -> None:
    stream.spend("later", publish=False)
    with Vault.open(stream.vault) as vault, databases.transaction(vault._db):
        vault._db.execute("DELETE FROM waiting")


def two_open(stream: Stream) -> None:
    stream.spend("later", publish=False)
    stream.spend("last", publish=False)


def voided(stream: Stream) -> None:
    """As no version does any more."""
    row = stream.spend("later", publish=False)
    with Ledger.open(stream.model) as ledger:
        ledger.void(row, reason="killed")


def restored(stream: Stream) -> None:
    """The vault alone, into its own file; in step, since the model was, too."""
    vault, ledger = (stream.vault / FILE_NAME).read_bytes(), stream.model.with_name("before")
    shutil.copytree(stream.model, ledger)
    stream.spend("later")
    (stream.vault / FILE_NAME).write_bytes(vault)
    shutil.rmtree(stream.model)
    ledger.rename(stream.model)


def copied(stream: Stream) -> None:
    shutil.copytree(stream.vault, stream.vault.with_name("copy"))
    shutil.rmtree(stream.vault)
    stream.vault.with_name("copy").rename(stream.vault)


def unsealed(stream: Stream) -> None:
    (stream.vault / SEAL).unlink()


def of_another(stream: Stream) -> None:
    other = stream.model.parent / "elsewhere"
    other.mkdir()
    shutil.rmtree(stream.vault)
    Stream(other).vault.rename(stream.vault)


def in_use(stream: Stream) -> None:
    shutil.copytree(stream.model, stream.model.with_name("original"))
    with Vault.open(stream.vault) as vault:
        vault.settle(stream.model.with_name("original"))


REFUSED: dict[Callable[[Stream], None], str] = {
    lost: "No vault at .*do not restore an older one",
    behind: "is behind the ledger",
    ahead: "knows a task that the ledger does not",
    forked: "knows a task that the ledger does not",
    forgot: "has lost a release that was not published",
    two_open: "has lost a release that was not published",
    voided: "holds the release of a task that the ledger has voided",
    restored: "is not the file that was written last",
    copied: "is not the file that was written last",
    unsealed: "is not the file that was written last",
    of_another: "belongs to another model, or to an earlier epoch",
    in_use: "of which this model is a copy",
}


@pytest.mark.parametrize("harm", REFUSED, ids=lambda harm: harm.__name__)
def test_each_vault_that_is_not_in_step_is_refused(stream, harm):
    stream.spend("march")
    harm(stream)
    if harm is lost:
        with pytest.raises(errors.VaultError, match=REFUSED[harm]):
            stream.open()
        return
    assert stream.refuses(REFUSED[harm])
    assert REFUSED[harm] in (stream.problem() or "")
    assert stream.refuses(REFUSED[harm], stream.vault)  # naming it where it is vouches for nothing
    if harm is in_use:
        shutil.rmtree(stream.model.with_name("original"))
        assert stream.open().place == 2


@pytest.mark.parametrize("change", [{"number": 2}, {"vault": "0" * 32}, {"eighths": 1}, {"horizon": 12}])
def test_each_fact_of_an_epoch_tells_vaults_apart(stream, change):
    with pytest.raises(errors.VaultError, match="belongs to another model, or to an earlier epoch"):
        stream.open(epoch=replace(stream.epoch, **change))


def test_a_vault_of_another_ledger_is_refused(stream, tmp_path):
    with Ledger.create(tmp_path / "other", BUDGET, settings={MEMORY: stream.epoch.to_json()}):
        pass
    shutil.rmtree(stream.model)
    (tmp_path / "other").rename(stream.model)
    assert stream.refuses("belongs to another model")


def test_a_moved_copy_is_taken_where_the_user_vouches_for_it(stream, tmp_path):
    stream.spend("march")
    shutil.copytree(stream.vault, tmp_path / "copy")
    shutil.rmtree(stream.vault)
    with pytest.raises(errors.VaultError, match="No vault at"):
        stream.open()
    assert stream.open(tmp_path / "copy").place == 2
    with Ledger.open(stream.model) as ledger:
        assert ledger.settings == {**OTHERS, MEMORY: {**stream.epoch.to_json(), "place": "../copy"}}
    moved = replace(stream.epoch, place="../copy")
    rows = ledger.account.rows
    assert stream.open(epoch=moved).place == 2
    with Ledger.open(stream.model) as ledger:
        assert ledger.account.rows == rows  # nothing to note


def test_a_vault_follows_its_model(stream, tmp_path):
    stream.spend("march")
    stream.model = stream.model.rename(tmp_path / "renamed")
    assert stream.open().place == 2
    with Vault.open(stream.vault) as vault:
        assert vault.about.model == str(tmp_path / "renamed")


def test_a_vault_inside_of_the_model_is_not_opened(stream):
    inside = stream.vault.rename(stream.model / "vault")
    with pytest.raises(errors.InvalidValue, match="outside of the model's folder"):
        stream.open(inside)


def test_what_is_published_does_not_wait(stream):
    with Ledger.open(stream.model) as ledger, Vault.open(stream.vault) as vault:
        assert epochs.unpublished(vault, ledger) is None
    row = stream.spend("march", publish=False)
    assert stream.open().place == 2
    with Ledger.open(stream.model) as ledger, Vault.open(stream.vault) as vault:
        assert epochs.unpublished(vault, ledger) == (row, [row], b"march")
        ledger.publish(row)
        assert epochs.unpublished(vault, ledger) is None
    stream.spend("april", commit=False, publish=False)  # it never reached the vault, and is drawn anew
    assert stream.open().place == 2


def test_problems_of_models_without_memory(stream, tmp_path):
    choices: tuple[dict[str, Any] | None, ...] = (None, {})
    for settings in choices:
        folder = tmp_path / f"plain {settings}"
        Ledger.create(folder, BUDGET, settings=settings).close()
        with LedgerFile.open(folder) as ledger:
            assert epochs.problem_of(stream.vault, folder, ledger) == f"{folder} has no memory."
    stream.spend("march")
    behind(stream)
    begin = f"Begin a new epoch: reticent vault rotate {stream.vault} --model {stream.model}"
    assert (stream.problem() or "").endswith(begin)


# --- the next one


def test_the_next_epoch_is_recorded_before_its_vault_is_made(stream, tmp_path, monkeypatch):
    stream.spend("march")
    with Ledger.open(stream.model) as ledger:
        following = epochs.begin_next(stream.epoch, stream.vault, stream.model, ledger, opened=True)
        assert ledger.settings == {**OTHERS, MEMORY: following.to_json()}
    assert following == replace(stream.epoch, number=2, vault=following.vault)
    assert following.vault != stream.epoch.vault
    assert len(bytes.fromhex(following.vault or "")) == 16
    with Vault.open(stream.vault) as vault:
        assert (vault.about.epoch, vault.about.vault, vault.heads()) == (2, following.vault, {})
    with pytest.raises(errors.VaultError, match="belongs to another model, or to an earlier epoch"):
        stream.open()
    assert stream.open(epoch=following).place == 1

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with Ledger.open(stream.model) as ledger, monkeypatch.context() as patch:
        patch.setattr(epochs, "make_vault", killed)
        with pytest.raises(KeyboardInterrupt):
            epochs.begin_next(following, tmp_path / "third", stream.model, ledger, opened=True)
        assert ledger.settings is not None
        assert ledger.settings[MEMORY]["place"] == "../third"
        assert ledger.settings[MEMORY]["number"] == 3


def test_the_next_epoch_needs_a_model_with_memory_and_a_free_folder(stream, tmp_path):
    with Ledger.open(stream.model) as ledger:
        for epoch, model in ((None, stream.model), (stream.epoch, None), (None, None)):
            with pytest.raises(errors.InvalidValue, match="This model has no memory"):
                epochs.begin_next(epoch, stream.vault, model, ledger, opened=True)
        with pytest.raises(errors.InvalidValue, match="outside of the model's folder"):
            epochs.begin_next(stream.epoch, stream.model / "vault", stream.model, ledger, opened=True)
        assert not (stream.model / "vault").exists()
        other = tmp_path / "elsewhere"
        other.mkdir()
        theirs = Stream(other)
        with pytest.raises(errors.VaultError, match="the memory of another model"):
            epochs.begin_next(stream.epoch, theirs.vault, stream.model, ledger, opened=True)
        (tmp_path / "strange").mkdir(mode=0o700)
        (tmp_path / "strange" / FILE_NAME).write_bytes(b"something else")
        (tmp_path / "strange" / FILE_NAME).chmod(0o600)
        for epoch in (stream.epoch, replace(stream.epoch, vault=None), replace(stream.epoch, place=None)):
            with pytest.raises(errors.VaultError, match="holds something else"):
                epochs.begin_next(epoch, tmp_path / "strange", stream.model, ledger, opened=True)
        assert ledger.settings == {**OTHERS, MEMORY: stream.epoch.to_json()}
        (stream.vault / FILE_NAME).write_bytes(b"damaged")
        assert (
            epochs.begin_next(stream.epoch, stream.vault, stream.model, ledger, opened=True).number == 2
        )  # where ours is
    assert theirs.open().place == 1


def test_a_copy_does_not_replace_the_vault_of_its_original(stream, tmp_path):
    shutil.copytree(stream.model, tmp_path / "copy")
    with Ledger.open(tmp_path / "copy") as ledger:
        with pytest.raises(errors.VaultError, match="or of another copy"):
            epochs.begin_next(stream.epoch, stream.vault, tmp_path / "copy", ledger, opened=True)
        shutil.rmtree(stream.model)
        assert epochs.begin_next(stream.epoch, stream.vault, tmp_path / "copy", ledger, opened=True).number == 2


def test_a_copy_in_another_folder_has_a_problem(stream, tmp_path):
    """Nobody vouches for it here: only who learns with it can."""
    stream.spend("march")
    shutil.copytree(stream.vault, tmp_path / "copy")
    with LedgerFile.open(stream.model) as ledger:
        said = epochs.problem_of(tmp_path / "copy", stream.model, ledger)
    assert "is not the file that was written last" in (said or "")
