"""The vault: one file for its owner alone, committed whole, refused where it is not."""

import contextlib
import os
import random
import shutil
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reticent import errors
from reticent.gate.remembered import Entry
from reticent.gate.vault import FILE_NAME, SEAL, About, Vault

ABOUT = About(vault="1" * 32, ledger="2" * 32, epoch=1, eighths=2, horizon=12, model="model")


def entry(row: int, *labels: object) -> Entry:
    sums = np.arange(3 * len(labels), dtype=np.int64).reshape(len(labels), 3) - 2**40
    return Entry(
        row=row, key=bytes([row]) * 32, labels=labels, sums=sums, known=tuple(n % 2 == 0 for n in range(len(labels)))
    )


@pytest.fixture
def vault(tmp_path) -> Path:
    Vault.create(tmp_path / "vault", ABOUT)
    return Path(tmp_path, "vault")


def same(a: Entry, b: Entry) -> bool:
    mine, others = (vars(e) | {"sums": e.sums.tolist()} for e in (a, b))
    return mine == others and a.sums.dtype == b.sums.dtype


def test_a_vault_keeps_entries_and_one_release(vault):
    kept = [entry(3, "a", 7, ("b", 1.5)), entry(5), entry(8, "a")]
    for one in kept:
        with Vault.open(vault) as opened:
            assert opened.commit(one, f"{one.row:064x}", [one.row], b"release") == b"release"
    with Vault.open(vault) as opened:
        assert all(map(same, opened.entries(), kept))
        assert opened.entries()[1].sums.shape == (0, 3)  # an empty task has a width too
        assert opened.heads() == {one.row: f"{one.row:064x}" for one in kept}
        assert opened.waiting() == (8, [8], b"release")
        opened.forget(8)
        assert opened.waiting() is None
        assert [one.row for one in opened.entries()] == [3, 5]
    assert sorted(os.listdir(vault)) == [SEAL, FILE_NAME]


def test_a_vault_commits_all_or_nothing(vault):
    with Vault.open(vault) as opened:
        opened.commit(entry(3, "a"), "x", [3], b"one")
        with pytest.raises(errors.VaultError):
            opened.commit(entry(3, "b"), "y", [3], b"two")  # the row is taken
        opened._db.set_authorizer(
            lambda act, table, *_: 1 if act == sqlite3.SQLITE_DELETE and table == "waiting" else 0
        )
        with pytest.raises(errors.LedgerError):
            opened.commit(entry(4, "b"), "y", [4], b"two")  # fails in its last table
    with Vault.open(vault) as opened:
        assert [(one.row, one.labels) for one in opened.entries()] == [(3, ("a",))]
        assert opened.waiting() == (3, [3], b"one")


@pytest.mark.posix
def test_vaults_that_others_may_read_are_refused(vault):
    assert stat.S_IMODE(vault.stat().st_mode) == 0o700
    assert stat.S_IMODE((vault / FILE_NAME).stat().st_mode) == 0o600
    for path, mode in ((vault, 0o750), (vault, 0o701), (vault / FILE_NAME, 0o640), (vault / FILE_NAME, 0o604)):
        before = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(errors.VaultError, match=r"used by others than its owner.*chmod [67]00"):
            Vault.open(vault)
        path.chmod(before)
    Vault.open(vault).close()
    (vault.parent / "open").mkdir(mode=0o755)
    (vault.parent / "open").chmod(0o755)
    with pytest.raises(errors.VaultError, match="chmod 700"):
        Vault.create(vault.parent / "open", ABOUT)


def test_vaults_that_are_not_whole_are_refused(vault):
    file = vault / FILE_NAME
    with Vault.open(vault) as opened:
        opened.commit(entry(3, "a", "b"), "x", [3], b"release")
    whole = file.read_bytes()

    def put(content: bytes) -> None:
        file.write_bytes(content)

    def run(*statements: str) -> None:
        put(whole)
        with contextlib.closing(sqlite3.connect(file)) as db, db:
            for statement in statements:
                db.execute(statement)
        db.close()

    for content in (b"", b"not a database", whole[:4096], whole[: len(whole) // 2], bytes(len(whole))):
        put(content)
        with pytest.raises(errors.VaultError, match="not a whole vault"), Vault.open(vault) as opened:
            opened.entries()
    for statements in (
        ["DELETE FROM about"],
        ["INSERT INTO about VALUES ('{}')"],
        ["UPDATE about SET body = '[]'"],
        ["""UPDATE about SET body = replace(body, '"epoch": 1', '"epoch": "1"')"""],
        ["PRAGMA application_id = 1"],
        ["CREATE TRIGGER more AFTER INSERT ON entries BEGIN DELETE FROM entries; END"],
        ["UPDATE entries SET key = x'00'"],
        ["UPDATE entries SET width = 4"],
        ["UPDATE sums SET steps = x'0000'"],
        ["""UPDATE sums SET label = '"a"'"""],
        ["UPDATE sums SET label = 'null'"],
        ["UPDATE waiting SET rows = '3'"],
        ["UPDATE waiting SET release = x'00'"],
        ["UPDATE sums SET known = 1 - known"],
        ["UPDATE sums SET steps = zeroblob(24)"],
        ["DELETE FROM sums"],
    ):
        run(*statements)
        with pytest.raises(errors.VaultError, match="not a whole vault"), Vault.open(vault) as opened:
            opened.entries(), opened.waiting()
    run("PRAGMA user_version = 2")
    with pytest.raises(errors.VaultError, match="newer version"):
        Vault.open(vault)
    put(whole)
    Vault.open(vault).close()
    file.rename(vault / "elsewhere")
    file.symlink_to(vault / "elsewhere")
    with pytest.raises(errors.VaultError, match="regular file"):
        Vault.open(vault)


def test_damaged_vaults_end_in_a_sentence_or_a_right_result(vault):
    """Bytes that a disk has changed: never other sums, other bytes of a release, or another exception."""
    file, change = vault / FILE_NAME, random.Random(0)
    kept = [entry(3, "a", 7, ("b", 1.5)), entry(4), entry(5, "a")]
    with Vault.open(vault) as opened:
        for one in kept:
            opened.commit(one, f"{one.row:064x}", [one.row], b"release" * 200)
    whole, refused = file.read_bytes(), 0
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(change.choice((1, 5, 30))):
            damaged[change.randrange(len(whole))] = change.randrange(256)
        file.write_bytes(damaged if change.random() < 0.9 else damaged[: change.randrange(len(whole))])
        try:
            with Vault.open(vault) as opened:
                found, waiting, rows = opened.entries(), opened.waiting(), opened.heads()
        except errors.LedgerError:
            refused += 1
            continue
        assert all(any(same(one, other) for other in kept) for one in found)
        assert waiting in (None, (5, [5], b"release" * 200))
        assert set(rows) == {one.row for one in found}
    assert 30 < refused < 150


def test_a_vault_shows_nothing(vault):
    with Vault.open(vault) as opened:
        opened.commit(entry(3, "secret"), "x", [3], b"release")
        assert repr(opened) == "Vault(<sensitive>)"
        assert "secret" not in repr(opened.entries())


def test_what_a_vault_forgets_is_overwritten(vault):
    with Vault.open(vault) as opened:
        opened.commit(entry(3, "a rare diagnosis"), "x", [3], b"a release")
        assert b"a rare diagnosis" in (vault / FILE_NAME).read_bytes()
        opened.forget(3)
    assert b"a rare diagnosis" not in (vault / FILE_NAME).read_bytes()


def test_a_copied_vault_notices(vault, tmp_path):
    shutil.copytree(vault, tmp_path / "copy")
    os.rename(vault, tmp_path / "moved")
    with Vault.open(tmp_path / "moved") as moved, Vault.open(tmp_path / "copy") as copied:
        assert not moved.is_copied
        assert copied.is_copied
        copied.settle(Path("there"))
        assert not copied.is_copied
        facts = copied.about
    assert facts == replace(ABOUT, model="there", home=str(tmp_path / "copy"), file=facts.file, sealed=facts.sealed)


@pytest.mark.parametrize("change", ["restored", "lost"])
def test_a_vault_put_back_into_its_own_file_notices(vault, change):
    """A backup that keeps every time it can: the system's own note of when a file was last put there is not kept."""
    seal, content = vault / SEAL, (vault / FILE_NAME).read_bytes()
    before = seal.stat()
    seal.unlink()
    if change == "restored":
        seal.touch()
        os.utime(seal, ns=(before.st_atime_ns, before.st_mtime_ns))
    (vault / FILE_NAME).write_bytes(content)
    with Vault.open(vault) as opened:
        assert opened.is_copied


def test_a_new_vault_takes_no_journal_of_the_old_one(vault):
    """A rollback journal that a killed process left would be played back into the new file."""
    journal = vault / f"{FILE_NAME}-journal"
    journal.write_bytes(b"left by a killed process")
    Vault.create(vault, replace(ABOUT, epoch=2))
    assert not journal.exists()
    with Vault.open(vault) as opened:
        assert opened.about.epoch == 2
