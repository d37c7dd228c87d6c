"""The results folder: one runner at a time, one version, and damaged files count as missing."""

import contextlib
import json

import pytest

import reticent
from reticent import errors
from reticent.lab.bench import one_run, runner, specs
from reticent.lab.bench.folder import Folder
from reticent.lab.bench.spread import FILE as STREAMS
from reticent.lab.bench.versions import version_of
from tests.lab.tiny import a_run, done


def test_one_runner_at_a_time(tmp_path):
    with Folder(tmp_path / "results") as folder:
        with pytest.raises(errors.InvalidValue, match=r"Another runner is at work in .*choose another --out"):
            runner.run([], data=tmp_path, out=tmp_path / "results")
        assert folder.results() == {}
    runner.run([], data=tmp_path, out=tmp_path / "results")


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({"format": one_run.FORMAT, "version": "0.0.9"}, "holds results of reticent 0.0.9"),
        ({"format": 1, "version": reticent.__version__}, "(format 1); this is"),
        ({"format": 99, "version": reticent.__version__}, "(format 99); this is"),
        ({}, "in another folder: reticent bench NAME --out DIR"),
        ([1], "cannot be read"),
    ],
)
def test_results_of_another_version_or_format_are_refused(tmp_path, made, sentence):
    (tmp_path / "bench.json").write_text(json.dumps(made))
    for use in (lambda: runner.run([], data=tmp_path, out=tmp_path), Folder(tmp_path).check):
        with pytest.raises(errors.InvalidValue) as refusal:
            use()
        assert sentence in str(refusal.value)
    (tmp_path / "bench.json").unlink()
    runner.run([], data=tmp_path, out=tmp_path)  # the lock was given back


def test_a_folder_without_results_is_refused_with_a_command(tmp_path):
    with pytest.raises(errors.InvalidValue, match=r"holds no results\. Run: reticent bench"):
        Folder(tmp_path).check()
    (tmp_path / "bench.json").write_text('{"form')
    with pytest.raises(errors.InvalidValue, match="cannot be read"):
        Folder(tmp_path).check()
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.InvalidValue, match="Cannot write results to"):
        runner.run([], data=tmp_path, out=tmp_path / "file")


def test_files_are_whole_or_not_there(tmp_path):
    folder = Folder(tmp_path)
    folder.write("runs/a.json", json.dumps(one_run.failed(a_run(), "no room")))
    with contextlib.suppress(UnicodeEncodeError):
        folder.write("runs/b.json", '{"status": "\udc00"}')  # fails midway
    assert folder.results() == {"a": folder.read("runs/a.json")}
    assert folder.results()["a"]["error"] == "no room"
    assert folder.read("nothing.json") is None


DAMAGED = [b'{"status": "done", "run": {"da', b"", b"\0" * 100, b'{"status": "\xe9"}', b"[]", b"null"]


@pytest.mark.parametrize("content", DAMAGED, ids=["half", "empty", "zeros", "Latin-1", "list", "null"])
def test_damaged_files_count_as_missing(tmp_path, content):
    with Folder(tmp_path) as folder:
        folder.write("runs/good.json", json.dumps(done(a_run(), 0.5)))
        folder.write("tables/good.json", "[]")
        for name in ("runs/a.json", "tables/a.json", "drop.json", STREAMS):
            folder.path.joinpath(name).write_bytes(content)
        assert list(folder.results()) == ["good"]
        assert folder.read("drop.json") is folder.read(STREAMS) is None
        assert folder.tables() == {"a": [] if content == b"[]" else None, "good": []}
    runner.run([specs.spec("drop")], data=tmp_path, out=tmp_path)
    assert (folder.beside("drop.json") or {}).keys() == {"delta", "curves", "version", "command", "environment"}
    assert (folder.beside(STREAMS) or {})["data"] == {}


def test_what_another_version_counted_is_not_shown(tmp_path):
    folder = Folder(tmp_path)
    for version, there in ((version_of("streams"), True), (0, False), (None, False)):
        folder.write(STREAMS, json.dumps({"version": version, "data": {}}))
        assert (folder.beside(STREAMS) is not None) is there


@pytest.mark.parametrize(
    "changed",
    [{"accuracy": "0.5"}, {"accuracy": None}, {"curve": 0.5}, {"seconds": 3.0}, {"run": {}}, {"digests": None}],
)
def test_results_with_wrong_types_count_as_not_run(tmp_path, changed):
    folder = Folder(tmp_path)
    folder.write("runs/a.json", '{"accuracy": 1}')
    folder.write("runs/b.json", json.dumps({**done(a_run(), 0.5), **changed}))
    folder.write("runs/c.json", json.dumps(done(a_run(), 0.5)))
    assert list(folder.results()) == ["c"]


def test_results_are_rounded_as_rows_are(tmp_path):
    folder = Folder(tmp_path)
    exact = 0.12345678
    measured = {"curve": [exact, None], "aggregations": {"median": exact}, "parent": exact, "matrix": [[exact]]}
    seconds = {"learn": 1.2345, "evaluate": 0.004, "processor": 2}
    folder.write("runs/a.json", json.dumps(done(a_run(), exact, seconds=seconds, **measured)))
    (result,) = folder.results().values()
    assert (result["accuracy"], result["curve"], result["aggregations"]) == (
        0.123457,
        [0.123457, None],
        {"median": 0.123457},
    )
    assert (result["parent"], result["forgetting"], result["known"]) == (0.123457, None, 0)
    assert result["seconds"] == {"learn": 1.23, "evaluate": 0.0, "processor": 2}
    assert result["matrix"] == [[exact]]  # which rows do not have


def test_results_are_not_written_into_a_model_directory(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(errors.InvalidValue, match=r"is a model directory\. Choose another --out"):
        runner.run([], data=tmp_path, out=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]
