"""Task: the sensitive examples of one task, for the time it takes to learn it."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn
from uuid import UUID

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.labels import canonical

_NO_FEATURES = "Expected features of shape (n, K), or an encoder that makes them."
_SECONDS = {"W": 604_800, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
_DIGITS = {"ms": 3, "us": 6, "ns": 9, "ps": 12, "fs": 15, "as": 18}
_POWER = 300  # of ten: beyond it numbers are compared by their digits


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

    def __init__(self, inputs: Any, labels: Any, units: Any = None, *, name: str = "task") -> None:
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


def _inputs(values: Any) -> Sequence[object] | npt.NDArray[Any]:
    """Arrays and frames of numbers stay arrays; a column of anything else is a list."""
    if isinstance(values, np.ndarray):
        return values if values.ndim > 1 else _cells(values)
    if hasattr(type(values), "columns"):
        return _numbers(values, list(values.dtypes) if hasattr(values, "to_numpy") else [])
    inside = _of_array(getattr(values, "dtype", None))
    return _numbers(values, inside) if inside else _cells(values)


def _numbers(values: Any, kinds: Sequence[object]) -> npt.NDArray[np.float64]:
    """Returns a frame of pandas or polars as numbers; NaN where one is missing.

    One type whatever the cells hold: that of `to_numpy` depends on whether a number is missing.
    """
    if not kinds or not all(map(_is_number, kinds)):
        raise errors.InvalidValue(_NO_FEATURES)
    missing = {"dtype": np.float64, "na_value": np.nan} if hasattr(values, "iloc") else {}
    try:
        return np.asarray(values.to_numpy(**missing), dtype=np.float64)
    except Exception:
        raise errors.InvalidValue(_NO_FEATURES) from None  # its cause would show a cell


def _cells(values: Any) -> list[object]:
    """Returns a column as Python objects, whatever library holds it; None where a cell cannot be read."""
    if _is_time(getattr(values, "dtype", None)) and hasattr(values, "to_physical"):
        values = values.to_physical()  # polars stops at a date beyond the calendar
    found = _listed(values)
    if found is not None:
        return found
    if not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        raise errors.InvalidValue("Expected a column that can be read cell by cell, such as a list.")
    cell = values.iloc.__getitem__ if hasattr(values, "iloc") else values.__getitem__
    return [_cell(cell, i) for i in range(len(values))]


def _listed(values: Any) -> list[object] | None:
    """Returns a column at once, None where some cell cannot be read: then it must be found out which."""
    dates = isinstance(values, np.ndarray) and values.dtype.kind in "mM"  # a missing one would become a number
    ways = ("tolist", "to_pylist") if getattr(values, "ndim", 1) == 1 and not dates else ()
    way = next((getattr(values, name) for name in ways if hasattr(values, name)), lambda: values)
    try:
        found = list(way())
        return None if hasattr(values, "__len__") and len(found) != len(values) else found  # ends at an IndexError
    except Exception:
        return None


def _cell(cell: Callable[[int], Any], place: int) -> object:
    try:
        value = cell(place)
        return value.as_py() if hasattr(value, "as_py") else value
    except Exception:
        return None


def _of_array(kind: object) -> list[object]:
    """Returns the type inside a column of arrays of polars; an empty list for any other column."""
    return [kind.inner] if hasattr(kind, "inner") and hasattr(kind, "shape") else []


def _is_number(kind: object) -> bool:
    """Tells whether a column holds numbers or truth values: by its type of numpy, pandas or polars."""
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) == "Boolean"
    return getattr(kind, "kind", "") in tuple("biuf")


def _is_time(kind: object) -> bool:
    """Tells whether a column of polars holds dates, times or durations."""
    return bool(getattr(kind, "is_temporal", bool)())


def _column(name: str, values: Any, inputs: Sequence[object] | npt.NDArray[Any]) -> list[object]:
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise errors.InvalidValue(f"Expected {name} with one dimension, got {values.ndim}.")
    column = _cells(values)
    if name == "labels" and _is_time(getattr(values, "dtype", None)):
        column = [None] * len(column)  # no labels in any library
    if len(column) != len(inputs):
        raise errors.InvalidValue(f"Expected as many {name} as inputs.")
    return column


# --- whose it is


def _unit(value: object) -> object:
    """Returns what tells units apart, or None where the id is missing: persons without one must not share theirs.

    Equal ids are one person's, however they are written: 7, Decimal("7.0"), one instant in two time zones.
    """
    if isinstance(value, np.datetime64):
        return _numpy_instant(value)
    name = canonical(value)
    if name is not None:
        return None if isinstance(name, str) and not name.strip() else name
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, bytes):
        return bytes, bytes(value)
    if isinstance(value, UUID):
        return UUID, str(value)
    return _instant(value) if isinstance(value, date) and str(value) != "NaT" else None


def _decimal(value: Decimal) -> object:
    """An equal number where there is one that is a label too; else its digits."""
    if not value.is_finite():
        return None
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    power = int(exponent) + len(text) - len(kept) if kept else 0
    if power > -_POWER and value.adjusted() < _POWER:
        equal = Fraction(value)
        number = equal.numerator if equal.denominator == 1 else float(equal)
        if number == equal and canonical(number) is not None:
            return canonical(number)
    return Decimal, sign, kept, power


def _instant(value: date) -> object:
    """Seconds since 1970 and what is left of one, in time zones or without; a day is its midnight."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    zone = None if value.tzinfo is None else UTC
    try:
        since = value - datetime(1970, 1, 1, tzinfo=zone)
    except (OverflowError, ValueError):  # beyond what can be counted from there
        return datetime, zone is not None, value.isoformat()
    parts = since.microseconds * 10**12 + getattr(value, "nanosecond", 0) * 10**9
    return datetime, zone is not None, since.days * 86_400 + since.seconds, parts


def _numpy_instant(value: np.datetime64) -> object:
    if np.isnat(value):
        return None
    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value, unit, step = value.astype("datetime64[D]"), "D", 1
    count = int(value.astype(np.int64)) * step
    if unit in _SECONDS:
        return datetime, False, count * _SECONDS[unit], 0
    seconds, parts = divmod(count, 10 ** _DIGITS[unit])
    return datetime, False, seconds, parts * 10 ** (18 - _DIGITS[unit])
