"""The runner: parallel, resumable, and one run that fails takes no other with it."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import reticent
from reticent import errors
from reticent.lab.bench import experiments, one_run, runner, tables
from reticent.lab.bench.experiments import Cell, Spec
from reticent.lab.bench.runner import Folder, Outcome
from reticent.lab.bench.workspace import Workspace
from tests.lab.tiny import DATA, cell, done, write_features

ROOT = Path(__file__).parents[3]
OWN = "tests.lab.learners"
SPEC = f"""
title = "Mine"
tasks = 3
epsilon = 8
data = "{DATA}"

[[grid]]
learner = ["cosine-paper", "cosine"]
labels = ["base", "released"]
seeds = 2

[[grid]]
data = "clinc150"
learner = "cosine"
seeds = 2

[[grid]]
learner = ["{OWN}:Raises", "{OWN}:Repaired", "{OWN}:Dies"]
seeds = 1
"""


@dataclass
class Ran:
    """A call of `run`, and what it said and left."""

    spec: Spec
    out: Path
    outcome: Outcome
    said: list[str]
    variables: dict[str, str | None]

    def runs(self) -> dict[str, Any]:
        return Folder(self.out).runs()

    def results(self, learner: str) -> list[dict[str, Any]]:
        return [result for result in self.runs().values() if result["cell"]["learner"].endswith(learner)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    return Workspace(write_features(folder / "data"), folder / "alone")


@pytest.fixture(scope="module")
def ran(place, tmp_path_factory):
    out = tmp_path_factory.mktemp("ran") / "results"
    said: list[str] = []
    spec = experiments.read("mine", SPEC)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "7")
        patch.delenv("NUMBA_NUM_THREADS", raising=False)
        outcome = runner.run([spec], data=place.data, out=out, workers=2, threads=3, say=said.append)
        variables = {name: os.environ.get(name) for name in runner.THREADS}
    return Ran(spec, out, outcome, said, variables)


def files(out: Path) -> dict[str, tuple[int, bytes]]:
    return {f.name: (f.stat().st_mtime_ns, f.read_bytes()) for f in (out / "runs").iterdir()}


# --- one call


def test_what_can_run_runs(ran):
    assert ran.outcome.ran == 8 + 3
    assert ran.outcome.failed == 3
    wanted = {c.digest for c in ran.spec.cells if c.data == DATA}
    assert set(ran.runs()) == wanted
    assert all(result["status"] == "done" for result in [*ran.results("cosine"), *ran.results("cosine-paper")])


def test_parallel_runs_are_what_runs_alone_are(ran, place):
    for key, result in ran.runs().items():
        if result["status"] == "done" and result["cell"]["seed"] == 0:
            alone = json.loads(json.dumps(one_run.run(Cell(**result["cell"]), place)))
            for field in ("accuracy", "matrix", "curve", "known", "classes", "digests"):
                assert result[field] == alone[field], (key, field)


def test_a_learner_that_raises_fails_alone(ran):
    (raised,) = ran.results("Raises")
    assert (raised["status"], raised["error"]) == ("failed", "MemoryError: there is no room")
    assert (raised["private"], raised["note"]) == (False, one_run.NOT_PRIVATE)


def test_a_process_that_dies_fails_alone(ran):
    (dead,) = ran.results("Dies")
    assert dead["status"] == "failed"
    assert "killed" in dead["error"]


def test_failures_are_in_the_table_and_take_no_place_of_others(ran):
    (table,) = json.loads((ran.out / "tables" / "mine.json").read_text())
    shown = {row[1]: row for row in table["rows"]}
    assert table["columns"][-2:] == ["Base Dataset", "Release Labels"]
    assert shown[f"{OWN}:Raises"][2:] == [f"yours, {DATA}", "*failed*", ""]
    assert shown[f"{OWN}:Dies"][2:] == [f"yours, {DATA}", "*failed*", ""]
    (base,) = [row for row in table["rows"] if row[1:3] == ["Cosine Classifier", f"ours here, {DATA}"]]
    values = [100 * r["accuracy"] for r in ran.results("cosine") if r["cell"]["labels"] == "base"]
    assert base[3] == tables.spread(values, "median")
    markdown = (ran.out / "tables" / "mine.md").read_text()
    assert "| *failed* |" in markdown
    assert "\\begin{tabular}" in (ran.out / "tables" / "mine.tex").read_text()


def test_missing_data_is_said_once_and_the_table_says_not_run(ran):
    assert list(ran.outcome.missing) == ["clinc150"]
    assert sum("clinc150 needs clinc150_data_full.json" in text for text in ran.said) == 1
    (table,) = json.loads((ran.out / "tables" / "mine.json").read_text())
    (row,) = [row for row in table["rows"] if row[2] == "ours here, clinc150"]
    assert row[3].startswith("*not run here* (about ")


def test_every_run_is_said_with_what_is_left(ran):
    ended = [text for text in ran.said if " to go, about " in text]
    assert len(ended) == 11
    assert sum("failed: " in text for text in ended) == 3
    assert sum(" %; " in text for text in ended) == 8


def test_threads_are_fixed_in_workers_and_restored_here(ran):
    (result, *_) = ran.results("cosine")
    assert result["environment"]["threads"] == "3"
    assert (ran.variables["OMP_NUM_THREADS"], ran.variables["NUMBA_NUM_THREADS"]) == ("7", None)


def test_all_runs_are_one_parquet_file(ran):
    rows = {row["digest"]: row for row in pq.read_table(ran.out / "results.parquet").to_pylist()}
    assert set(rows) == set(ran.runs())
    for key, result in ran.runs().items():
        row = rows[key]
        assert {name: row[name] for name in result["cell"]} == result["cell"]
        assert (row["status"], row["accuracy"]) == (result["status"], result.get("accuracy"))
        assert (row["status"] == "done") == (row["spent_epsilon"] is not None and row["spent_epsilon"] <= 8)


def test_no_worker_is_left(ran):
    assert [child for child in multiprocessing.active_children() if child.is_alive()] == []


def test_the_second_time_only_failures_are_tried_again(ran, place, monkeypatch):
    before = files(ran.out)
    monkeypatch.setenv("RETICENT_TEST_REPAIRED", "1")
    few = experiments.narrowed(ran.spec, only=[DATA, "cosine", f"{OWN}:Repaired"])
    outcome = runner.run([few], data=place.data, out=ran.out, shown=[ran.spec], workers=1)
    assert (outcome.ran, outcome.failed) == (1, 0)
    after = files(ran.out)
    (repaired,) = ran.results("Repaired")
    assert repaired["status"] == "done"
    assert {name for name in before if before[name] != after[name]} == {f"{Cell(**repaired['cell']).digest}.json"}
    assert "*failed*" in (ran.out / "tables" / "mine.md").read_text()  # what was left out now is shown still


# --- kill -9

KILLED = f"""
title = "Killed"
tasks = 3
epsilon = 8
data = "{DATA}"
seeds = 2

[[grid]]
learner = "{OWN}:Mine"

[[grid]]   # here it is killed
learner = ["{OWN}:Sleeps", "cosine"]
"""


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def gone(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until(true: Any, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(true())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers in /proc")
def test_a_killed_runner_goes_on(place, tmp_path, monkeypatch):
    (tmp_path / "killed.toml").write_text(KILLED)
    out = tmp_path / "results"
    words = ["bench", tmp_path / "killed.toml", "--data", place.data, "--out", out, "--workers", "1"]
    command = [sys.executable, "-c", "from reticent.cli import main; main()", *map(str, words)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert until(lambda: len(list((out / "runs").glob("*.json"))) >= 2 or process.poll() is not None)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    before = files(out)
    assert len(before) == 2
    assert workers
    assert until(lambda: all(map(gone, workers)), 20), "a worker outlived its runner"
    (out / "runs" / "half.json.part").write_text('{"status": "do')  # as if killed while it wrote
    assert len(Folder(out).runs()) == len(before)
    monkeypatch.setenv("RETICENT_TEST_REPAIRED", "1")
    outcome = runner.run([experiments.spec(str(tmp_path / "killed.toml"))], data=place.data, out=out, workers=1)
    assert (outcome.ran, outcome.failed) == (4, 0)
    runs = Folder(out).runs()
    assert set(runs) == {c.digest for c in experiments.read("killed", KILLED).cells}
    assert {result["status"] for result in runs.values()} == {"done"}
    after = files(out)
    assert {name: after[name] for name in before} == before


def test_a_worker_killed_before_it_reads_its_cell_fails_alone(place, tmp_path):
    """The connection is then reset, not at its end."""
    spec = Spec(name="mine", title="Mine", cells=(cell(),))

    def kill() -> None:
        until(multiprocessing.active_children)
        (worker,) = multiprocessing.active_children()
        time.sleep(0.05)
        worker.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    outcome = runner.run([spec], data=place.data, out=tmp_path, workers=1)
    killer.join()
    assert (outcome.ran, outcome.failed) == (1, 1)
    (result,) = Folder(tmp_path).runs().values()
    assert "killed" in result["error"]


# --- the folder


def test_one_runner_at_a_time(tmp_path):
    with Folder(tmp_path / "results") as folder:
        with pytest.raises(errors.InvalidValue, match=r"Another runner is at work in .*choose another --out"):
            runner.run([], data=tmp_path, out=tmp_path / "results")
        assert folder.runs() == {}
    runner.run([], data=tmp_path, out=tmp_path / "results")


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({"format": one_run.FORMAT, "version": "0.0.9"}, "holds results of reticent 0.0.9"),
        ({"format": 99, "version": reticent.__version__}, "(format 99); this is"),
        ({}, "in another folder: reticent bench NAME --out DIR"),
        ([1], "cannot be read"),
    ],
)
def test_results_of_another_version_are_refused(tmp_path, made, sentence):
    (tmp_path / "bench.json").write_text(json.dumps(made))
    for use in (lambda: runner.run([], data=tmp_path, out=tmp_path), Folder(tmp_path).check):
        with pytest.raises(errors.InvalidValue) as refusal:
            use()
        assert sentence in str(refusal.value)
    (tmp_path / "bench.json").unlink()
    runner.run([], data=tmp_path, out=tmp_path)  # the lock was given back


def test_a_folder_without_results_says_how_to_make_some(tmp_path):
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
    folder.write("runs/a.json", json.dumps(one_run.failed(cell(), "no room")))
    with contextlib.suppress(UnicodeEncodeError):
        folder.write("runs/b.json", '{"status": "\udc00"}')  # fails midway
    assert folder.runs() == {"a": folder.read("runs/a.json")}
    assert folder.runs()["a"]["error"] == "no room"
    assert folder.read("nothing.json") is None


DAMAGED = [b'{"status": "done", "cell": {"da', b"", b"\0" * 100, b'{"status": "\xe9"}', b"[]", b"null"]


@pytest.mark.parametrize("content", DAMAGED, ids=["half", "empty", "zeros", "Latin-1", "list", "null"])
def test_a_damaged_file_is_as_if_it_were_not_there(tmp_path, content):
    with Folder(tmp_path) as folder:
        folder.write("runs/good.json", json.dumps(done(cell(), 0.5)))
        folder.write("tables/good.json", "[]")
        for name in ("runs/a.json", "tables/a.json", "drop.json", runner.STREAMS):
            folder.path.joinpath(name).write_bytes(content)
        assert list(folder.runs()) == ["good"]
        assert folder.read("drop.json") is folder.read(runner.STREAMS) is None
        assert folder.tables() == {"a": [] if content == b"[]" else None, "good": []}
    runner.run([experiments.spec("drop")], data=tmp_path, out=tmp_path)
    assert (folder.read("drop.json") or {}).keys() == {"delta", "curves"}
    assert folder.read(runner.STREAMS) == {}


@pytest.mark.parametrize(
    "changed",
    [{"accuracy": "0.5"}, {"accuracy": None}, {"curve": 0.5}, {"seconds": 3.0}, {"cell": []}, {"digests": None}],
)
def test_results_that_are_not_of_a_run_count_as_not_run(tmp_path, changed):
    folder = Folder(tmp_path)
    folder.write("runs/a.json", '{"accuracy": 1}')
    folder.write("runs/b.json", json.dumps({**done(cell(), 0.5), **changed}))
    folder.write("runs/c.json", json.dumps(done(cell(), 0.5)))
    assert list(folder.runs()) == ["c"]


def test_a_damaged_run_is_run_again(place, tmp_path):
    whole, broken = cell(seed=0), cell(seed=1)
    with Folder(tmp_path) as folder:
        folder.write(f"runs/{whole.digest}.json", json.dumps(done(whole, 0.5)))
        folder.write(f"runs/{broken.digest}.json", json.dumps(done(broken, 0.5))[:-20])
    before = files(tmp_path)
    spec = Spec(name="mine", title="Mine", cells=(whole, broken))
    assert runner.run([spec], data=place.data, out=tmp_path, workers=1).ran == 1
    after = files(tmp_path)
    assert after[f"{whole.digest}.json"] == before[f"{whole.digest}.json"]
    assert Folder(tmp_path).runs()[broken.digest]["status"] == "done"


def test_a_model_directory_takes_no_results(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(errors.InvalidValue, match=r"is a model directory\. Choose another --out"):
        runner.run([], data=tmp_path, out=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]


def test_where_all_data_is_missing_the_refusal_alone_says_so(tmp_path):
    said: list[str] = []
    spec = Spec(name="mine", title="Mine", cells=(cell(), cell(seed=1), cell(data="nothing"), cell(data="clinc150")))
    with pytest.raises(errors.InvalidValue) as refusal:
        runner.run([spec], data=tmp_path, out=tmp_path / "results", workers=1, say=said.append)
    for sentence in (f"{DATA} needs", "No data set is called nothing", "clinc150 needs"):
        assert str(refusal.value).count(sentence) == 1
    assert said == []
    assert not (tmp_path / "results" / "tables").exists()


@pytest.mark.parametrize("bad", [{"workers": 0}, {"threads": 0}, {"workers": 1.5}])
def test_bad_numbers_of_processes_are_refused(tmp_path, bad):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        runner.run([], data=tmp_path, out=tmp_path / "results", **bad)
    assert not (tmp_path / "results").exists()


def test_what_needs_no_data_runs_without_any(tmp_path):
    spec = Spec(name="mine", title="Mine", cells=(cell(), cell(data="clinc150"), cell(data="nothing")))
    said: list[str] = []
    specs = [spec, experiments.spec("drop")]
    outcome = runner.run(specs, data=tmp_path, out=tmp_path / "results", workers=1, say=said.append)
    assert list(outcome.missing) == [DATA, "clinc150", "nothing"]
    assert said[1:] == list(outcome.missing.values())  # each once, after the title of the other experiment
    assert outcome.missing["nothing"].startswith("No data set is called nothing. There are clinc150")
    assert Folder(tmp_path / "results").read("drop.json") is not None
    assert "*not run here*" in (tmp_path / "results" / "tables" / "mine.md").read_text()


def test_examples_of_blurry_classes_are_counted_for_the_first_seed(place, tmp_path):
    spec = experiments.read("mine", f'data = "{DATA}"\nlearner = "cosine"\ncolumns = "ratio"\nratio = 50\ntasks = 3')
    with Folder(tmp_path) as folder:  # as if all had run
        for wanted in spec.cells:
            folder.write(f"runs/{wanted.digest}.json", json.dumps(done(wanted, 0.5)))
    last_first = replace(spec, cells=spec.cells[::-1])
    outcome = runner.run([last_first], data=place.data, out=tmp_path)
    assert outcome.ran == 0
    first = one_run.examples_of_a_blurry_class(spec.cells[0], place.load(spec.cells[0]))
    assert Folder(tmp_path).read(runner.STREAMS) == {DATA: {"50": first}}
    assert "Examples of a blurry class" in (tmp_path / "tables" / "mine.md").read_text()
    (tmp_path / runner.STREAMS).unlink()
    runner.run([spec], data=tmp_path / "gone", out=tmp_path)  # all has run: data need not be there any more
    assert "50.0" in (tmp_path / "tables" / "mine.md").read_text()
    (damaged := write_features(tmp_path / "damaged") / "cifar100_efficientnet_lite0.npz").write_bytes(b"PK")
    runner.run([spec], data=damaged.parent, out=tmp_path)
    assert Folder(tmp_path).read(runner.STREAMS) == {}


# --- experiments that need no data


def test_dropped_labels_are_those_of_the_mechanisms(tmp_path):
    said: list[str] = []
    runner.run([experiments.spec("drop")], data=tmp_path, out=tmp_path, say=said.append)
    found = Folder(tmp_path).read("drop.json")
    assert found is not None
    curves = {
        (c["epsilon"], c["mechanism"]): dict(zip(c["sizes"], c["probability"], strict=True)) for c in found["curves"]
    }
    assert found["delta"] == 1e-7
    for (epsilon, mechanism), dropped in curves.items():
        chances = list(dropped.values())
        assert chances == sorted(chances, reverse=True)  # a larger class is dropped less often
        assert all(0 <= chance <= 1 for chance in chances)
        least = curves[epsilon, "any mechanism, at least"]
        assert all(dropped[n] >= least[n] - 1e-12 for n in dropped), mechanism
    assert curves[1.0, "the paper's, the whole budget"][1] == pytest.approx(1 - 1e-7)
    assert len(said) == 1
    runner.run([experiments.spec("drop")], data=tmp_path, out=tmp_path, say=said.append)
    assert len(said) == 1  # it is done


@pytest.mark.slow
def test_the_attack_is_won_against_classifiers_alone(tmp_path):
    runner.run([experiments.spec("attack")], data=tmp_path, out=tmp_path)
    found = Folder(tmp_path).read("attack.json")
    assert found is not None
    assert {point["broken"] for point in found["points"] if not point["remedy"]} == {True}
    assert {point["broken"] for point in found["points"] if point["remedy"]} == {False}
    assert "leaks" in (tmp_path / "tables" / "attack.md").read_text()
