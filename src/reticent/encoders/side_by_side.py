"""Batches side by side: one thread for each core, and in each thread one batch on that core alone.

Torch shares every operation among its threads, which wait for each other hundreds of times in one short batch; where
another process holds a core, all wait for the slowest. Batches need no waiting: what one gives does not depend on
another. Rows have the same bits either way, and a thread on one core never spins (`benchmarks/encoding.py`).
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from reticent import errors
from reticent.encoders.packages import require

Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
_CORES = threading.RLock()  # who has it uses all cores; others wait their turn


@contextlib.contextmanager
def side_by_side(wanted: bool) -> Iterator[Each]:
    """Yields `map`, or what does the same with as many threads as torch was told to use.

    Guarantees:
      - Results are those of `map`, in order.                             test_results_come_in_order
      - What work raises is raised, and torch has its threads again.      test_what_work_raises_is_raised
      - Features are the same, to the bit, for any number of threads.     test_number_of_threads_changes_nothing

    Args:
        wanted: Whether what is computed may be computed in several threads at once.
    """
    if not wanted:
        yield map
        return
    torch = require("torch", extra="reticent[torch]")
    with _CORES:
        cores = torch.get_num_threads()
        torch.set_num_threads(1)  # in this thread, and in those that begin from now on
        try:
            with ThreadPoolExecutor(cores, thread_name_prefix="encode") as pool:
                yield map if cores == 1 else partial(_each, pool, cores)
        finally:
            torch.set_num_threads(cores)


def _each(pool: ThreadPoolExecutor, cores: int, work: Callable[[Any], Any], given: Iterable[Any]) -> Iterator[Any]:
    """Keeps every core busy and little waiting: memory does not follow the number of batches."""
    waiting: deque[Future[Any]] = deque()
    try:
        for one in given:
            waiting.append(pool.submit(_silenced, work, one))
            if len(waiting) > 2 * cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _silenced(work: Callable[[Any], Any], one: Any) -> Any:
    with errors.silenced():  # numpy's part of it belongs to a thread
        return work(one)
