"""How many threads this process works on, and how those of torch wait for each other where other processes work, too.

Torch shares the work of every operation among OpenMP threads, by default one per core. Whoever is done first spins: it
keeps its core busy until the others are done. Where another process holds one of their cores, all wait for the slowest
thread, and their spinning takes the core from the very thread that they wait for. A passive wait sleeps instead.

Seconds to encode 800 short texts with `minilm(backend="torch")` on two cores (wall clock / processor, medians of 3):

                                  alone        beside one busy process
    torch's default             1.9 / 3.7            7.2 / 8.7
    OMP_WAIT_POLICY=PASSIVE     2.7 / 3.7            3.6 / 3.5
    OMP_NUM_THREADS=1           3.1 / 3.1            3.2 / 3.1

Beside several busy processes the default is far worse: 117 seconds in a run at a load of 6, where a passive wait took 8
at a load of 5. So waiting is made passive, and the number of threads stays torch's own. That is slower on an
idle machine, and much faster on a shared one. How threads wait changes no feature. How many there are may change last
bits: MKL has other kernels for two threads than for one on processors of Intel, and the same on those of AMD.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")
_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")
_LIMIT: ContextVar[int | None] = ContextVar("_LIMIT", default=None)


def wait_passively() -> None:
    """Makes OpenMP threads sleep while they wait; called before torch is imported, because OpenMP reads it then.

    What the user chose stays: nothing happens where one of the variables is set that say how threads wait, nor where
    torch has been imported already. Processes that this one starts inherit the choice.

    Guarantees:
      - Torch that is imported by us waits passively.                test_threads_wait_passively
      - A user's own setting is kept.                                test_a_setting_of_the_user_is_kept,
                                                 test_torch_that_the_user_imported_is_not_reconfigured
    """
    if "torch" not in sys.modules and not any(name in os.environ for name in _WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual() -> int:
    """Returns how many threads work at once: as `limited` says here, or OMP_NUM_THREADS, or one for each core."""
    told = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return _LIMIT.get() or (int(told) if told.isdecimal() and int(told) else cores())


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Says how many threads work at once, for what the calling thread starts.

    >>> with limited(3):
    ...     usual()
    3
    """
    token = _LIMIT.set(threads)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def mapped(work: Callable[[Part], Result], parts: Iterable[Part], workers: int) -> Iterator[Result]:
    """Yields what work returns for each part, in any order; parts are taken as threads become free.

    >>> sorted(mapped(sum, [[1, 2], [3], []], 2))
    [0, 3, 3]
    """
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
