"""The vault: one file for its owner alone, committed whole, refused where it is not."""

import contextlib
import os
import random
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent import errors
from reticent.gate import seal as seals
from reticent.gate.remembered import Entry
from reticent.gate.seal import SEAL
from reticent.gate.vault import FILE_NAME, About, Vault

ABOUT = About(vault="1" * 32, ledger="2" * 32, epoch=1, eighths=2, horizon=12, model="model")


def entry(row: int, *labels: object) -> Entry:
    count = len(labels)
    sums = np.arange(3 * count, dtype=np.int64).reshape(count, 3) - 2**40 + row
    return Entry(
        row=row,
        key=bytes([row]) * 32,
        labels=labels,
        counts=np.arange(count, dtype=np.int64) * 2**41 + row,
        vectors=sums,
        width=3,
        known=tuple(n % 2 == 0 for n in range(count)),
    )


def whole(entry: Entry) -> dict[str, Any]:
    """All of an entry, its sums read."""
    sums = entry.vectors[np.arange(len(entry.labels))]
    assert sums.dtype == entry.counts.dtype == np.int64
    return vars(entry) | {"vectors": sums.tolist(), "counts": entry.counts.tolist()}


@pytest.fixture
def vault(tmp_path) -> Path:
    Vault.create(tmp_path / "vault", ABOUT)
    return Path(tmp_path, "vault")


def test_a_vault_keeps_entries_and_one_release(vault):
    kept = [entry(3, "a", 7, ("b", 1.5)), entry(5), entry(8, "a")]
    for one in kept:
        with Vault.open(vault) as opened:
            assert opened.commit(one, f"{one.row:064x}", [one.row], b"release") == b"release"
    with Vault.open(vault) as opened:
        assert list(map(whole, opened.entries())) == list(map(whole, kept))
        assert opened.entries()[1].vectors[np.zeros(0, np.int64)].shape == (0, 3)  # an empty task has a width too
        assert opened.heads() == {one.row: f"{one.row:064x}" for one in kept}
        assert opened.waiting() == (8, [8], b"release")
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
    content = file.read_bytes()

    def put(damaged: bytes) -> None:
        file.write_bytes(damaged)

    def run(*statements: str) -> None:
        put(content)
        with contextlib.closing(sqlite3.connect(file)) as db, db:
            for statement in statements:
                db.execute(statement)
        db.close()

    for damaged in (b"", b"not a database", content[:4096], content[: len(content) // 2], bytes(len(content))):
        put(damaged)
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
        ["UPDATE entries SET first = 2"],
        ["UPDATE entries SET counts = zeroblob(16)"],
        ["UPDATE entries SET known = zeroblob(2)"],
        ["UPDATE entries SET digests = zeroblob(64)"],
        ["UPDATE entries SET labels = x'226122'"],
        ["UPDATE waiting SET rows = '3'"],
        ["UPDATE waiting SET release = x'00'"],
        ["UPDATE sums SET steps = x'0000'"],
        ["UPDATE sums SET steps = zeroblob(24) WHERE id = 2"],
        ["UPDATE sums SET id = id + 1 WHERE id = 2"],
        ["DELETE FROM sums WHERE id = 1"],
        ["DELETE FROM sums"],
    ):
        run(*statements)
        with pytest.raises(errors.VaultError, match="not a whole vault"), Vault.open(vault) as opened:
            list(map(whole, opened.entries())), opened.waiting()
    run("PRAGMA user_version = 4")
    with pytest.raises(errors.VaultError, match="newer version"):
        Vault.open(vault)
    run("PRAGMA user_version = 2")
    with pytest.raises(errors.VaultError, match=r"earlier version.*reticent vault rotate"):
        Vault.open(vault)
    run("PRAGMA user_version = 0", "DROP TABLE sums")
    with pytest.raises(errors.VaultError, match="not a whole vault"):
        Vault.open(vault)
    put(content)
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
    content, refused = file.read_bytes(), 0
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(change.choice((1, 5, 30))):
            damaged[change.randrange(len(content))] = change.randrange(256)
        file.write_bytes(damaged if change.random() < 0.9 else damaged[: change.randrange(len(content))])
        try:
            with Vault.open(vault) as opened:
                found = list(map(whole, opened.entries()))
                waiting, rows = opened.waiting(), opened.heads()
        except errors.LedgerError:
            refused += 1
            continue
        assert all(one in [whole(other) for other in kept] for one in found)
        assert waiting in (None, (5, [5], b"release" * 200))
        assert set(rows) == {one["row"] for one in found}
    assert 30 < refused < 150


def test_sums_are_read_when_they_are_asked_for(vault):
    """In any order, runs of neighbours and single ones; nothing else is read, and what is there stays."""
    labels = [f"label {n}" for n in range(9)]
    with Vault.open(vault) as opened:
        opened.commit(entry(3, *labels), "x", [3], b"release")
        opened.commit(entry(4, *labels), "y", [4], b"release")
        asked: list[str] = []
        opened._db.set_trace_callback(asked.append)
        first, second = opened.entries()
        assert not any("FROM sums" in statement for statement in asked)
        for places in ([7, 0, 2, 1, 8], [3], [], list(range(9))):
            found = second.vectors[np.array(places, np.int64)]
            assert found.tolist() == entry(4, *labels).vectors[np.array(places, np.int64)].tolist()
        read = [re.findall(r"BETWEEN (\d+) AND (\d+)", text) for text in asked if "FROM sums" in text]
        assert read == [[(a, b)] for a, b in (("10", "12"), ("17", "18"), ("13", "13"), ("10", "18"))]
        assert repr(first.vectors) == "_Stored(<sensitive>)"
        assert whole(opened.entries()[1]) == whole(entry(4, *labels))


def test_many_sums_are_written_in_parts(vault, monkeypatch):
    monkeypatch.setattr("reticent.gate.vault._AT_ONCE", 4)
    for row, count in ((3, 8), (4, 9), (5, 3)):
        kept = entry(row, *range(count))
        with Vault.open(vault) as opened:
            opened.commit(kept, "x", [row], b"release")
            assert whole(opened.entries()[-1]) == whole(kept)


def test_a_vault_shows_nothing(vault):
    with Vault.open(vault) as opened:
        opened.commit(entry(3, "secret"), "x", [3], b"release")
        assert repr(opened) == "Vault(<sensitive>)"
        assert "secret" not in repr(opened.entries())


def test_what_a_vault_forgets_is_overwritten(vault):
    with Vault.open(vault) as opened:
        opened.commit(entry(3, "a"), "x", [3], b"a release that waits")
        assert b"a release that waits" in (vault / FILE_NAME).read_bytes()
        opened.commit(entry(4, "a"), "y", [4], b"another")
    assert b"a release that waits" not in (vault / FILE_NAME).read_bytes()


def test_a_copied_vault_notices(vault, tmp_path):
    shutil.copytree(vault, tmp_path / "copy")
    os.rename(vault, tmp_path / "moved")
    with Vault.open(tmp_path / "moved") as moved, Vault.open(tmp_path / "copy") as copied:
        assert not moved.is_copied
        assert copied.is_copied
        copied.settle(Path("there"))
        assert not copied.is_copied
        facts = copied.about
    seal = (tmp_path / "copy" / SEAL).read_text()
    expected = replace(ABOUT, model="there", home=str(tmp_path / "copy"), seal=seal)
    assert facts == replace(expected, file=facts.file, sealed=facts.sealed)


def in_place(file: Path, content: bytes, noted: os.stat_result) -> None:
    """Puts a file back as a backup does that keeps its number and all times that it can set."""
    with open(file, "r+b") as stream:
        stream.truncate()
        stream.write(content)
    os.utime(file, ns=(noted.st_atime_ns, noted.st_mtime_ns))


SKIPPED: dict[str, Callable[[os.stat_result, os.stat_result], bool]] = {
    "nothing": lambda backup, there: False,
    "size and time": lambda backup, there: (backup.st_size, backup.st_mtime) == (there.st_size, there.st_mtime),
    "size": lambda backup, there: backup.st_size == there.st_size,
    "the seal": lambda backup, there: True,
    "the vault": lambda backup, there: False,
}


@pytest.mark.parametrize("commits", [0, 1, 2])
@pytest.mark.parametrize("skips", SKIPPED)
def test_a_vault_put_back_into_its_own_files_notices(vault, skips, commits):
    """Whichever of the two files a restore skips, because of its size, its time, or by name."""
    backup = {name: ((vault / name).read_bytes(), (vault / name).stat()) for name in (FILE_NAME, SEAL)}
    with Vault.open(vault) as opened:
        for row in range(commits):
            opened.commit(entry(3 + row, "a"), "x", [3 + row], b"release")
        assert not opened.is_copied
    if skips != "the vault":
        in_place(vault / FILE_NAME, *backup[FILE_NAME])
    skipped = SKIPPED[skips](backup[SEAL][1], (vault / SEAL).stat())
    if not skipped:
        in_place(vault / SEAL, *backup[SEAL])
    with Vault.open(vault) as opened:
        assert opened.is_copied == (commits > 0 or not skipped)  # without a commit it is the same vault


def test_a_vault_without_its_seal_notices(vault):
    (vault / SEAL).unlink()
    with Vault.open(vault) as opened:
        assert opened.is_copied
    (vault / SEAL).mkdir()
    with Vault.open(vault) as opened, pytest.raises(errors.StorageError):
        assert opened.is_copied


def test_a_seal_is_another_one_at_each_commit(vault):
    seen = [(vault / SEAL).read_text()]
    for row in (3, 4):
        with Vault.open(vault) as opened:
            opened.commit(entry(row, "a"), "x", [row], b"release")
            assert opened.about.seal == (vault / SEAL).read_text()
            seen.append(opened.about.seal)
    assert len(set(seen)) == 3
    assert {len(seal) for seal in seen} == {32}  # of one length: nothing can be told from it


@pytest.mark.parametrize("step", ["write", "_note"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_that_is_killed_leaves_a_seal_that_fits(vault, monkeypatch, step, when):
    """Twice in a row, and then one that is not: no vault is taken for a copy, and the seal is not told again."""
    owner = seals if step == "write" else Vault
    original = getattr(owner, step)

    def killed(*arguments: Any) -> Any:
        if step == "_note" and arguments[1].announced:  # the first of the two
            return original(*arguments)
        if when == "after":
            original(*arguments)
        raise KeyboardInterrupt

    for row in (3, 4):
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, killed)
            with Vault.open(vault) as opened, pytest.raises(KeyboardInterrupt):
                opened.commit(entry(row, "a"), "x", [row], b"release")
        with Vault.open(vault) as opened:
            assert not opened.is_copied
            assert opened.waiting() is None
            opened.settle(Path("model"))
            assert opened.about.announced == ""
    before = (vault / FILE_NAME).read_bytes()
    with Vault.open(vault) as opened:
        opened.commit(entry(5, "a"), "x", [5], b"release")
        assert not opened.is_copied
    (vault / FILE_NAME).write_bytes(before)
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
