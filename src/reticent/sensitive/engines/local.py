"""Local: the threads of this process. The loops that add up release Python's lock, so they run side by side."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from reticent import errors
from reticent.numerics import threads
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
        return self.threads or min(_MOST, threads.cores())

    def map(self, work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Yields what work returns for each part, in any order; parts are taken as threads become free."""
        return threads.mapped(work, parts, self.ready())
