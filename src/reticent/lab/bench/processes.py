"""Processes of this machine: parts of public work side by side, each with threads of its own."""

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from reticent import errors
from reticent.lab.bench.worker import work

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_PATIENCE = 5.0  # seconds a worker gets to end by itself

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Worker processes; when one dies, only its current part is lost.

    Args:
        workers: Processes at once.
        threads: Of each process.
    """

    workers: int
    threads: int = 1

    def __post_init__(self) -> None:
        errors.set_whole(self, "workers", at_least=1)
        errors.set_whole(self, "threads", at_least=1)

    def ready(self) -> int:
        """Returns how many parts are worked on at once."""
        return self.workers

    def map(
        self, task: Callable[[Part], Result], parts: Iterable[Part], *, lost: Callable[[Part], Result]
    ) -> Iterator[Result]:
        """Yields what the task returns for each part, in any order; a part is taken as a process becomes free.

        Args:
            task: A value that can be pickled.
            parts: What to work on.
            lost: What to yield for a part whose process has died.
        """
        queue, more = iter(parts), True
        at_work: dict[Connection, tuple[Any, Part]] = {}
        idle: list[tuple[Any, Connection]] = []
        try:
            while more or at_work:
                while more and len(at_work) < self.workers:
                    part = next(queue, None)
                    if part is None:
                        more = False
                        continue
                    process, connection = idle.pop() if idle else self._start(task)
                    with contextlib.suppress(OSError):  # its process has died, which is reported below
                        connection.send(part)
                    at_work[connection] = process, part
                for ready in wait(list(at_work)) if at_work else ():
                    if not isinstance(ready, Connection):
                        continue
                    process, part = at_work.pop(ready)
                    try:
                        result = ready.recv()
                    except (EOFError, OSError):  # at the end of a message, or within one
                        result = lost(part)
                    else:
                        idle.append((process, ready))
                    yield result
        finally:
            _stop([*idle, *((process, connection) for connection, (process, _) in at_work.items())])

    def _start(self, task: Callable[[Any], Any]) -> tuple[Any, Connection]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        with _environment(dict.fromkeys(THREADS, str(self.threads))):
            process = context.Process(target=work, args=(theirs, task), daemon=True)
            process.start()
        theirs.close()
        return process, ours


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
