"""Engine: where the parts of a task are worked on."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from reticent.sensitive.batch import Batch

Part = Iterable[Batch]
Result = TypeVar("Result")


class Engine(Protocol):
    """Where parts are worked on; speed alone.

    It draws nothing and decides nothing: partial results are whole numbers, whose sum does not depend on the parts,
    their order or where they were made.
    """

    @property
    def shares_memory(self) -> bool:
        """Whether its workers see the memory of this process; else they are sent parts, and read files themselves."""

    def ready(self, files: Iterable[Path] = ()) -> int:
        """Refuses, before anything is spent, what it cannot do; returns how many parts are worked on at once.

        Args:
            files: What its workers will read themselves.
        """

    def map(self, work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Yields what work returns for each part, in any order.

        Args:
            work: A frozen value that can be pickled where memory is not shared.
            parts: Sensitive. Taken one by one, no more than are worked on.
        """
