"""The runner: parallel, resumable, and a run that fails stops no other."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from reticent import errors
from reticent.lab.bench import one_run, processes, run_rows, runner, specs, steps
from reticent.lab.bench.folder import Folder
from reticent.lab.bench.processes import Processes
from reticent.lab.bench.run import Run
from reticent.lab.bench.runner import Outcome
from reticent.lab.bench.specs import Spec
from reticent.lab.bench.spread import FILE as STREAMS
from reticent.lab.bench.versions import VERSIONS
from reticent.lab.bench.workspace import Workspace
from reticent.report import seeds
from tests.lab.tiny import DATA, a_run, done, write_features

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
data = ["clinc150", "TICKETS"]  # one file is not there, the other lacks its columns
learner = "cosine"
seeds = 2
text = "words"
label = "queue"

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

    def results(self) -> dict[str, Any]:
        return Folder(self.out).results()

    def by(self, learner: str) -> list[dict[str, Any]]:
        return [result for result in self.results().values() if result["run"]["learner"].endswith(learner)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    return Workspace(write_features(folder / "data"), folder / "alone")


@pytest.fixture(scope="module")
def ran(place, tmp_path_factory):
    out = tmp_path_factory.mktemp("ran") / "results"
    said: list[str] = []
    tickets = out.parent / "tickets.csv"
    tickets.write_text("text,label\nmy bank account,money\n")
    spec = specs.read("mine", SPEC.replace("TICKETS", str(tickets)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "7")
        patch.delenv("NUMBA_NUM_THREADS", raising=False)
        outcome = runner.run([spec], data=place.data, out=out, engine=Processes(workers=2, threads=3), say=said.append)
        variables = {name: os.environ.get(name) for name in processes.THREADS}
    return Ran(spec, out, outcome, said, variables)


def files(out: Path) -> dict[str, tuple[int, bytes]]:
    return {f.name: (f.stat().st_mtime_ns, f.read_bytes()) for f in (out / "runs").iterdir()}


# --- one call


def test_every_run_with_data_has_a_result(ran):
    assert ran.outcome.ran == 8 + 3
    assert ran.outcome.failed == 3
    wanted = {c.digest for c in ran.spec.runs if c.data == DATA}
    assert set(ran.results()) == wanted
    assert all(result["status"] == "done" for result in [*ran.by("cosine"), *ran.by("cosine-paper")])


def test_parallel_runs_equal_runs_alone(ran, place):
    for key, result in ran.results().items():
        if result["status"] == "done" and result["run"]["seed"] == 0:
            alone = json.loads(json.dumps(one_run.result_of(Run(**result["run"]), place)))
            stored = json.loads((ran.out / "runs" / f"{key}.json").read_text())  # all digits
            for field in ("accuracy", "matrix", "curve", "known", "classes", "digests"):
                assert stored[field] == alone[field], (key, field)


def test_a_learner_that_raises_fails_only_its_run(ran):
    (raised,) = ran.by("Raises")
    assert (raised["status"], raised["error"]) == ("failed", "MemoryError: there is no room")
    assert (raised["private"], raised["note"]) == (False, one_run.NOT_PRIVATE)


def test_a_process_that_dies_fails_only_its_run(ran):
    (dead,) = ran.by("Dies")
    assert dead["status"] == "failed"
    assert "killed" in dead["error"]


def test_tables_show_failures_beside_the_other_runs(ran):
    (table,) = json.loads((ran.out / "tables" / "mine.json").read_text())
    shown = {row[1]: row for row in table["rows"]}
    assert table["columns"][-2:] == ["Base Dataset", "Release Labels"]
    assert shown[f"{OWN}:Raises"][2:] == [f"yours, {DATA}, 1 seed", "*failed*", ""]
    assert shown[f"{OWN}:Dies"][2:] == [f"yours, {DATA}, 1 seed", "*failed*", ""]
    cosine = [row for row in table["rows"] if row[1] == "Cosine Classifier"]
    (base,) = [row for row in cosine if row[2].startswith(f"ours here, {DATA}")]
    values = [100 * r["accuracy"] for r in ran.by("cosine") if r["run"]["labels"] == "base"]
    assert base[3] == seeds.spread(values, "median").text
    markdown = (ran.out / "tables" / "mine.md").read_text()
    assert "| *failed* |" in markdown
    assert "\\begin{tabular}" in (ran.out / "tables" / "mine.tex").read_text()


def test_missing_data_is_reported_once_and_shown_as_not_run(ran):
    assert list(ran.outcome.missing) == ["clinc150", str(ran.out.parent / "tickets.csv")]
    for sentence in ("clinc150 needs clinc150_data_full.json", "to name columns of tickets.csv"):
        assert sum(sentence in text for text in ran.said) == 1
    (table,) = json.loads((ran.out / "tables" / "mine.json").read_text())
    (row,) = [row for row in table["rows"] if row[2].startswith("ours here, clinc150")]
    assert row[3].startswith("*not run here* (about ")


def test_every_run_is_reported_with_the_time_left(ran):
    ended = [text for text in ran.said if " to go, about " in text]
    assert len(ended) == 11
    assert sum("failed: " in text for text in ended) == 3
    assert sum(" %; " in text for text in ended) == 8


def test_thread_variables_are_set_for_workers_alone(ran):
    (result, *_) = ran.by("cosine")
    assert result["environment"]["threads"] == "3"
    assert (ran.variables["OMP_NUM_THREADS"], ran.variables["NUMBA_NUM_THREADS"]) == ("7", None)


def test_parquet_holds_all_runs(ran):
    stored = {row["digest"]: row for row in pq.read_table(ran.out / "runs.parquet").to_pylist()}
    results = {key: result for key, result in ran.results().items() if result["status"] == "done"}
    assert set(stored) == set(results)
    for key, result in results.items():
        row = stored[key]
        assert {name: row[name] for name in result["run"]} == result["run"]
        assert row["accuracy"] == pytest.approx(result["accuracy"], abs=1e-6)
        assert (row["version"], row["command"]) == (result["version"], "reticent bench mine")
        assert row["spent_epsilon"] <= 8


def test_a_benchmark_resumes_from_stored_rows_of_the_same_version(ran, place, tmp_path, monkeypatch):
    stored = run_rows.read(ran.out / run_rows.RUNS)
    assert len(stored) == 8
    spec = replace(ran.spec, runs=tuple(run for run in ran.spec.runs if run.learner in ("cosine", "cosine-paper")))
    said: list[str] = []
    outcome = runner.run([spec], data=place.data, out=tmp_path / "new", stored=stored, say=said.append)
    assert outcome.ran == 0
    assert "8 run(s) are taken from stored rows" in said[0]
    again = Folder(tmp_path / "new").results()
    assert {key: result["run"] for key, result in again.items()} == {k: r["run"] for k, r in stored.items()}
    monkeypatch.setitem(VERSIONS, "cosine", 2)  # its rows are no results of the next version
    assert {result["run"]["learner"] for result in run_rows.read(ran.out / run_rows.RUNS).values()} == {"cosine-paper"}


def test_no_run_begins_after_its_time(ran, place, tmp_path):
    spec = replace(ran.spec, runs=ran.spec.runs[:8])
    said: list[str] = []
    outcome = runner.run([spec], data=place.data, out=tmp_path, minutes=1e-9, say=said.append)
    assert (outcome.ran, said) == (0, ["Time is up: 8 run(s) are left. The same command goes on with them."])
    outcome = runner.run([spec], data=place.data, out=tmp_path, minutes=60)
    assert outcome.ran == 8


def test_nothing_begins_in_no_time(ran, place, tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "expected", None)  # nor is a step measured
    specs_of = [replace(ran.spec, runs=ran.spec.runs[:8]), specs.spec("drop")]
    said: list[str] = []
    assert runner.run(specs_of, data=tmp_path / "gone", out=tmp_path, minutes=0, say=said.append).ran == 0
    assert said == ["Time is up: 8 run(s) are left. The same command goes on with them."]
    assert "*not run here*" in (tmp_path / "tables" / "drop.md").read_text()


def test_cheap_runs_come_first(place, tmp_path, monkeypatch):
    seen: list[str] = []

    def none_made(self: Processes, task: object, parts: Iterable[Run], *, lost: object) -> list[Any]:
        seen.extend(run.learner for run in parts)
        return []

    monkeypatch.setattr(Processes, "map", none_made)
    spec = specs.read("mine", f'data = "{DATA}"\nlearner = ["peft-paper", "peft", "cosine"]\nseeds = 1')
    runner.run([spec], data=place.data, out=tmp_path)
    assert seen == ["cosine", "peft", "peft-paper"]


def test_no_worker_outlives_its_runner(ran):
    assert [child for child in multiprocessing.active_children() if child.is_alive()] == []


def test_only_failed_and_damaged_runs_are_made_again(ran, place, monkeypatch):
    """Changes the shared folder, so it comes after the tests that read it."""
    broken = next(run for run in ran.spec.runs if (run.learner, run.labels, run.seed) == ("cosine", "base", 1))
    file = ran.out / "runs" / f"{broken.digest}.json"
    whole = json.loads(file.read_text())
    file.write_bytes(file.read_bytes()[:-20])
    before = files(ran.out)
    monkeypatch.setenv("RETICENT_TEST_REPAIRED", "1")
    few = specs.narrowed(ran.spec, only=[DATA, "cosine", f"{OWN}:Repaired"])
    outcome = runner.run([few], data=place.data, out=ran.out, shown=[ran.spec], engine=Processes(workers=1))
    assert (outcome.ran, outcome.failed) == (2, 0)
    after = files(ran.out)
    (repaired,) = ran.by("Repaired")
    assert repaired["status"] == "done"
    assert {name for name in before if before[name] != after[name]} == {
        file.name,
        f"{Run(**repaired['run']).digest}.json",
    }
    assert json.loads(file.read_text())["matrix"] == whole["matrix"]
    assert "*failed*" in (ran.out / "tables" / "mine.md").read_text()  # runs that were left out now are still shown


# --- kill -9

KILLED = f"""
title = "Killed"
tasks = 3
epsilon = 8
data = "{DATA}"
seeds = 2

[[grid]]
learner = "{OWN}:Mine"

[[grid]]   # it is killed before all of these are done
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


@pytest.mark.posix
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers in /proc")
def test_a_killed_benchmark_resumes(place, tmp_path, monkeypatch):
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
    before, wanted = files(out), specs.read("killed", KILLED).runs
    assert 2 <= len(before) < len(wanted)
    assert workers
    assert until(lambda: all(map(gone, workers)), 20), "a worker outlived its runner"
    (out / "runs" / "half.json.part").write_text('{"status": "do')  # as if killed while it wrote
    assert len(Folder(out).results()) == len(before)
    monkeypatch.setenv("RETICENT_TEST_REPAIRED", "1")
    outcome = runner.run(
        [specs.spec(str(tmp_path / "killed.toml"))], data=place.data, out=out, engine=Processes(workers=1)
    )
    assert (outcome.ran, outcome.failed) == (len(wanted) - len(before), 0)
    runs = Folder(out).results()
    assert set(runs) == {run.digest for run in wanted}
    assert {result["status"] for result in runs.values()} == {"done"}
    after = files(out)
    assert {name: after[name] for name in before} == before


def test_a_worker_killed_before_it_reads_its_run_fails_only_that_run(place, tmp_path):
    """The connection is then reset, not at its end."""
    spec = Spec(name="mine", title="Mine", runs=(a_run(),))

    def kill() -> None:
        until(multiprocessing.active_children)
        (worker,) = multiprocessing.active_children()
        time.sleep(0.05)
        worker.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    outcome = runner.run([spec], data=place.data, out=tmp_path, engine=Processes(workers=1))
    killer.join()
    assert (outcome.ran, outcome.failed) == (1, 1)
    (result,) = Folder(tmp_path).results().values()
    assert "killed" in result["error"]


# --- data


def test_missing_data_is_refused_where_nothing_else_can_run(tmp_path):
    said: list[str] = []
    spec = Spec(name="mine", title="Mine", runs=(a_run(), a_run(seed=1), a_run(data="nothing"), a_run(data="clinc150")))
    with pytest.raises(errors.InvalidValue) as refusal:
        runner.run([spec], data=tmp_path, out=tmp_path / "results", engine=Processes(workers=1), say=said.append)
    for sentence in (f"{DATA} needs", "No data set is called nothing", "clinc150 needs"):
        assert str(refusal.value).count(sentence) == 1
    assert said == []
    assert not (tmp_path / "results" / "tables").exists()


@pytest.mark.parametrize("bad", [{"workers": 0}, {"threads": 0}, {"workers": 1.5}])
def test_bad_numbers_of_processes_are_refused(bad):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        Processes(**{"workers": 1} | bad)


def test_experiments_without_data_run_where_all_data_is_missing(tmp_path):
    spec = Spec(name="mine", title="Mine", runs=(a_run(), a_run(data="clinc150"), a_run(data="nothing")))
    said: list[str] = []
    both = [spec, specs.spec("drop")]
    outcome = runner.run(both, data=tmp_path, out=tmp_path / "results", engine=Processes(workers=1), say=said.append)
    assert list(outcome.missing) == ["clinc150", "nothing", DATA]
    assert said[1:] == list(outcome.missing.values())  # each once, after the title of the other experiment
    assert outcome.missing["nothing"].startswith("No data set is called nothing. There are clinc150")
    assert Folder(tmp_path / "results").read("drop.json") is not None
    assert "*not run here*" in (tmp_path / "results" / "tables" / "mine.md").read_text()


def test_examples_of_blurry_classes_are_counted_for_the_first_seed(place, tmp_path):
    spec = specs.read("mine", f'data = "{DATA}"\nlearner = "cosine"\ncolumns = "ratio"\nratio = 50\ntasks = 3')
    with Folder(tmp_path) as folder:  # as if all had run
        for wanted in spec.runs:
            folder.write(f"runs/{wanted.digest}.json", json.dumps(done(wanted, 0.5)))
    last_first = replace(spec, runs=spec.runs[::-1])
    outcome = runner.run([last_first], data=place.data, out=tmp_path)
    assert outcome.ran == 0
    first = one_run.examples_of_a_blurry_class(spec.runs[0], place.load(spec.runs[0]))
    found = Folder(tmp_path).beside(STREAMS) or {}
    assert (found["data"], found["command"]) == ({DATA: {"50": first}}, "reticent bench mine")
    assert "Examples of a blurry class" in (tmp_path / "tables" / "mine.md").read_text()
    (tmp_path / STREAMS).unlink()
    runner.run([spec], data=tmp_path / "gone", out=tmp_path)  # all has run: data need not be there any more
    assert "50.0" in (tmp_path / "tables" / "mine.md").read_text()
    runner.run([], data=place.data, out=tmp_path, shown=[spec])  # tables alone
    assert (Folder(tmp_path).beside(STREAMS) or {})["data"] == {DATA: {"50": first}}
    assert "Examples of a blurry class" in (tmp_path / "tables" / "mine.md").read_text()
    unordered = {"other": {"100": [1.0], "25": [2.0]}, DATA: {"50": first}}
    (tmp_path / STREAMS).write_text(json.dumps({**found, "data": unordered}))
    runner.run([], data=place.data, out=tmp_path, shown=[spec])
    again = (Folder(tmp_path).beside(STREAMS) or {})["data"]
    assert (list(again), list(again["other"])) == ([DATA, "other"], ["25", "100"])  # in one order
    (tmp_path / STREAMS).unlink()
    (damaged := write_features(tmp_path / "damaged") / "cifar100_efficientnet_lite0.npz").write_bytes(b"PK")
    runner.run([spec], data=damaged.parent, out=tmp_path)
    assert (Folder(tmp_path).beside(STREAMS) or {})["data"] == {}
