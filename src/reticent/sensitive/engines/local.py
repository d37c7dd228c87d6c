"""Local: the threads of this process. The loops that add up release Python's lock, so they run side by side."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from reticent import errors
from reticent.sensitive.engines.engine import Part

Result = TypeVar("Result")
_MOST = 4  # more threads than that wait for memory


@dataclass(frozen=True, kw_only=True)
class Local:
    """Threads of this process.

    Args:
        threads: How many; by default as many as the process has cores, at most 4.

    Example:
        >>> sorted(Local(threads=2).map(lambda part: sum(part), [[1, 2], [3], []]))
        [0, 3, 3]
    """

    threads: int | None = None
    shares_memory: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.threads is not None:
            errors.set_whole(self, "threads", at_least=1)

    def ready(self, files: Iterable[Path] = ()) -> int:
        """Returns how many threads work at once; there is nothing to refuse."""
        return self.threads or min(_MOST, _cores())

    def map(self, work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Yields what work returns for each part, in any order; parts are taken as threads become free."""
        workers = self.ready()
        if workers == 1:
            yield from map(work, parts)
            return
        with ThreadPoolExecutor(workers) as pool:
            running: set[Future[Result]] = set()
            for part in parts:
                running.add(pool.submit(work, part))
                if len(running) == workers:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
