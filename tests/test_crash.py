"""Kills and full disks at the file calls of learning: a part of what `tests/assurance/crash.py` tries."""

import os
from collections.abc import Iterable

import pytest

from reticent.directory import Directory
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


def test_file_calls_are_seen_and_fail_where_they_should(learning, calls):
    names = [(call.kind, call.file) for call in calls]
    assert (Kind.NAME, "releases/0002.safetensors") in names
    assert (Kind.SYNC, "ledger.sqlite-wal") in names  # from C
    assert not any(os.path.isabs(call.file) or call.file.startswith("..") for call in calls)
    assert learning.wrong_after(Fault(at=len(calls) + 100)) == ["not reached"]
