"""The runner: every run of some specs, in parallel, into a results folder where a stopped benchmark resumes.

Runs are seeded and NOT PRIVATE. A run is made once, however many specs ask for it; one that fails does not stop the
others, and is tried again the next time.
"""

import importlib.util
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reticent.encoders import Speed
from reticent.lab.bench import catalogue, run_rows, spread, steps, tables, without_data
from reticent.lab.bench.estimates import Estimates, duration, kind
from reticent.lab.bench.folder import Folder
from reticent.lab.bench.processes import Processes
from reticent.lab.bench.run import Result, Run
from reticent.lab.bench.specs import Spec
from reticent.lab.bench.typeset import latex, markdown
from reticent.lab.bench.worker import Cell, Ended
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data import datasets
from reticent.lab.data.datasets import MissingData
from reticent.sensitive.engines import Ray

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
    engine: Processes | Ray = Processes(workers=2),  # noqa: B008 (a frozen value)
    speed: Speed = Speed(),  # noqa: B008 (a frozen value)
    stored: Mapping[str, Result] = MappingProxyType({}),
    measured: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    minutes: float | None = None,
    say: Say = lambda text: None,
) -> Outcome:
    """Runs what is not done yet of these specs, cheap runs first, and writes their tables.

    Args:
        specs: What to run.
        data: Folder of data sets.
        out: Results folder; made if it is not there.
        shown: What to write tables of, where more than is run now; runs that were not made say so.
        engine: Where runs are made. The machines of a Ray cluster share the file system of data and results.
        speed: Where and how encoders compute.
        stored: Results of earlier runs of the present versions, by the digests of their runs; see `run_rows.read`. What
            these specs or the shown ones ask for, and the folder does not have, is put there.
        measured: What stands beside rows and is of the present version, by its file without the ending, as of
            experiments without data; it is put there, too.
        minutes: Nothing is begun after so many; None for no limit.
        say: Called with one line for each run as it ends.
    """
    with Folder(out) as folder:
        for kind, found in measured.items():
            if folder.beside(f"{kind}.json") is None:
                folder.write(f"{kind}.json", json.dumps(found, indent=1))
        _run_without_data([] if minutes == 0 else specs, folder, say)
        done = {key for key, result in folder.results().items() if result["status"] == "done"}
        asked: dict[Run, str] = {}
        for spec in specs:
            for run in spec.runs:
                asked.setdefault(catalogue.stand_in(run), spec.command)
        wanted = {run.digest: run for run in asked}
        shows = {catalogue.stand_in(run).digest for spec in (*specs, *(shown or ())) for run in spec.runs}
        taken = {key: stored[key] for key in shows & stored.keys() - done}
        for key, result in taken.items():
            folder.write(f"runs/{key}.json", json.dumps(result))
        expected = Estimates(folder.results())
        left = (run for key, run in wanted.items() if key not in done and key not in taken)
        queue = deque(sorted(left, key=lambda run: expected.seconds([run])))
        if taken:
            say(f"{len(taken)} run(s) are taken from stored rows of the same versions; {len(queue)} are left.")
        place = Workspace(data, out, speed=speed)
        until = None if minutes is None else time.monotonic() + 60 * minutes
        progress = _Progress(folder, place, engine.ready() if queue else 1, say, commands=asked, until=until)
        if minutes != 0:  # else nothing is to be expected
            progress.say_what_to_expect(queue)
        for ended in engine.map(Cell(place), progress.taken(queue), lost=Cell.lost):
            progress.keep(ended, queue)
        outcome = progress.outcome
        there = any(run.data not in outcome.missing for run in wanted.values())
        if outcome.missing and not there and all(spec.kind == "grid" for spec in specs):
            raise MissingData(" ".join(outcome.missing.values()))
        progress.say_what_is_missing()
        both = dict.fromkeys((*specs, *(shown or ())))
        seen = spread.counted([*both], folder.beside(spread.FILE), place.load, outcome.missing)
        folder.write(spread.FILE, json.dumps(seen, indent=1))
        write_tables(specs if shown is None else shown, folder)
    return outcome


def write_tables(specs: Sequence[Spec], folder: Folder) -> None:
    """Writes the tables of these specs as JSON, Markdown and LaTeX, all cells as CSV, all runs as Parquet (pyarrow)."""
    results = folder.results()
    for spec in specs:
        made = tables.tables(spec, results, extra=folder.beside)
        folder.write(f"tables/{spec.name}.json", json.dumps([asdict(table) for table in made], indent=1))
        folder.write(f"tables/{spec.name}.md", "\n".join(markdown(table) for table in made))
        folder.write(f"tables/{spec.name}.tex", "\n".join(latex(table) for table in made))
    folder.write(run_rows.CELLS, run_rows.to_csv(results))
    if importlib.util.find_spec("pyarrow") is not None:
        folder.write(run_rows.RUNS, run_rows.to_parquet(results))


class _Progress:
    """What has run and what is left, of runs that end in any order."""

    def __init__(
        self,
        folder: Folder,
        place: Workspace,
        at_once: int,
        say: Say,
        *,
        commands: Mapping[Run, str],
        until: float | None,
    ) -> None:
        self._folder, self._place, self._at_once, self._say = folder, place, at_once, say
        self._commands, self._until = commands, until
        self._left = Estimates(folder.results())
        self._ran = self._failed = 0
        self._missing: dict[str, str] = {}
        self._unsaid: list[str] = []

    @property
    def outcome(self) -> Outcome:
        """How it went so far."""
        return Outcome(self._ran, self._failed, self._missing)

    def taken(self, queue: deque[Run]) -> Iterator[Run]:
        """Takes runs from the queue until time is up, but those whose data is known to be missing."""
        while queue:
            if self._until is not None and time.monotonic() >= self._until:
                self._say(f"Time is up: {len(queue)} run(s) are left. The same command goes on with them.")
                return
            run = queue.popleft()
            try:
                datasets.check(run.data, self._place.data)
            except MissingData as error:
                self._miss(run.data, str(error))
            if run.data not in self._missing:
                yield run

    def _miss(self, data: str, sentence: str) -> None:
        if data not in self._missing:
            self._unsaid.append(sentence)
        self._missing[data] = sentence

    def say_what_to_expect(self, queue: Sequence[Run]) -> None:
        """Measures a step of each encoder that runs train through, and says how long they take by it: a line a kind."""
        first = {kind(run): run for run in queue if not self._left.knows(run)}
        said: dict[tuple[str, str, str], list[steps.Expected]] = {}
        for found in steps.expected(list(first.values()), self._place):
            run = found.run
            self._left.expect(run, found.seconds, tuning=found.tuning)
            said.setdefault((run.data, run.learner, run.adapter), []).append(found)
        for names, alike in said.items():
            least, most = (duration(pick(found.seconds for found in alike)) for pick in (min, max))
            each = least if least == most else f"{least} to {most}"
            tuning = max(found.tuning for found in alike)
            once = f" and {duration(tuning)} to tune, once for each budget and seed" if tuning else ""
            self._say(f"{' '.join(names)}: about {each} a run{once}; measured here: {alike[0].step}")

    def say_what_is_missing(self) -> None:
        """Says it beside runs that have ended; where all data is missing, the refusal says it."""
        for sentence in self._unsaid:
            self._say(sentence)
        self._unsaid.clear()

    def keep(self, ended: Ended, queue: Sequence[Run]) -> None:
        """Keeps the result of a run, and says what is left."""
        run, value, missing = ended
        if value is None:
            self._miss(run.data, missing)
            return
        self.say_what_is_missing()
        value = {**value, "command": f"reticent bench {self._commands[run]}"}
        self._folder.write(f"runs/{run.digest}.json", json.dumps(value))
        self._ran += 1
        self._failed += value["status"] == "failed"
        self._left.add(value)
        rest = self._left.seconds([r for r in queue if r.data not in self._missing]) / self._at_once
        status = f"{100 * value['accuracy']:.1f} %" if value["status"] == "done" else f"failed: {value['error']}"
        self._say(f"{run.name}: {status}; {len(queue)} to go, about {duration(rest)}")


def _run_without_data(specs: Sequence[Spec], folder: Folder, say: Say) -> None:
    for spec in specs:
        if spec.kind == "grid" or folder.beside(f"{spec.kind}.json") is not None:
            continue
        say(f"{spec.title} ...")
        folder.write(f"{spec.kind}.json", json.dumps(without_data.measured(spec.kind), indent=1))
