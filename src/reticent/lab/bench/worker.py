"""A worker process of the runner. It imports only what a run needs, since every worker imports it again."""

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection, wait

from reticent.lab.bench import one_run
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data.datasets import MissingData


def work(connection: Connection, place: Workspace) -> None:
    """Makes runs until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner ends its workers
    threading.Thread(target=_end_with_the_runner, daemon=True).start()
    while True:
        try:
            run = connection.recv()
        except EOFError:
            return
        if run is None:
            return
        try:
            connection.send(("result", one_run.result_of(run, place)))
        except MissingData as error:
            connection.send(("missing", str(error)))
        except Exception as error:  # the other runs continue
            connection.send(("result", one_run.failed(run, f"{type(error).__name__}: {error}")))


def _end_with_the_runner() -> None:
    """Ends a worker whose runner was killed: the next one may make the same run, in the same folder."""
    runner = multiprocessing.parent_process()
    if runner is not None:
        wait([runner.sentinel])
        os._exit(1)
