"""Kills and full disks at the file calls of learning: a part of what `tests/assurance/crash.py` tries."""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from reticent.directory import Directory
from reticent.gate import epochs, voiding
from reticent.gate.remembered import Entry
from reticent.released import store
from tests.assurance import crash, file_calls
from tests.assurance.file_calls import Fault, Kind

WRITING = (Kind.WRITE, Kind.SYNC, Kind.NAME)


@pytest.fixture(scope="module")
def learning(tmp_path_factory):
    if (reason := file_calls.unavailable()) is not None:
        pytest.skip(reason)
    return crash.Bench(crash.LEARN, tmp_path_factory.mktemp("crash") / "place")


@pytest.fixture(scope="module")
def calls(learning):
    return learning.watch()


def wrong_after(bench: crash.Bench, faults: Iterable[Fault]) -> dict[str, list[str]]:
    return {str(fault): wrong for fault in faults if (wrong := bench.wrong_after(fault))}


def test_a_kill_at_any_write_of_learning_loses_nothing(learning, calls):
    kills = [fault for fault in crash.faults_of(calls)["SIGKILL"] if calls[fault.at].kind in WRITING]
    assert len(kills) > 80
    last_of_each_call = {fault.at: fault for fault in kills if fault.when != "before"}
    assert wrong_after(learning, last_of_each_call.values()) == {}


def test_a_disk_that_is_full_while_learning_changes_nothing(learning, calls):
    faults = crash.faults_of(calls)
    assert wrong_after(learning, faults["ENOSPC"][::9] + faults["ENOSPC that stays"][5::9]) == {}


def test_a_commit_in_two_steps_is_noticed(learning, calls, monkeypatch):
    """The twin: what it publishes in the ledger is not on disk yet."""
    write, write_manifest = store.write_release, Directory._write_manifest

    def later(folder, number, release, identity):
        entry = write(folder, number, release, identity)
        os.rename(folder / entry["file"], folder / "later")
        return entry

    def late(self):
        os.rename(self.path / "later", self.path / self._releases[-1]["file"])
        write_manifest(self)

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_release", later)
        patch.setattr(Directory, "_write_manifest", late)
        seen = learning.watch()
        renamed = [at for at, call in enumerate(seen) if call.file == "releases/0002.safetensors"]
        assert learning.wrong_after(Fault(at=renamed[-1])) != []


@pytest.fixture(scope="module")
def remembering(tmp_path_factory):
    if (reason := file_calls.unavailable()) is not None:
        pytest.skip(reason)
    return crash.Bench(crash.REMEMBER, tmp_path_factory.mktemp("crash") / "place")


def test_a_kill_at_any_write_of_learning_with_memory_loses_nothing(remembering):
    """The vault's, and the ledger's after it; `tests/assurance/crash.py` tries all of them, and rotation."""
    seen = remembering.watch()
    at = [n for n, call in enumerate(seen) if call.kind in WRITING and call.file.startswith("vault/")]
    assert len(at) > 10
    kills = [Fault(at=n, when="after") for n in at[::3]]
    publishing = [Fault(at=n, when="after") for n in range(at[-1], len(seen)) if seen[n].kind in WRITING]
    assert wrong_after(remembering, kills + publishing[::6]) == {}


def test_a_release_published_before_its_vault_is_noticed(remembering, monkeypatch):
    """The twin: a kill between the two leaves a release whose sums the vault does not know."""
    commit = Directory._commit

    def late(self, ledger, release, rows, *, act=None, kept=None):
        model = commit(self, ledger, release, rows, act=act)
        if isinstance(kept, Entry):
            self._vault.commit(kept, ledger.head_at(kept.row), rows, b"late")
        return model

    with monkeypatch.context() as patch:
        patch.setattr(Directory, "_commit", late)
        seen = remembering.watch()
        last = max(
            n for n, call in enumerate(seen) if call.kind is Kind.NAME and call.file.startswith("model/releases")
        )
        first = min(n for n in range(last, len(seen)) if seen[n].file.startswith("vault/") and seen[n].kind in WRITING)
        broken = remembering.wrong_after(Fault(at=first))
    assert any("behind the ledger" in sentence for sentence in broken)


@pytest.fixture(scope="module")
def followed():
    """Benches of learning and then something else, in memory where there is such a disk."""
    if (reason := file_calls.unavailable()) is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(dir=crash.place()) as name:
        yield [crash.Bench(operation, Path(name, str(n))) for n, operation in enumerate(crash.FOLLOWED)]


def around_its_files(bench: crash.Bench) -> list[Fault]:
    """Kills from the first file of the release, or of the vault, to the commit of the ledger."""
    calls = bench.watch()
    folders = ("model/releases", "vault/")
    at = [n for n, call in enumerate(calls) if call.kind in WRITING and call.file.startswith(folders)]
    last = next(n for n in range(at[-1], len(calls)) if calls[n].file.endswith("-wal") and calls[n].kind is Kind.SYNC)
    return [fault for fault in crash.faults_of(calls)["SIGKILL"] if at[0] <= fault.at <= last]


@pytest.mark.parametrize("memory", [False, True])
def test_whatever_follows_a_kill_no_task_is_published_with_other_noise(followed, memory):
    """Each kill is followed by another operation; `tests/assurance/crash.py` tries all of them after each."""
    benches = [bench for bench in followed if ("memory" in bench.operation.name) == memory]
    kills = around_its_files(benches[0])
    assert len(kills) > 20
    some = kills[:: len(kills) // 14]
    wrong = [wrong_after(benches[n % len(benches)], [kill]) for n, kill in enumerate(some)]
    assert [found for found in wrong if found] == []


@pytest.mark.parametrize("memory", [False, True])
def test_voiding_what_could_be_read_is_noticed(followed, memory, monkeypatch):
    """The twin: nobody looks before a row is voided, and what was left is removed. Then the vault is not asked."""
    benches = {bench.operation.name: bench for bench in followed}
    bench = benches["learn with memory, then void" if memory else "learn, then void"]
    with monkeypatch.context() as patch:
        patch.setattr(voiding, "_nothing_left", lambda *_: contextlib.nullcontext())
        patch.setattr(store, "left_behind", lambda *_: [])
        patch.setattr(epochs, "_refuse_out_of_step", lambda *_: None)
        patch.setattr(epochs, "unpublished", lambda *_: None)
        calls = list(enumerate(bench.watch()))
        written = [n for n, call in calls if call.kind is Kind.WRITE and "/.0002.safetensors" in call.file]
        named = [n for n, call in calls if call.kind is Kind.NAME and "/0002.safetensors" in call.file]
        for at in (written[0], named[-1]):  # the draft, and the release
            broken = bench.wrong_after(Fault(at=at, when="after"))
            assert "april was voided, and could be read" in broken
            assert "april has other noise than what could be read" in broken


def test_file_calls_are_seen_and_fail_where_they_should(learning, calls):
    names = [(call.kind, call.file) for call in calls]
    assert (Kind.NAME, "releases/0002.safetensors") in names
    assert (Kind.SYNC, "ledger.sqlite-wal") in names  # from C
    assert not any(os.path.isabs(call.file) or call.file.startswith("..") for call in calls)
    assert learning.wrong_after(Fault(at=len(calls) + 100)) == ["not reached"]
