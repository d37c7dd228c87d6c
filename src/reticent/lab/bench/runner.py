"""The runner: every run of some specs, in parallel, into a results folder where a stopped benchmark resumes.

Runs are seeded and NOT PRIVATE. A run is made once, however many specs ask for it; one that fails does not stop the
others, and is tried again the next time.
"""

import contextlib
import importlib.util
import io
import json
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.encoders import Speed
from reticent.lab.bench import one_run, steps, tables, without_data
from reticent.lab.bench.estimates import Estimates, duration
from reticent.lab.bench.folder import STREAMS, Folder
from reticent.lab.bench.run import Run
from reticent.lab.bench.specs import Spec
from reticent.lab.bench.typeset import latex, markdown
from reticent.lab.bench.worker import work
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data import datasets
from reticent.lab.data.datasets import MissingData

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_PATIENCE = 5.0  # seconds a worker gets to end by itself

Say = Callable[[str], object]


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
    speed: Speed = Speed(),  # noqa: B008 (a frozen value)
    say: Say = lambda text: None,
) -> Outcome:
    """Runs what is not done yet of these specs, and writes their tables.

    Args:
        specs: What to run.
        data: Folder of data sets.
        out: Results folder; made if it is not there.
        shown: What to write tables of, where more than is run now; runs that were not made say so.
        workers: Processes at once.
        threads: Of each process.
        speed: Where and how encoders compute.
        say: Called with one line for each run as it ends.
    """
    errors.whole("workers", workers, at_least=1)
    errors.whole("threads", threads, at_least=1)
    with Folder(out) as folder:
        _run_without_data(specs, folder, say)
        done = {key for key, result in folder.results().items() if result["status"] == "done"}
        wanted = {run.digest: run for spec in specs for run in spec.runs}
        queue = deque(run for key, run in wanted.items() if key not in done)
        place = Workspace(data, out, speed=speed)
        pool = _Pool(folder, place, workers, threads, say)
        pool.say_what_to_expect(queue)
        outcome = pool.run(queue)
        there = any(run.data not in outcome.missing for run in wanted.values())
        if outcome.missing and not there and all(spec.kind == "grid" for spec in specs):
            raise MissingData(" ".join(outcome.missing.values()))
        pool.say_what_is_missing()
        _write_streams(specs, folder, place, outcome.missing)
        write_tables(specs if shown is None else shown, folder)
    return outcome


def _write_streams(specs: Sequence[Spec], folder: Folder, place: Workspace, missing: Mapping[str, str]) -> None:
    """Adds how many examples a blurry class has in each task: the panel beside the paper's figure."""
    panel = folder.read(STREAMS) or {}
    first: dict[tuple[str, str], Run] = {}
    for run in (run for spec in specs for run in spec.runs if run.ratio):
        first.setdefault((run.data, f"{run.ratio:g}"), replace(run, seed=0))
    for (name, ratio), run in first.items():
        if name not in missing and ratio not in panel.get(name, {}):
            with contextlib.suppress(Exception):  # its runs have failed, and say why
                panel.setdefault(name, {})[ratio] = one_run.examples_of_a_blurry_class(run, place.load(run))
    folder.write(STREAMS, json.dumps(panel, indent=1))


def write_tables(specs: Sequence[Spec], folder: Folder) -> None:
    """Writes the tables of these specs as JSON, Markdown and LaTeX, and all runs as one Parquet file (with pyarrow)."""
    results = folder.results()
    for spec in specs:
        made = tables.tables(spec, results, extra=folder.read)
        folder.write(f"tables/{spec.name}.json", json.dumps([asdict(table) for table in made], indent=1))
        folder.write(f"tables/{spec.name}.md", "\n".join(markdown(table) for table in made))
        folder.write(f"tables/{spec.name}.tex", "\n".join(latex(table) for table in made))
    flat = [
        {
            **result["run"],
            **{key: result.get(key) for key in ("status", "error", "accuracy", "forgetting", "known", "parent")},
            "learn_seconds": result.get("seconds", {}).get("learn"),
            "spent_epsilon": result.get("spent", {}).get("epsilon"),
            "data_digest": result.get("digests", {}).get("data"),
            "digest": key,
        }
        for key, result in results.items()
    ]
    if flat and importlib.util.find_spec("pyarrow") is not None:
        from pyarrow import Table, parquet

        stream = io.BytesIO()
        parquet.write_table(Table.from_pylist(flat), stream)
        folder.write("results.parquet", stream.getvalue())


class _Pool:
    """Worker processes; when one dies, only its current run fails."""

    def __init__(self, folder: Folder, place: Workspace, workers: int, threads: int, say: Say) -> None:
        self._folder, self._place, self._size, self._say = folder, place, workers, say
        self._threads = str(threads)
        self._context = multiprocessing.get_context("spawn")
        self._at_work: dict[Connection, tuple[Any, Run]] = {}
        self._left = Estimates(folder.results())
        self._ran = self._failed = 0
        self._missing: dict[str, str] = {}
        self._unsaid: list[str] = []

    def run(self, queue: deque[Run]) -> Outcome:
        """Makes all runs and returns how it went."""
        idle: list[tuple[Any, Connection]] = []
        try:
            while queue or self._at_work:
                while queue and len(self._at_work) < self._size:
                    run = queue.popleft()
                    if self._lacks_data(run):
                        continue
                    process, connection = idle.pop() if idle else self._start()
                    with contextlib.suppress(OSError):  # its process has died, which is reported below
                        connection.send(run)
                    self._at_work[connection] = process, run
                if not self._at_work:  # only runs of missing data were left: nothing would ever be ready
                    continue
                for ready in wait(list(self._at_work)):
                    if not isinstance(ready, Connection):
                        continue
                    process, run = self._at_work.pop(ready)
                    if self._finish(run, ready, queue):
                        idle.append((process, ready))
        finally:
            self._stop([*idle, *((process, connection) for connection, (process, _) in self._at_work.items())])
        return Outcome(self._ran, self._failed, self._missing)

    def _lacks_data(self, run: Run) -> bool:
        """Returns whether data is known to be missing, so that no process is started for it."""
        try:
            datasets.check(run.data, self._place.data)
        except MissingData as error:
            self._miss(run.data, str(error))
        return run.data in self._missing

    def _miss(self, data: str, sentence: str) -> None:
        if data not in self._missing:
            self._unsaid.append(sentence)
        self._missing[data] = sentence

    def say_what_to_expect(self, queue: Sequence[Run]) -> None:
        """Measures a step of each encoder that runs train through, and says how long they take by it."""
        first = {replace(run, seed=0, epsilon=None): run for run in queue if not self._left.knows(run)}
        for run, seconds, step in steps.expected(list(first.values()), self._place):
            self._left.expect(run, seconds)
            each = (
                f"{1_000 * step.forward:.1f} ms to encode an example, {1_000 * step.gradient:.1f} ms to train with it"
            )
            self._say(f"{run.data} {run.learner} {run.adapter}: about {duration(seconds)} a run; measured here: {each}")

    def say_what_is_missing(self) -> None:
        """Says it beside runs that have ended; where all data is missing, the refusal says it."""
        for sentence in self._unsaid:
            self._say(sentence)
        self._unsaid.clear()

    def _start(self) -> tuple[Any, Connection]:
        ours, theirs = self._context.Pipe()
        with _environment(dict.fromkeys(THREADS, self._threads)):
            process = self._context.Process(target=work, args=(theirs, self._place), daemon=True)
            process.start()
        theirs.close()
        return process, ours

    def _finish(self, run: Run, connection: Connection, queue: Sequence[Run]) -> bool:
        """Keeps what a worker sends; returns whether the worker lives."""
        try:
            kind, value = connection.recv()
        except (EOFError, OSError):  # at the end of a message, or within one
            kind, value = "dead", one_run.failed(run, "Its process was killed; there may have been too little memory.")
        if kind == "missing":
            self._miss(run.data, value)
            return True
        self.say_what_is_missing()
        self._folder.write(f"runs/{run.digest}.json", json.dumps(value))
        self._ran += 1
        self._failed += value["status"] == "failed"
        self._left.add(value)
        rest = self._left.seconds([r for r in queue if r.data not in self._missing]) / self._size
        ended = f"{100 * value['accuracy']:.1f} %" if value["status"] == "done" else f"failed: {value['error']}"
        self._say(f"{run.name}: {ended}; {len(queue)} to go, about {duration(rest)}")
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


def _run_without_data(specs: Sequence[Spec], folder: Folder, say: Say) -> None:
    for spec in specs:
        if spec.kind == "grid" or folder.read(f"{spec.kind}.json") is not None:
            continue
        say(f"{spec.title} ...")
        folder.write(f"{spec.kind}.json", json.dumps(without_data.measured(spec.kind), indent=1))
