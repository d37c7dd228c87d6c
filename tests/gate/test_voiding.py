"""Voiding a row of a folder's ledger: what may have been read never is, and what a failed write leaves."""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import reticent as rt
from reticent import errors, vaults
from reticent.gate import voiding
from reticent.gate.ledger import Ledger
from reticent.gate.vault import Vault
from reticent.numerics import files
from reticent.privacy import events
from reticent.released import store
from tests.assurance import crash
from tests.stored import BUDGET, LABELS, X, Y, tasks_of

GAUSSIAN = events.Gaussian(noise_multiplier=4.0)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory, where there is such a disk: each test syncs files a hundred times."""
    with tempfile.TemporaryDirectory(dir=crash.place()) as name:
        yield Path(name)


def spent(folder, settings=None) -> int:
    with Ledger.create(folder, BUDGET, settings=settings) as ledger:
        return ledger.spend(GAUSSIAN, task="march", private=True)


def reason(folder) -> str | None:
    with Ledger.open(folder) as ledger:
        return ledger.statement().spends[0].voided


@pytest.mark.parametrize("settings", [None, {}])
def test_rows_of_a_folder_are_voided_with_their_reason(tmp_path, settings):
    row = spent(tmp_path, settings)
    voiding.void(tmp_path, row, reason="a slip")
    assert reason(tmp_path) == "a slip"
    with pytest.raises(errors.LedgerError, match="Row 9 is not a spend of this ledger"):
        voiding.void(tmp_path, 9, reason="a slip")


def test_a_failed_write_is_looked_at_again(tmp_path, monkeypatch):
    row = spent(tmp_path)
    void = Ledger.void

    def before(self, row, *, reason):
        raise errors.StorageError("disk full.")

    def after(self, row, *, reason):
        void(self, row, reason=reason)
        raise errors.StorageError("disk full.")

    monkeypatch.setattr(Ledger, "void", before)
    with pytest.raises(errors.StorageError, match=f"Row {row} was not voided"):
        voiding.void(tmp_path, row, reason="a slip")
    assert reason(tmp_path) is None
    with pytest.raises(errors.StorageError, match="Row 99 was not voided"):
        voiding.void(tmp_path, 99, reason="a slip")
    monkeypatch.setattr(Ledger, "void", after)
    voiding.void(tmp_path, row, reason="a slip")  # it was written after all
    assert reason(tmp_path) == "a slip"


# --- what may have been read


def learned(place: Path, *, memory: bool) -> rt.ContinualClassifier:
    kept = rt.Memory(vault=place / "vault") if memory else None
    model = rt.ContinualClassifier(labels=LABELS, budget=BUDGET, path=place / "model", memory=kept)
    return model.learn_task(X, Y, name="march")


def dies(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def row_of(place: Path, task: str) -> int:
    return next(spend.row for spend in rt.load(place / "model").statement().spends if spend.task == task)


def killed(model: rt.ContinualClassifier, monkeypatch: pytest.MonkeyPatch, at: str) -> dict[str, bytes]:
    """Learns april until it is killed there; returns what lies among the releases and is not listed."""
    owner, name = {"vault": (Vault, "commit"), "ledger": (Ledger, "_append")}.get(at, (os, "replace"))
    original = getattr(owner, name)

    def dies_there(*arguments, **named):
        file = str(arguments[-1])
        if at == "vault" or arguments[1] == "publish" or (owner is os and "0002" in file):
            if at == "half of a draft":
                os.truncate(arguments[0], os.path.getsize(arguments[0]) // 2)
            raise KeyboardInterrupt
        return original(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dies_there)
        with pytest.raises(KeyboardInterrupt):
            model.learn_task(X, Y, name="april")
    left = [file for file in (Path(model.path or "") / "releases").iterdir() if file.name != "0001.safetensors"]
    return {file.name: file.read_bytes() for file in left}


SECOND: dict[str, Callable[[Path], object]] = {
    "nothing": lambda place: None,
    "an act": lambda place: rt.load(place / "model").directory.record("looked at"),
    "settings": lambda place: rt.load(place / "model").directory.set({"learner": rt.Cosine().to_json()}),
    "evaluate": lambda place: rt.load(place / "model").private_score(X, Y, epsilon=0.1, name="test"),
    "labels": lambda place: rt.load(place / "model").extend_labels(["c"]),
    "save": lambda place: rt.load(place / "model").save(place / "copy"),
    "rotate": lambda place: vaults.rotate(place / "vault", model=place / "model"),
    "learn": lambda place: rt.load(place / "model").learn_task(X, Y, name="may"),
}


@pytest.mark.parametrize(
    ("memory", "at"), [(True, "ledger"), (True, "draft"), (False, "ledger"), (False, "half of a draft")]
)
@pytest.mark.parametrize("second", SECOND)
def test_what_may_have_been_read_is_never_voided(tmp_path, monkeypatch, memory, at, second):
    """Killed between the release's file, or its draft, and the ledger's commit; then something else, then voided.

    The release is published byte for byte, or its spend counts for good: the task is never learned with other noise.
    """
    left = killed(learned(tmp_path, memory=memory), monkeypatch, at)
    assert len(left) == 1
    with contextlib.suppress(errors.InvalidValue):  # of a model without memory, which has no vault to rotate
        SECOND[second](tmp_path)
    row = row_of(tmp_path, "april")
    with pytest.raises(errors.LedgerError, match=r"Nothing was voided|was published"):
        voiding.void(tmp_path / "model", row, reason="killed")
    with pytest.raises(errors.BudgetExceeded, match=r"is in the ledger already.*give them another name\.$"):
        rt.load(tmp_path / "model").learn_task(X, Y, name="april")
    with pytest.raises(errors.LedgerError, match="was published"):
        voiding.void(tmp_path / "model", row, reason="killed")
    whole, found = memory or at == "ledger", tasks_of(tmp_path / "model")
    assert found[:2] == ["march", "april"] if whole else "april" not in found
    if whole:
        assert [(tmp_path / "model" / "releases" / "0002.safetensors").read_bytes()] == [*left.values()]
    statement = rt.load(tmp_path / "model").statement()
    assert next(spend for spend in statement.spends if spend.row == row).published
    assert [f"row {row} counts as published" in act.text for act in statement.acts].count(True) == (not whole)
    assert len(os.listdir(tmp_path / "model" / "releases")) == len(found)
    rt.load(tmp_path / "model").learn_task(X, Y, name="june")


@pytest.mark.parametrize("memory", [True, False])
def test_a_failure_after_a_release_was_published_that_was_left_is_told_by_itself(tmp_path, monkeypatch, memory):
    """It was said of the task that failed that it was published."""
    killed(learned(tmp_path, memory=memory), monkeypatch, "ledger")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "spend", lambda *_, **__: (_ for _ in ()).throw(errors.StorageError("The disk failed.")))
        with pytest.raises(errors.StorageError, match=r"The disk failed\. Nothing was spent\.$"):
            rt.load(tmp_path / "model").learn_task(X, Y, name="may")
    assert tasks_of(tmp_path / "model") == ["march", "april"]


def test_what_a_vault_holds_is_never_voided(tmp_path, monkeypatch):
    """Killed before the first byte of its file: nobody else can have it, and it is published all the same."""
    model = learned(tmp_path, memory=True)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "publish", dies)
        with pytest.raises(KeyboardInterrupt):
            model.learn_task(X, Y, name="april")
    row = row_of(tmp_path, "april")
    with pytest.raises(errors.LedgerError, match="holds a release that waits to be published"):
        voiding.void(tmp_path / "model", row, reason="killed")
    model.save(tmp_path / "copy")
    with pytest.raises(errors.VaultError, match=r"saved copy.*Nothing was voided\."):
        voiding.void(tmp_path / "copy", row, reason="killed")
    vaults.rotate(tmp_path / "own", model=tmp_path / "copy")
    with pytest.raises(errors.LedgerError, match="was published"):
        voiding.void(tmp_path / "copy", row, reason="killed")
    model.learn_task(X, Y, name="may")
    assert tasks_of(tmp_path / "model") == ["march", "april", "may"]


@pytest.mark.parametrize("moved", [True, False])
def test_without_its_vault_nothing_is_voided(tmp_path, monkeypatch, moved):
    assert killed(learned(tmp_path, memory=True), monkeypatch, "vault") == {}
    row = row_of(tmp_path, "april")
    (tmp_path / "vault").rename(tmp_path / "elsewhere")
    with pytest.raises(errors.VaultError, match=r"No vault at.*Nothing was voided\."):
        voiding.void(tmp_path / "model", row, reason="killed")
    if moved:
        voiding.void(tmp_path / "model", row, reason="killed", vault=tmp_path / "elsewhere")
        rt.load(tmp_path / "model").learn_task(X, Y, name="april")
        return
    shutil.rmtree(tmp_path / "elsewhere")
    vaults.rotate(tmp_path / "vault", model=tmp_path / "model")
    with pytest.raises(errors.LedgerError, match="was published"):
        voiding.void(tmp_path / "model", row, reason="killed")


def test_what_a_lost_vault_may_have_held_is_not_voided(tmp_path, monkeypatch):
    """Its file is not whole, its vault is gone: rotating says so in the ledger before the next vault is made."""
    killed(learned(tmp_path, memory=True), monkeypatch, "draft")
    row = row_of(tmp_path, "april")
    shutil.rmtree(tmp_path / "vault")
    with monkeypatch.context() as patch:
        patch.setattr("reticent.gate.epochs.make_vault", dies)
        with pytest.raises(KeyboardInterrupt):
            vaults.rotate(tmp_path / "vault", model=tmp_path / "model")
    for _ in range(2):
        with pytest.raises(errors.LedgerError):
            voiding.void(tmp_path / "model", row, reason="killed")
        vaults.rotate(tmp_path / "vault", model=tmp_path / "model")
    rt.load(tmp_path / "model").learn_task(X, Y, name="may")
    statement = rt.load(tmp_path / "model").statement()
    assert [act.text for act in statement.acts if f"row {row} counts as published" in act.text]
    assert sorted(os.listdir(tmp_path / "model" / "releases")) == ["0001.safetensors", "0002.safetensors"]


@pytest.mark.parametrize("memory", [True, False])
def test_what_was_never_written_is_voided_and_learned_again(tmp_path, monkeypatch, memory):
    """Killed before the first byte: also where labels were added since, whose file says nothing of examples."""
    model = learned(tmp_path, memory=memory)
    with monkeypatch.context() as patch:
        patch.setattr(store, "packed" if memory else "write_release", dies)
        with pytest.raises(KeyboardInterrupt):
            model.learn_task(X, Y, name="april")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_append", dies)
        with pytest.raises(KeyboardInterrupt):
            rt.load(tmp_path / "model").extend_labels(["c"])
    assert len(os.listdir(tmp_path / "model" / "releases")) == 2
    voiding.void(tmp_path / "model", row_of(tmp_path, "april"), reason="killed")
    rt.load(tmp_path / "model").learn_task(X, Y, name="april")
    assert tasks_of(tmp_path / "model") == ["march", "april"]


def test_a_release_that_is_not_what_was_paid_for_is_not_published(tmp_path, monkeypatch):
    """Such as one of another task under the name of the one that was lost: nothing of it is made a release."""
    killed(learned(tmp_path, memory=False), monkeypatch, "ledger")
    (file,) = [file for file in (tmp_path / "model" / "releases").iterdir() if "0002" in file.name]
    file.write_bytes(file.read_bytes().replace(b"april", b"march"))
    rt.load(tmp_path / "model").learn_task(X, Y, name="may")
    assert tasks_of(tmp_path / "model") == ["march", "may"]
    with pytest.raises(errors.LedgerError, match="was published"):
        voiding.void(tmp_path / "model", row_of(tmp_path, "april"), reason="killed")


def test_beside_releases_a_ledger_without_settings_voids_nothing(tmp_path):
    row = spent(tmp_path)
    (tmp_path / store.RELEASES).mkdir()
    with pytest.raises(errors.LedgerError, match="does not belong to its releases"):
        voiding.void(tmp_path, row, reason="a slip")
    with Ledger.open(tmp_path) as ledger:
        assert not ledger.is_voided(row)


@pytest.mark.posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_draft_of_a_release_is_for_its_owner_alone(tmp_path, monkeypatch, umask):
    """From its first moment; the release then has the modes that others have."""
    before = os.umask(umask)
    try:
        model = learned(tmp_path, memory=False)
        modes: list[tuple[bool, int]] = []
        sync = files.sync_folder

        def noted(folder: Path) -> None:
            sync(folder)
            modes.extend((f.name[0] == ".", stat.S_IMODE(f.stat().st_mode)) for f in folder.glob("*0002*"))

        monkeypatch.setattr(files, "sync_folder", noted)
        model.learn_task(X, Y, name="april")
        assert modes == [(True, 0o600), (False, 0o666 & ~umask)]
        assert os.umask(umask) == umask
        monkeypatch.setattr(Path, "chmod", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no modes here")))
        model.learn_task(X, Y, name="may")
        assert tasks_of(tmp_path / "model") == ["march", "april", "may"]
    finally:
        os.umask(before)
