"""Engine: one verb, from a function and parts of a task to partial results."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from reticent.sensitive.batches import Batch

Part = Iterable[Batch]
Result = TypeVar("Result")


class Engine(Protocol):
    """Where parts are worked on. It draws nothing and decides nothing: partial results are whole numbers, whose sum does
    not depend on the parts, their order or where they were made.
    """

    @property
    def workers(self) -> int:
        """How many parts are worked on at once."""

    @property
    def shares_memory(self) -> bool:
        """Whether its workers see the memory of this process; else they are sent parts, and read files themselves."""

    def map(self, work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Yields what work returns for each part, in any order.

        Args:
            work: A frozen value that can be pickled where memory is not shared.
            parts: Sensitive. Taken one by one, no more than are worked on.
        """
