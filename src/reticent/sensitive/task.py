"""Task: the sensitive examples of one task, for the time it takes to learn it."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any, NoReturn
from uuid import UUID

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.labels import canonical

_IDS = (bytes, date, Decimal, UUID, np.datetime64)  # beside labels


class Task:
    """Inputs, labels and optional unit ids of one task. Shows nothing, has no length, cannot be stored.

    Guarantees:
      - Its representation is the same for every task; it has no length and cannot be pickled or copied.
                                                                           test_task_shows_nothing
      - Errors are read from metadata (number of dimensions, lengths), never from a scan of rows.

    Args:
        inputs: Features of shape (n, K), or a sequence of texts, images or paths for an encoder.
        labels: One label per example, of any type.
        units: One id per example: whose it is. Needed to bound what one person contributes.
        name: The public name of the task, such as a month.

    Example:
        >>> Task(np.zeros((3, 2)), ["a", "b", "a"])
        Task(<sensitive>)
    """

    __slots__ = ("inputs", "labels", "name", "units")

    def __init__(self, inputs: Any, labels: Any, units: Any = None, *, name: str = "task") -> None:  # noqa: ANN401
        self.inputs: Sequence[object] | npt.NDArray[Any] = _inputs(inputs)
        self.labels = _column("labels", labels, self.inputs)
        self.name = name
        self.units = None if units is None else _column("units", units, self.inputs)

    def __repr__(self) -> str:
        return "Task(<sensitive>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A task is sensitive: it cannot be pickled or copied.")

    def capped(self, examples_per_person: int) -> "Task":
        """Returns the task with at most so many examples of each unit: the first ones in their own order.

        The choice depends on a unit's own rows alone; an example whose id is missing (None, NaN) is left out. Without
        unit ids every example is taken as its own person's.
        """
        if self.units is None:
            return self
        seen: dict[object, int] = {}
        kept: list[int] = []
        for i, unit in enumerate(self.units):
            key = _unit(unit)
            if key is not None:  # whose it is must be known to bound it
                seen[key] = seen.get(key, 0) + 1
                if seen[key] <= examples_per_person:
                    kept.append(i)
        inputs = self.inputs[kept] if isinstance(self.inputs, np.ndarray) else [self.inputs[i] for i in kept]
        return Task(inputs, [self.labels[i] for i in kept], name=self.name)


def _inputs(values: Any) -> Sequence[object] | npt.NDArray[Any]:  # noqa: ANN401
    """Arrays and frames of numbers stay arrays; a column of anything else is a list."""
    if hasattr(values, "to_numpy"):  # pandas, polars, pyarrow
        values = values.to_numpy()
    if isinstance(values, np.ndarray):
        return values if values.ndim > 1 else values.tolist()
    return list(values)


def _unit(value: object) -> object:
    """Returns what tells units apart, or None where the id is missing: persons without one must not share theirs."""
    name = canonical(value)
    if name is not None:
        return None if isinstance(name, str) and not name.strip() else name
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    return (type(value).__name__, str(value)) if isinstance(value, _IDS) and str(value) != "NaT" else None


def _column(name: str, values: Any, inputs: Sequence[object] | npt.NDArray[Any]) -> list[object]:  # noqa: ANN401
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise errors.InvalidValue(f"Expected {name} with one dimension, got {values.ndim}.")
    dates = isinstance(values, np.ndarray) and values.dtype.kind in "mM"  # a missing one would become a number
    column = values.tolist() if hasattr(values, "tolist") and not dates else list(values)
    if len(column) != len(inputs):
        raise errors.InvalidValue(f"Expected as many {name} as inputs.")
    return column
