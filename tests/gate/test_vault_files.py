"""The file of a vault: what is left of it when making it fails, how it is opened, and what each refusal says."""

import contextlib
import errno
import json
import os
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from reticent import errors
from reticent.gate import vault as vaults
from reticent.gate.remembered import Entry
from reticent.gate.seal import SEAL
from reticent.gate.vault import FILE_NAME, About, Vault, explained, make_folder, refuse_readable
from reticent.numerics import databases

ABOUT = About(vault="1" * 32, ledger="2" * 32, epoch=1, eighths=2, horizon=12, model="model")
SIDE_FILES = ("-journal", "-wal", "-shm")


@pytest.fixture
def vault(tmp_path) -> Path:
    Vault.create(tmp_path / "vault", ABOUT)
    return Path(tmp_path, "vault")


def entry(row: int, *labels: Any) -> Entry:
    count = len(labels)
    return Entry(row, bytes(32), labels, np.ones(count, np.int64), np.ones((count, 2), np.int64), 2, (True,) * count)


# --- making


def test_a_new_vault_is_all_that_its_folder_holds(vault, monkeypatch):
    """Drafts of killed processes and side files of the vault before are gone, and the name is made durable."""
    assert (ABOUT.home, ABOUT.file, ABOUT.seal, ABOUT.sealed) == ("", 0, "", 0)  # it is nowhere yet
    for name in (".vault.sqlite.0123456789abcdef", *(FILE_NAME + ending for ending in SIDE_FILES)):
        (vault / name).write_bytes(b"left by a killed process")
    synced = []
    monkeypatch.setattr(vaults, "sync_folder", lambda folder: synced.append((folder, sorted(os.listdir(folder)))))
    Vault.create(vault, ABOUT)
    assert synced == [(vault, ["seal", "vault.sqlite"])]
    with Vault.open(vault) as opened:
        assert opened._db.execute("PRAGMA user_version").fetchone() == (3,)
        assert opened._db.execute("PRAGMA application_id").fetchone() == (int.from_bytes(b"RTNV"),)
        found = opened.about
        assert found == replace(ABOUT, home=str(vault), file=found.file, seal=found.seal, sealed=found.sealed)
        assert found.seal == (vault / SEAL).read_text()
        assert opened.about.file == (vault / FILE_NAME).stat().st_ino
        assert opened.about.sealed == (vault / SEAL).stat().st_ctime_ns


def test_a_vault_that_cannot_be_made_leaves_the_one_before(vault, monkeypatch):
    before = (vault / FILE_NAME).read_bytes()

    def fail(draft: Path, file: Path) -> None:
        if Path(file).name == FILE_NAME:
            for ending in SIDE_FILES:
                draft.with_name(draft.name + ending).touch()
            raise OSError(errno.ENOSPC, "No space left on device")
        os.rename(draft, file)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(errors.StorageError, match=r"cannot be used: No space left on device. Check the disk"):
        Vault.create(vault, replace(ABOUT, epoch=2))
    assert sorted(os.listdir(vault)) == [SEAL, FILE_NAME]
    assert (vault / FILE_NAME).read_bytes() == before


@pytest.mark.posix
def test_folders_are_made_for_their_owner_alone(tmp_path):
    make_folder(tmp_path / "a" / "vault")
    assert (tmp_path / "a" / "vault").stat().st_mode & 0o777 == 0o700
    for path, mode in ((tmp_path / "a" / "vault", 700), (tmp_path / "file", 600)):
        if mode == 600:
            path.touch()
        for more in (0o040, 0o020, 0o010, 0o004, 0o002, 0o001):
            path.chmod(int(str(mode), 8) | more)
            with pytest.raises(errors.VaultError) as refusal:
                refuse_readable(path)
            assert str(refusal.value).endswith(f"Close it: chmod {mode} {path}")
        path.chmod(int(str(mode), 8))
        refuse_readable(path)


# --- opening


class Noted(sqlite3.Connection):
    """Notes how it was opened, and that it was closed."""

    made: ClassVar[list[dict[str, Any]]] = []
    closed = 0

    def close(self) -> None:
        Noted.closed += 1
        super().close()


@pytest.fixture
def noted(monkeypatch):
    Noted.made, Noted.closed, connect = [], 0, sqlite3.connect

    def noting(*arguments: Any, **named: Any) -> sqlite3.Connection:
        Noted.made.append(named)
        return connect(*arguments, **named, factory=Noted)

    monkeypatch.setattr(sqlite3, "connect", noting)
    return Noted


def test_a_vault_is_opened_so_that_what_it_commits_lasts(vault, noted):
    with Vault.open(vault) as opened:
        pragmas = {
            name: opened._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "secure_delete")
        }
        assert pragmas == {"synchronous": 3, "secure_delete": 1}
        assert opened._db.execute("PRAGMA trusted_schema").fetchone() == (0,)
        assert opened._db.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) == 1_000_000_000
        assert noted.made[0]["timeout"] == 10  # seconds that another program may hold the file
        other = threading.Thread(target=opened.commit, args=(entry(3, "a"), "x", [3], b"release"))
        other.start()
        other.join()
        assert opened.waiting() == (3, [3], b"release")
    assert noted.closed == 1


def test_a_vault_that_is_refused_is_closed(vault, noted, monkeypatch):
    with contextlib.closing(sqlite3.connect(vault / FILE_NAME)) as db, db:
        db.execute("PRAGMA application_id = 1")
    db.close()
    noted.closed = 0
    with pytest.raises(errors.VaultError, match="not a whole vault"):
        Vault.open(vault)
    assert noted.closed == 1

    def fail(db: sqlite3.Connection, *, longest: int) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(databases, "harden", fail)
    with pytest.raises(errors.StorageError, match=r"cannot be used now\. Check the disk and the permissions"):
        Vault.open(vault)
    assert noted.closed == 2


def test_a_vault_that_is_not_there_is_named(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(errors.VaultError, match="No vault at"):
            Vault.open(folder)


def test_what_a_vault_says_of_itself_is_checked(vault):
    with contextlib.closing(sqlite3.connect(vault / FILE_NAME)) as db, db:
        ((body,),) = db.execute("SELECT body FROM about").fetchall()
    whole = (vault / FILE_NAME).read_bytes()
    wrong: list[tuple[str, object]] = [
        (name, value) for name in ("vault", "ledger", "model", "home", "seal", "announced") for value in (1, None)
    ]
    numbers = ("epoch", "eighths", "horizon", "file", "sealed")
    wrong += [(name, value) for name in numbers for value in (0, -1, 1.5, True, "1", None)]
    for name, value in wrong:
        (vault / FILE_NAME).write_bytes(whole)
        with contextlib.closing(sqlite3.connect(vault / FILE_NAME)) as db, db:
            db.execute("PRAGMA synchronous = OFF")
            db.execute("UPDATE about SET body = ?", (json.dumps({**json.loads(body), name: value}),))
        db.close()
        with pytest.raises(errors.VaultError, match="not a whole vault"):
            Vault.open(vault)


def test_labels_that_occur_twice_are_not_what_a_task_left(vault):
    with Vault.open(vault) as opened:
        opened.commit(entry(3, "a"), "x", [3], b"release")
        opened.commit(entry(4, "a", "a"), "x", [4], b"release")
        with pytest.raises(errors.VaultError, match="not a whole vault"):
            opened.entries()


def test_what_cannot_be_a_label_is_not_what_a_task_left(vault):
    with Vault.open(vault) as opened:
        opened.commit(entry(5, "b", None), "x", [5], b"release")
        with pytest.raises(errors.VaultError, match="not a whole vault"):
            opened.entries()


def test_where_a_vault_is_is_written_down(vault):
    with Vault.open(vault) as opened:
        facts = opened.about
        opened.settle(Path("there"))
        assert opened.about == replace(facts, model="there")
    with Vault.open(vault) as opened:
        assert opened.about == replace(facts, model="there")
        (vault / SEAL).unlink()
        opened.settle(Path("there"))
        assert not opened.is_copied
    moved = vault.rename(vault.parent / "moved")
    with Vault.open(moved) as opened:
        assert not opened.is_copied
        opened.settle(Path("there"))
    with Vault.open(moved) as opened:
        assert opened.about.home == str(moved)


# --- one sentence for each error


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (OSError(errno.EIO, "Input/output error"), errors.StorageError, "cannot be used: Input/output error. Check"),
        (sqlite3.OperationalError("database is locked"), errors.StorageError, "is locked by another program."),
        (sqlite3.OperationalError("database table is busy"), errors.StorageError, "is locked by another program."),
        (sqlite3.OperationalError("disk I/O error: secret"), errors.StorageError, "cannot be used now. Check"),
        (sqlite3.DatabaseError("malformed: secret"), errors.VaultError, vaults.NOT_WHOLE),
        (UnicodeDecodeError("utf-8", b"secret", 0, 1, "no"), errors.VaultError, vaults.NOT_WHOLE),
        (OverflowError("secret"), errors.VaultError, vaults.NOT_WHOLE),
    ],
)
def test_errors_of_a_vault_are_explained(error, kind, sentence):
    with pytest.raises(kind) as refusal, explained(Path("vault.sqlite")):
        raise error
    assert type(refusal.value) is kind
    assert str(refusal.value).startswith(f"vault.sqlite {sentence}")
    assert "secret" not in str(refusal.value)
    assert refusal.value.__cause__ is (error if isinstance(error, OSError) else None)
