"""A cell of the benchmark, and a worker process that makes cells. It imports only what a run needs."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from reticent.lab.bench import one_run
from reticent.lab.bench.run import Run
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data.datasets import MissingData


class Ended(NamedTuple):
    """How a run has ended: with a result, also where it failed; or without, because data is missing."""

    run: Run
    result: dict[str, Any] | None
    missing: str = ""


@dataclass(frozen=True)
class Cell:
    """Makes one run, in whatever process; it raises nothing, so that the other runs continue."""

    place: Workspace

    def __call__(self, run: Run) -> Ended:
        """Returns how the run has ended."""
        try:
            return Ended(run, one_run.result_of(run, self.place))
        except MissingData as error:
            return Ended(run, None, str(error))
        except Exception as error:
            return Ended(run, one_run.failed(run, f"{type(error).__name__}: {error}"))

    @staticmethod
    def lost(run: Run) -> Ended:
        """Returns how a run has ended whose process has died."""
        return Ended(run, one_run.failed(run, "Its process was killed; there may have been too little memory."))


def work(connection: Connection, task: Callable[[Any], Any]) -> None:
    """Works on parts until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner ends its workers
    threading.Thread(target=_end_with_the_runner, daemon=True).start()
    while True:
        try:
            part = connection.recv()
        except EOFError:
            return
        if part is None:
            return
        connection.send(task(part))


def _end_with_the_runner() -> None:
    """Ends a worker whose runner was killed: the next one may make the same run, in the same folder."""
    runner = multiprocessing.parent_process()
    if runner is not None:
        wait([runner.sentinel])
        os._exit(1)
