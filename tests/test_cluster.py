"""A Ray cluster on this machine: the same results to the bit, whatever dies; nothing is said, and nothing stays.

All of it is in one file, so that one cluster is started.
"""

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.cli import main
from reticent.cli.inputs import cluster_of
from reticent.directory import Directory
from reticent.gate.noise import NoiseSource
from reticent.lab.bench import runner
from reticent.lab.bench.folder import Folder
from reticent.lab.bench.processes import Processes
from reticent.lab.bench.specs import Spec
from reticent.program import learn
from reticent.readers import Columns
from reticent.readers.by_ending import open_source
from reticent.sensitive.engines import Ray, machines
from reticent.sensitive.learners import Cosine
from reticent.sensitive.task import Task
from tests.lab.tiny import a_run, write_features

pytestmark = [
    pytest.mark.posix,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="reticent[ray]"),  # the engine imports it first
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Ray]:
    """Three workers of a cluster of its own."""
    engine = Ray(workers=3)
    engine.ready()
    yield engine
    import ray

    ray.shutdown()


def in_store() -> tuple[int, int]:
    """Returns how many objects the cluster's shared memory holds, and how many were written to disk."""
    from ray._private.internal_api import memory_summary

    said = memory_summary(stats_only=True)
    held = re.search(r"(\d+) objects", said)
    assert held is not None, said
    return int(held[1]), int("Spilled" in said)


def until(true: Any, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(true())


@dataclass(frozen=True)
class Sums:
    """Adds up the rows of a part, and says who did."""

    slowly: float = 0.0

    def __call__(self, part: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
        time.sleep(self.slowly)
        return part.sum(axis=0), os.getpid()


@dataclass(frozen=True)
class Dies:
    """Is killed while it works on some part: the first time, or always."""

    folder: Path
    always: bool = False

    def __call__(self, part: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
        died = self.folder / "died"
        if part[0, 0] == 3 and (self.always or not died.exists()):
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return part.sum(axis=0), os.getpid()


@dataclass(frozen=True)
class Fails:
    """Says a secret in every way."""

    error: type[Exception] = ValueError

    def __call__(self, part: object) -> object:
        import logging
        import warnings

        print("SECRET of a row")
        print("SECRET of a row", file=sys.stderr)
        logging.getLogger("worker").error("SECRET of a row")
        warnings.warn("SECRET of a row", stacklevel=1)
        raise self.error("SECRET of a row")


def parts(n: int = 6) -> list[np.ndarray[Any, Any]]:
    return [np.full((50, 1000), i, dtype=np.int64) for i in range(n)]


def total(engine: Ray, work: Any, given: Any) -> list[int]:
    return sum(result for result, _ in engine.map(work, given)).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_adds_up_alike(cluster, workers):
    found = list(replace(cluster, workers=workers).map(Sums(slowly=0.2), parts()))
    assert sum(result for result, _ in found).tolist() == np.concatenate(parts()).sum(axis=0).tolist()
    assert len({worker for _, worker in found}) <= workers or workers == 1


def test_parts_are_taken_as_workers_become_free(cluster):
    taken: list[int] = []

    def given() -> Iterator[np.ndarray[Any, Any]]:
        for i, part in enumerate(parts()):
            taken.append(i)
            yield part

    results = replace(cluster, workers=2).map(Sums(), given())
    next(results)
    assert taken == [0, 1]
    results.close()  # the others are cancelled
    assert until(lambda: in_store() == (0, 0))


def test_a_killed_worker_changes_nothing(cluster, tmp_path, capfd):
    assert total(cluster, Dies(tmp_path), parts()) == np.concatenate(parts()).sum(axis=0).tolist()
    assert (tmp_path / "died").exists()
    assert capfd.readouterr() == ("", "")  # that a worker died could tell about its rows
    assert until(lambda: in_store() == (0, 0))


def test_a_part_that_kills_every_worker_ends_in_the_fixed_sentence(cluster, tmp_path):
    with pytest.raises(errors.LearningFailed) as caught:
        total(cluster, Dies(tmp_path, always=True), parts())
    assert caught.value.__cause__ is None
    assert until(lambda: in_store() == (0, 0))


def test_public_parts_may_be_lost(cluster, tmp_path):
    found = list(cluster.map(Dies(tmp_path, always=True), parts(), lost=lambda part: (part[0, 0], "lost")))
    assert [int(result) for result, who in found if who == "lost"] == [3]
    assert len(found) == 6


@pytest.mark.parametrize("error", [ValueError, MemoryError])
def test_workers_say_nothing(cluster, capfd, caplog, error):
    with pytest.raises(errors.LearningFailed) as caught:
        list(cluster.map(Fails(error), parts()))
    assert str(caught.value) == str(errors.LearningFailed())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "SECRET" not in "".join(capfd.readouterr()) + caplog.text
    import ray

    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    files = [file for file in logs.rglob("*") if file.is_file()]
    assert any(file.name.startswith("worker-") for file in files)
    assert [file.name for file in files if b"SECRET" in file.read_bytes()] == []


def test_nothing_stays_on_a_cluster(cluster):
    assert len(list(cluster.map(Sums(), parts()))) == 6
    assert until(lambda: in_store() == (0, 0))


def test_other_machines_are_refused_before_a_spend(cluster, monkeypatch):
    here = machines.machine_here()
    other = here._replace(versions=tuple((n, "0.0.1" if n == "reticent" else v) for n, v in here.versions))
    monkeypatch.setattr(machines, "_machine", lambda: other)  # here, and not in the workers
    with pytest.raises(errors.ReticentError, match=r"Expected reticent 0\.0\.1 .* Nothing was spent"):
        cluster.ready()


def test_files_must_be_on_every_machine(cluster, tmp_path):
    (tmp_path / "march.csv").write_text("a,b\n")
    assert cluster.ready([tmp_path / "march.csv", tmp_path]) == 3


# --- learning


def as_numbers(text: object) -> np.ndarray[Any, Any]:
    """An encoder of the user's own: a few numbers that a text has."""
    codes = [ord(letter) for letter in str(text)]
    return np.array([len(codes), sum(codes), sum(codes[::2]) + 1], dtype=np.float32)


@dataclass(frozen=True)
class KillsOnce:
    """An encoder whose process is killed at one text, the first time."""

    folder: Path

    def __call__(self, texts: Any) -> np.ndarray[Any, Any]:
        died = self.folder / "died"
        if "kill" in list(texts) and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return np.stack([as_numbers(text) for text in texts])


POLICIES: dict[str, Any] = {"public": rt.PublicLabels(["odd", "even"]), "released": rt.ReleasedLabels()}
LABELS = ["odd" if i % 2 else "even" if i % 3 else "rare" for i in range(600)]
FEATURES = np.random.default_rng(1).normal(size=(600, 5)).astype(np.float32)
TEXTS = [f"note {i * i} of {label}" for i, label in enumerate(LABELS[:-1])] + ["kill"]
PERSONS = [f"p{i // 3}" for i in range(600)]


def released(task: Task, policy: Any, encoder: Any = None, *, seeded: bool = True) -> dict[str, Any]:
    """What a task releases."""
    directory = Directory.create(None, policy, Cosine().rule, rt.Budget(epsilon=8.0, delta=1e-5))
    noise = NoiseSource.seeded(7) if seeded else NoiseSource.from_os()
    learn([task], Cosine(), policy, directory, encoder=encoder, noise=noise)
    release = directory.model.releases[-1]
    return {"labels": release.labels.labels, **{name: a.tolist() for name, a in release.parameters.items()}}


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small task has several."""
    monkeypatch.setattr("reticent.sensitive.task_streams._BYTES", 20 * 100)
    monkeypatch.setattr("reticent.sensitive.task_streams._ROWS", 100)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("persons", [None, PERSONS], ids=["rows", "persons"])
def test_releases_are_the_same_on_a_cluster(cluster, small_batches, policy, persons):
    here = released(Task(FEATURES, LABELS, persons), POLICIES[policy])
    for workers in (1, 2, 3):
        there = Task(FEATURES, LABELS, persons, engine=replace(cluster, workers=workers))
        assert released(there, POLICIES[policy]) == here
    assert until(lambda: in_store() == (0, 0))


def test_a_worker_killed_while_it_encodes_changes_nothing(cluster, small_batches, tmp_path):
    (tmp_path / "died").touch()
    here = released(Task(TEXTS, LABELS), POLICIES["released"], KillsOnce(tmp_path))
    (tmp_path / "died").unlink()
    assert released(Task(TEXTS, LABELS, engine=cluster), POLICIES["released"], KillsOnce(tmp_path)) == here
    assert (tmp_path / "died").exists()


class Unreadable:
    """An encoder that no other process can read."""

    width = 3

    def __call__(self, texts: Any) -> Any:
        return np.stack([as_numbers(text) for text in texts])

    def __getstate__(self) -> dict[str, int]:
        return {"any": 1}

    def __setstate__(self, state: object) -> None:
        raise ValueError("SECRET of a row")


def test_what_fails_on_a_cluster_is_spent_and_not_published(cluster, capfd):
    directory = Directory.create(None, POLICIES["public"], Cosine().rule, rt.Budget(epsilon=8.0, delta=1e-5))
    task = Task(TEXTS, LABELS, name="march", engine=cluster)
    with pytest.raises(errors.LearningFailed):
        learn([task], Cosine(), POLICIES["public"], directory, encoder=Unreadable())
    assert directory.model.releases == ()
    assert [spend.task for spend in directory.statement().spends] == ["march"]
    assert "SECRET" not in "".join(capfd.readouterr())


def test_clusters_are_asked_before_the_spend(monkeypatch):
    """Whatever an engine refuses, nothing is spent on it."""

    def refuse(self: Ray, files: object = ()) -> int:
        raise errors.ReticentError("Expected Ray 1 on every machine.")

    monkeypatch.setattr(Ray, "ready", refuse)
    directory = Directory.create(None, POLICIES["public"], Cosine().rule, rt.Budget(epsilon=8.0, delta=1e-5))
    with pytest.raises(errors.ReticentError, match="Expected Ray 1"):
        learn([Task(FEATURES, LABELS, engine=Ray())], Cosine(), POLICIES["public"], directory)
    assert directory.statement().spends == ()


def shards(folder: Path) -> Path:
    """Three Parquet files with features, labels and persons."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir()
    for i, part in enumerate(np.array_split(np.arange(600), 3)):
        columns: dict[str, Any] = {f"x{j}": FEATURES[part, j] for j in range(5)}
        columns |= {"code": [LABELS[row] for row in part], "patient": [PERSONS[row] for row in part]}
        parquet.write_table(pa.table(columns), folder / f"{i}.parquet")
    return folder


def opened(folder: Path, *, person: str | None) -> Any:
    return open_source(folder, Columns(features=[f"x{j}" for j in range(5)], label="code", person=person))


@pytest.mark.parametrize("person", [None, "patient"])
def test_workers_read_the_shards_of_a_folder(cluster, tmp_path, person):
    folder = shards(tmp_path / "march")
    whole = Task(FEATURES, LABELS, None if person is None else PERSONS)
    for engine in (None, cluster):
        task = Task.streamed(opened(folder, person=person), engine=engine)
        assert released(task, POLICIES["released"]) == released(whole, POLICIES["released"])


def test_a_shard_that_cannot_be_read_is_not_published(cluster, tmp_path):
    folder = shards(tmp_path / "march")
    source = opened(folder, person=None)
    broken = bytearray((folder / "1.parquet").read_bytes())
    broken[4:200] = b"\xff" * 196  # its footer is whole: what is in it shows when it is read
    (folder / "1.parquet").write_bytes(broken)
    directory = Directory.create(None, POLICIES["public"], Cosine().rule, rt.Budget(epsilon=8.0, delta=1e-5))
    with pytest.raises(errors.LearningFailed):
        learn([Task.streamed(source, engine=cluster)], Cosine(), POLICIES["public"], directory)
    assert directory.model.releases == ()
    (folder / "1.parquet").write_bytes(b"")
    with pytest.raises(errors.ReticentError, match=r"1\.parquet"):
        opened(folder, person=None)


def test_the_command_line_learns_on_a_cluster(cluster, tmp_path, monkeypatch, capsys):
    """In this process, so that the cluster is the one that runs."""
    monkeypatch.chdir(tmp_path)
    shards(tmp_path / "march")

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["reticent", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        assert not stop.value.code, said
        return str(said.out)

    person = ["--tasks-per-person", "1", "--each-row-is-a-person"]
    run("init", "model", "--epsilon", "8", "--delta", "1e-5", *person, "--encoder", "none")
    columns = ["--features", "x0,x1,x2,x3,x4", "--label", "code", "--each-row-is-a-person"]
    said = run("learn", "march", "--model", "model", *columns, "--engine", "ray", "--address", "auto")
    assert "Learned march. 3 label(s) known." in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "dask"], "Expected --engine ray, or no --engine"),
        (["--address", "auto"], "Expected --engine ray with --address"),
    ],
)
def test_other_engines_are_refused_on_the_command_line(words, said):
    given = dict(zip(words[::2], words[1::2], strict=True))
    with pytest.raises(errors.InvalidValue, match=said):
        cluster_of(given.get("--engine"), given.get("--address"))


# --- benchmarks


def test_a_cluster_makes_the_runs_of_a_benchmark(cluster, tmp_path):
    data = write_features(tmp_path / "data")
    spec = Spec(name="mine", title="Mine", runs=(a_run(), a_run(seed=1), a_run(data="nothing")))
    said: list[str] = []
    outcomes = {
        name: runner.run([spec], data=data, out=tmp_path / name, engine=engine, say=said.append)
        for name, engine in {"cluster": cluster, "processes": Processes(workers=1)}.items()
    }
    assert {(outcome.ran, outcome.failed, *outcome.missing) for outcome in outcomes.values()} == {(2, 0, "nothing")}
    found = [Folder(tmp_path / name).results() for name in outcomes]
    for field in ("accuracy", "matrix", "known", "digests", "status"):
        assert [result[field] for result in found[0].values()] == [result[field] for result in found[1].values()]


def test_trials_are_spread_over_a_cluster(cluster):
    """What is chosen depends on how many are asked for at once, and not on who tries them."""
    pytest.importorskip("optuna")
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 4)), [f"label {i % 2}" for i in range(60)]
    x[::2] += 2
    learner, budget = rt.PeftEnsemble(epochs=2), rt.Budget(epsilon=8.0, delta=1e-5)
    asked: dict[str, Any] = {"budget": budget, "trials": 5, "at_once": 3}
    here = rt.tune(learner, x, y, **asked)
    assert rt.tune(learner, x, y, engine=cluster, **asked) == here
    assert rt.tune(learner, x, y, engine=replace(cluster, workers=2), **asked) == here


# --- no cluster


@pytest.fixture
def alone(tmp_path: Path) -> Any:
    """Runs a statement in a process that has no cluster, and returns how it was refused."""

    def refused(statement: str) -> str:
        code = f"import reticent as rt\nfrom reticent.sensitive.engines import Ray\ntry:\n    {statement}\n"
        code += "except rt.ReticentError as error:\n    print(error)\n"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
        return done.stdout.strip()

    return refused


def test_unreachable_clusters_are_refused(alone):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        port = taken.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            said = alone(f"Ray(address={address!r}).ready()")
            assert said.startswith(f"Nobody answers at {address}"), said
            assert "\n" not in said
            assert "Nothing was spent" in said


def test_no_cluster_on_this_machine_is_one_sentence(alone):
    finds_none = "import ray; ray.init = lambda **_: (_ for _ in ()).throw(ConnectionError('as Ray says it'))"
    said = alone(f"{finds_none}; Ray(address='auto').ready()")
    assert said.startswith("No Ray cluster runs on this machine. Nothing was spent.")


@pytest.mark.parametrize("address", ["nonsense", "http://127.0.0.1:80", "ray://"])
def test_addresses_are_checked(alone, address):
    assert alone(f"Ray(address={address!r}).ready()").startswith("Expected address to be None")


def test_ray_is_named_where_it_is_not_installed(alone):
    said = alone("import sys; sys.modules['ray'] = None; Ray().ready()")
    assert said == "The engine Ray needs ray: pip install 'reticent[ray]'."


def test_bad_numbers_of_workers_are_refused():
    with pytest.raises(errors.InvalidValue, match="Expected workers >= 1"):
        Ray(workers=0)
    with pytest.raises(errors.InvalidValue, match="Expected address"):
        Ray(address=7)  # type: ignore[arg-type]
