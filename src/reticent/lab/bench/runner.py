"""The runner: every cell of some specs, in parallel, into a results folder that a killed run goes on with.

Runs are seeded and NOT PRIVATE. A cell is run once, however many specs ask for it; one that fails does not stop the
others, and is tried again the next time.
"""

import contextlib
import fcntl
import json
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType, UnionType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import reticent
from reticent import errors
from reticent.budget import Budget
from reticent.lab.attack import label_attack
from reticent.lab.bench import one_run, tables
from reticent.lab.bench.estimates import Estimates, duration
from reticent.lab.bench.experiments import Cell, Spec
from reticent.lab.bench.typeset import latex, markdown
from reticent.lab.bench.workspace import Workspace, read, write
from reticent.lab.data.datasets import MissingData
from reticent.privacy import events, planning, selection
from reticent.privacy.confidence import accuracy_bound
from reticent.released import store

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
DROP_DELTA = 1e-7  # of the paper's second figure
DROP_EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
_DROP_SIZES = (1, 2, 3, 5, 7, 10, 13, 15, 20, 25, 30, 40, 50, 70, 100, 150, 200, 300, 500)
STREAMS = "streams.json"
_PATIENCE = 5.0  # seconds a worker gets to end by itself

_FAILED: dict[str, type | UnionType] = {"cell": dict, "status": str, "environment": dict}
_DONE: dict[str, type | UnionType] = {
    **_FAILED,
    "accuracy": float,
    "forgetting": float | None,
    "curve": list,
    "rules": dict,
    "known": int,
    "seconds": dict,
    "spent": dict,
    "digests": dict,
}

Run = Mapping[str, Any]
Say = Callable[[str], object]


# --- the results folder


class Folder:
    """A results folder: one JSON file per run, tables made of them, and a lock for one runner at a time.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name, Folder(Path(name) / "results") as folder:
        ...     len(folder.runs())
        0
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> "Folder":
        """Takes the folder for one runner; refuses one that another holds, another version wrote, or a model is in."""
        if (self.path / store.MANIFEST).exists():
            raise errors.InvalidValue(f"{self.path} is a model directory. Choose another --out.")
        try:
            (self.path / "runs").mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / "lock").open("w")
        except OSError as error:
            raise errors.InvalidValue(f"Cannot write results to {self.path}: {error.strerror}.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not (self.path / "bench.json").exists():
                self.write("bench.json", json.dumps({"format": one_run.FORMAT, "version": reticent.__version__}))
            self.check()
        except BlockingIOError as error:
            self._lock.close()
            raise errors.InvalidValue(
                f"Another runner is at work in {self.path}. Wait for it, or choose another --out."
            ) from error
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lock.close()

    def check(self) -> None:
        """Refuses a folder that holds no results, or those of another version: numbers must be comparable."""
        file = self.path / "bench.json"
        if not file.exists():
            raise errors.InvalidValue(f"{self.path} holds no results. Run: reticent bench NAME --out {self.path}")
        made, elsewhere = read(file), "Make new ones in another folder: reticent bench NAME --out DIR"
        if not isinstance(made, dict):
            raise errors.InvalidValue(f"{file} cannot be read, so nobody knows whose results these are. {elsewhere}")
        if made != {"format": one_run.FORMAT, "version": reticent.__version__}:
            raise errors.InvalidValue(
                f"{self.path} holds results of reticent {made.get('version')} (format {made.get('format')}); this is "
                f"{reticent.__version__} (format {one_run.FORMAT}). {elsewhere}"
            )

    def write(self, name: str, text: str) -> None:
        """Writes a file whole or not at all."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, text)

    def read(self, name: str) -> dict[str, Any] | None:
        """Returns what a JSON file of the folder holds; None where it is not there, or damaged: it is made again."""
        found = read(self.path / name)
        return found if isinstance(found, dict) else None

    def runs(self) -> dict[str, dict[str, Any]]:
        """Returns all results by the digests of their cells; one that is damaged counts as not run."""
        files = sorted((self.path / "runs").glob("*.json"))
        found = {file.stem: self.read(f"runs/{file.name}") for file in files}
        return {key: result for key, result in found.items() if result is not None and _whole(result)}

    def tables(self) -> dict[str, list[Any] | None]:
        """Returns what is stored of each spec's tables, by its name; None where it is damaged."""
        found = {file.stem: read(file) for file in sorted((self.path / "tables").glob("*.json"))}
        return {name: made if isinstance(made, list) else None for name, made in found.items()}


def _whole(result: Run) -> bool:
    """Tells whether a result has all that tables and pages read, in the right shape."""
    shapes = _FAILED if result.get("status") == "failed" else _DONE
    return all(name in result and isinstance(result[name], shape) for name, shape in shapes.items())


# --- running


@dataclass(frozen=True)
class Outcome:
    """What a call of `run` did."""

    ran: int
    failed: int
    missing: Mapping[str, str]  # data sets that are not there, with what to do


def run(
    specs: Sequence[Spec],
    *,
    data: Path,
    out: Path,
    shown: Sequence[Spec] | None = None,
    workers: int = 2,
    threads: int = 1,
    say: Say = lambda text: None,
) -> Outcome:
    """Runs what is not done yet of these specs, and writes their tables.

    Args:
        specs: What to run.
        data: Folder of data sets.
        out: Results folder; made if it is not there.
        shown: What to write tables of, where more than is run now; cells that were not run say so.
        workers: Processes at once.
        threads: Of each process.
        say: Is told of each run as it ends.
    """
    errors.whole("workers", workers, at_least=1)
    errors.whole("threads", threads, at_least=1)
    with Folder(out) as folder:
        _run_without_data(specs, folder, say)
        done = {key for key, result in folder.runs().items() if result["status"] == "done"}
        wanted = {cell.digest: cell for spec in specs for cell in spec.cells}
        queue = deque(cell for key, cell in wanted.items() if key not in done)
        pool = _Pool(folder, Workspace(data, out), workers, threads, say)
        outcome = pool.run(queue)
        there = any(cell.data not in outcome.missing for spec in specs for cell in spec.cells)
        if outcome.missing and not there and all(spec.kind == "grid" for spec in specs):
            raise MissingData(" ".join(outcome.missing.values()))
        pool.say_what_is_missing()
        _write_streams(specs, folder, Workspace(data, out), outcome.missing)
        write_tables(specs if shown is None else shown, folder)
    return outcome


def _write_streams(specs: Sequence[Spec], folder: Folder, place: Workspace, missing: Mapping[str, str]) -> None:
    """Adds how many examples a blurry class has in each task: the panel beside the paper's figure."""
    panel = folder.read(STREAMS) or {}
    first: dict[tuple[str, str], Cell] = {}
    for cell in (cell for spec in specs for cell in spec.cells if cell.ratio):
        first.setdefault((cell.data, f"{cell.ratio:g}"), replace(cell, seed=0))
    for (name, ratio), cell in first.items():
        if name not in missing and ratio not in panel.get(name, {}):
            with contextlib.suppress(Exception):  # its runs have failed, and say why
                panel.setdefault(name, {})[ratio] = one_run.examples_of_a_blurry_class(cell, place.load(cell))
    folder.write(STREAMS, json.dumps(panel, indent=1))


def write_tables(specs: Sequence[Spec], folder: Folder) -> None:
    """Writes the tables of these specs as JSON, Markdown and LaTeX, and all runs as one Parquet file."""
    runs = folder.runs()
    for spec in specs:
        made = tables.tables(spec, runs, extra=folder.read)
        folder.write(f"tables/{spec.name}.json", json.dumps([asdict(table) for table in made], indent=1))
        folder.write(f"tables/{spec.name}.md", "\n".join(markdown(table) for table in made))
        folder.write(f"tables/{spec.name}.tex", "\n".join(latex(table) for table in made))
    flat = [
        {
            **result["cell"],
            **{key: result.get(key) for key in ("status", "error", "accuracy", "forgetting", "known", "parent")},
            "learn_seconds": result.get("seconds", {}).get("learn"),
            "spent_epsilon": result.get("spent", {}).get("epsilon"),
            "data_digest": result.get("digests", {}).get("data"),
            "digest": key,
        }
        for key, result in runs.items()
    ]
    if flat:
        pq.write_table(pa.Table.from_pylist(flat), folder.path / "results.parquet")


class _Pool:
    """Processes that run cells; one that dies takes only its own cell with it."""

    def __init__(self, folder: Folder, place: Workspace, workers: int, threads: int, say: Say) -> None:
        self._folder, self._place, self._size, self._say = folder, place, workers, say
        self._threads = str(threads)
        self._context = multiprocessing.get_context("spawn")
        self._at_work: dict[Connection, tuple[Any, Cell]] = {}
        self._left = Estimates(folder.runs())
        self._ran = self._failed = 0
        self._missing: dict[str, str] = {}
        self._unsaid: list[str] = []

    def run(self, queue: deque[Cell]) -> Outcome:
        """Runs all cells and returns how it went."""
        idle: list[tuple[Any, Connection]] = []
        try:
            while queue or self._at_work:
                while queue and len(self._at_work) < self._size:
                    cell = queue.popleft()
                    if cell.data in self._missing:
                        continue
                    process, connection = idle.pop() if idle else self._start()
                    with contextlib.suppress(OSError):  # it is dead: so will the answer say
                        connection.send(cell)
                    self._at_work[connection] = process, cell
                if not self._at_work:  # all that was left is of data that is missing: nothing would ever be ready
                    continue
                for ready in wait(list(self._at_work)):
                    if not isinstance(ready, Connection):
                        continue
                    process, cell = self._at_work.pop(ready)
                    if self._finish(cell, ready, queue):
                        idle.append((process, ready))
        finally:
            self._stop([*idle, *((process, connection) for connection, (process, _) in self._at_work.items())])
        return Outcome(self._ran, self._failed, self._missing)

    def say_what_is_missing(self) -> None:
        """Says it beside runs that have ended; where all data is missing, the refusal says it."""
        for sentence in self._unsaid:
            self._say(sentence)
        self._unsaid.clear()

    def _start(self) -> tuple[Any, Connection]:
        ours, theirs = self._context.Pipe()
        with _environment(dict.fromkeys(THREADS, self._threads)):
            process = self._context.Process(target=_work, args=(theirs, self._place), daemon=True)
            process.start()
        theirs.close()
        return process, ours

    def _finish(self, cell: Cell, connection: Connection, queue: Sequence[Cell]) -> bool:
        """Keeps what a worker sends; returns whether the worker lives."""
        try:
            kind, value = connection.recv()
        except (EOFError, OSError):  # at the end of a message, or within one
            kind, value = "dead", one_run.failed(cell, "Its process was killed; there may have been too little memory.")
        if kind == "missing":
            if cell.data not in self._missing:
                self._unsaid.append(value)
            self._missing[cell.data] = value
            return True
        self.say_what_is_missing()
        self._folder.write(f"runs/{cell.digest}.json", json.dumps(value))
        self._ran += 1
        self._failed += value["status"] == "failed"
        self._left.add(value)
        rest = self._left.seconds([c for c in queue if c.data not in self._missing]) / self._size
        ended = f"{100 * value['accuracy']:.1f} %" if value["status"] == "done" else f"failed: {value['error']}"
        self._say(f"{cell.name}: {ended}; {len(queue)} to go, about {duration(rest)}")
        return bool(kind != "dead")

    @staticmethod
    def _stop(workers: Sequence[tuple[Any, Connection]]) -> None:
        for _, connection in workers:
            with contextlib.suppress(OSError):
                connection.send(None)
        deadline = time.monotonic() + _PATIENCE
        for process, _ in workers:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.terminate()


def _work(connection: Connection, place: Workspace) -> None:
    """Runs cells until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides
    threading.Thread(target=_end_with_the_runner, daemon=True).start()
    while True:
        try:
            cell = connection.recv()
        except EOFError:
            return
        if cell is None:
            return
        try:
            connection.send(("result", one_run.run(cell, place)))
        except MissingData as error:
            connection.send(("missing", str(error)))
        except Exception as error:  # the others go on
            connection.send(("result", one_run.failed(cell, f"{type(error).__name__}: {error}")))


def _end_with_the_runner() -> None:
    """Ends a worker whose runner was killed: the next one may run the same cell, in the same folder."""
    runner = multiprocessing.parent_process()
    if runner is not None:
        wait([runner.sentinel])
        os._exit(1)


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets variables for processes that start within."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# --- experiments that need no data


def _run_without_data(specs: Sequence[Spec], folder: Folder, say: Say) -> None:
    for spec in specs:
        if spec.kind == "grid" or folder.read(f"{spec.kind}.json") is not None:
            continue
        say(f"{spec.title} ...")
        folder.write(f"{spec.kind}.json", json.dumps(_attack() if spec.kind == "attack" else _drop(), indent=1))


def _attack() -> dict[str, Any]:
    """Figure 1: classifiers that leak, and every remedy at several epsilon."""
    games = [result for result in label_attack.attack_labels(Budget(epsilon=1.0, delta=1e-5)) if not result.remedy]
    curve = label_attack.accuracy_curve(1e-5)
    limits = [[epsilon, accuracy_bound(epsilon, 1e-5)] for epsilon in label_attack.CURVE]
    return {"points": [result.json() for result in [*games, *curve]], "bounds": limits}


def _drop() -> dict[str, Any]:
    """Figure 2: the chance that a label is dropped, by mechanism, and the least of any mechanism."""
    sizes, curves = np.array(_DROP_SIZES), []
    for epsilon in DROP_EPSILONS:
        budget = Budget(epsilon=epsilon, delta=DROP_DELTA)
        whole = events.TruncatedGeometric(epsilon=epsilon, delta=DROP_DELTA)
        tenth = planning.labels_by_share(budget, events.TruncatedGeometric, planning.DEFAULT_SHARE)
        joint = planning.joint_gaussian(budget, planning.DEFAULT_COUNT_WEIGHT)
        kept = {
            "any mechanism, at least": selection.upper_bound(sizes, epsilon, DROP_DELTA),
            "the paper's, the whole budget": selection.law(whole).release_probability(sizes),
            "the paper's, a tenth of the budget": selection.law(tenth).release_probability(sizes),
            "ours, with the sums": selection.law(joint).release_probability(sizes),
        }
        curves += [_curve(epsilon, mechanism, (1 - p).tolist()) for mechanism, p in kept.items()]
    return {"delta": DROP_DELTA, "curves": curves}


def _curve(epsilon: float, mechanism: str, dropped: Sequence[float]) -> dict[str, Any]:
    return {"epsilon": epsilon, "mechanism": mechanism, "sizes": list(_DROP_SIZES), "probability": list(dropped)}
