"""Cells of arrays, frames and columns, whatever library holds them: numpy, pandas, polars, pyarrow or plain lists.

No cell decides whether an exception appears: one that cannot be read is None, and refusals are read from metadata.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.numerics.coded import Coded
from reticent.numerics.containers import opened, plain

Inputs = Sequence[object] | npt.NDArray[Any]
# How the types of polars and pyarrow begin, in small letters, of which no cell can be an id, or a label.
_NO_IDS = ("list", "large_list", "fixed_size_list", "struct", "map", "array", "duration")
_NO_LABELS = ("binary", "large_binary", "fixed_size_binary", "decimal", "date", "time", "timestamp")
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "bool")  # of pyarrow
_BUILT_IN = frozenset({str, int, float, bool, type(None)})  # most columns hold nothing else
_NO_FEATURES = "Expected features of shape (n, K), or an encoder that makes them."


def inputs_of(values: Any) -> Inputs:
    """Returns the inputs of a task: arrays and frames of numbers as an array, a column of anything else as a list.

    An array keeps its type where an encoder may have to refuse it by that.

    >>> inputs_of(("a text", None))
    ['a text', None]
    """
    values = _no_string("inputs", opened(values))
    if isinstance(values, np.ndarray):
        return values if values.ndim > 1 or values.dtype.kind not in "OUT" else _cells(values)
    kind = getattr(values, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind not in "OUT" and hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    if hasattr(type(values), "columns"):
        return _numbers(values, list(values.dtypes) if hasattr(values, "to_numpy") else [])
    inside = _of_array(kind)
    return _numbers(values, inside) if inside else _cells(values)


def column_of(name: str, values: Any, inputs: Inputs) -> Coded:
    """Returns one cell per input; one that cannot be read is missing.

    Args:
        name: What the column holds: labels or persons. A type of which every cell would be left out is refused.
        values: The column.
        inputs: The inputs that it belongs to.
    """
    values = _no_string(name, opened(values))
    dimensions = 2 if hasattr(type(values), "columns") else getattr(values, "ndim", 1)  # of frames and tables
    if dimensions != 1:
        raise errors.InvalidValue(f"Expected {name} with one dimension, got {dimensions}.")
    kind = getattr(values, "dtype", getattr(values, "type", None))
    if any(map(_UNUSABLE_AS[name], _inner(kind))):
        raise errors.InvalidValue(f"Expected {name} of another type than {str(kind)[:60]}: texts or numbers.")
    agrees = not hasattr(values, "__len__") or len(values) == len(inputs)  # asked before cells take memory
    column = _coded(values, kind) if agrees else None
    if column is None or len(column) != len(inputs):
        raise errors.InvalidValue(f"Expected as many {name} as inputs.")
    return column


def _no_string(name: str, values: Any) -> Any:
    """Returns a column; refuses a string, whose letters would be cells."""
    if isinstance(values, str | bytes):
        raise errors.InvalidValue(f"Expected {name} as a column, such as a list; got one string.")
    return values


def _coded(values: Any, kind: object) -> Coded:
    """Returns a column as codes, without Python objects where it is an array of whole numbers or texts."""
    held = hasattr(values, "to_numpy") and isinstance(kind, np.dtype) and kind.kind in "iu"  # of pandas
    found = Coded.at_once(values.to_numpy() if held else values)
    return Coded.of(_cells(values)) if found is None else found


def holds_numbers(values: Any) -> bool:
    """Returns whether a column is declared to hold numbers or truth values; False where it declares nothing.

    >>> holds_numbers(np.arange(3)), holds_numbers([1, 2])
    (True, False)
    """
    kind = getattr(values, "dtype", getattr(values, "type", None))
    return any(_is_number(inner) or _starts(inner, _NUMBERS) for inner in _inner(kind) if inner is not None)


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
        if not set(map(type, found)) <= _BUILT_IN:
            found = [plain(cell) for cell in found]
        return None if hasattr(values, "__len__") and len(found) != len(values) else found  # ends at an IndexError
    except Exception:
        return None


def _cell(cell: Callable[[int], Any], place: int) -> object:
    try:
        value = cell(place)
        return value.as_py() if hasattr(value, "as_py") else plain(value)
    except Exception:
        return None


def _of_array(kind: object) -> list[object]:
    """Returns the type inside a column of arrays of polars; an empty list for any other column."""
    return [kind.inner] if hasattr(kind, "inner") and hasattr(kind, "shape") else []


def _is_number(kind: object) -> bool:
    """Returns whether a column holds numbers or truth values: by its type of numpy, pandas or polars."""
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) == "Boolean"
    return getattr(kind, "kind", "") in tuple("biuf")


def _inner(kind: object) -> list[object]:
    """Returns a column's type, and that of its categories where it has some."""
    categories = getattr(getattr(kind, "categories", None), "dtype", None)
    return [kind, categories if categories is not None else getattr(kind, "value_type", None)]


def _is_no_label(kind: object) -> bool:
    """Returns whether no cell of a column can be a label, by its type of numpy, pandas, polars or pyarrow."""
    return _is_no_id(kind) or _is_time(kind) or getattr(kind, "kind", "") in tuple("MS") or _starts(kind, _NO_LABELS)


def _is_no_id(kind: object) -> bool:
    """Returns whether no cell of a column can say whose example it is, by its type."""
    return getattr(kind, "kind", "") in tuple("cmV") or _starts(kind, _NO_IDS)


def _starts(kind: object, names: tuple[str, ...]) -> bool:
    return str(kind).lower().startswith(names)


def _is_time(kind: object) -> bool:
    """Returns whether a column of polars holds dates, times or durations."""
    return bool(getattr(kind, "is_temporal", bool)())


_UNUSABLE_AS: dict[str, Callable[[object], bool]] = {"labels": _is_no_label, "persons": _is_no_id}
