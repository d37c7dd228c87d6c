"""Cells of record batches: features as one array without Python objects, labels and ids as codes of their entries."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from reticent.numerics.coded import Coded
from reticent.readers import parquet_types
from reticent.readers.examples import Columns, Examples
from reticent.readers.limits import LONGEST_CELL
from reticent.readers.sources import named


def examples_of(batch: Any, columns: Columns, folder: Path) -> Examples:
    """Returns the examples of a record batch; paths of images start at the folder."""
    if columns.text:
        inputs: Any = coded(batch[columns.text]).cells()
    elif columns.image:
        names = coded(batch[columns.image])
        inputs = names.mapped(lambda name: None if name is None else folder / str(name)).cells()
    else:
        inputs = _features(batch, columns.features)
    return Examples(
        inputs,
        coded(batch[columns.label]) if columns.label else None,
        coded(batch[columns.person]) if columns.person else None,
        {name: coded(batch[name]).cells() for name in columns.keep},
    )


def empty(schema: Any, wanted: Sequence[str]) -> Any:
    """Returns a record batch without rows."""
    import pyarrow

    kinds = [schema.field(name).type for name in wanted]
    return pyarrow.record_batch([pyarrow.array([], kind) for kind in kinds], names=list(wanted))


def coded(column: Any) -> Coded:
    """Returns a column as codes; each entry that occurs is read once, however many rows have it.

    An entry that is no Python object (text that is not UTF-8, a date beyond the calendar) or too long is missing.
    """
    if str(column.type) == "null":
        return Coded(np.full(len(column), -1), [])
    if hasattr(column, "dictionary"):
        found = column.indices.dictionary_encode()
        entries, plain = _objects(column.dictionary.take(found.dictionary))
    elif hasattr(column, "storage"):
        found = column.storage.dictionary_encode()
        entries, plain = _objects(type(column).from_storage(column.type, found.dictionary))
    else:
        found = column.dictionary_encode()
        entries, plain = _objects(found.dictionary)
    codes = found.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Coded(codes, entries) if plain else Coded(_without(codes, entries), entries)


def _objects(column: Any) -> tuple[list[object], bool]:
    """Returns cells as Python objects, and whether none is missing; at once where all can be read, else one by one."""
    from pyarrow import compute, types

    whole = column.null_count == 0
    if whole and types.is_integer(column.type):
        return column.to_numpy().tolist(), True
    with suppress(Exception):  # pyarrow does not say what it raises for a text that is not UTF-8
        longest = compute.max(compute.binary_length(column)).as_py() if parquet_types.is_text(column.type) else None
        if whole and longest is not None and longest <= LONGEST_CELL:
            return column.to_numpy(zero_copy_only=False).tolist(), True
    return [_value(cell) for cell in column], False


def _without(codes: npt.NDArray[np.int64], entries: Sequence[object]) -> npt.NDArray[np.int64]:
    """Returns codes with -1 in place of entries that are None or NaN."""
    missing = np.array([*(entry is None or entry != entry for entry in entries), True])
    return np.where(missing[codes], -1, codes)


def _value(cell: Any) -> object:
    """Returns a cell as a Python object, None where it is none (text that is not UTF-8, a date beyond the calendar)."""
    try:
        if hasattr(cell, "as_buffer") and cell.is_valid and cell.as_buffer().size > LONGEST_CELL:
            return None
        value: object = cell.as_py()
    except (ValueError, OverflowError):
        return None
    return value


def _features(batch: Any, names: Sequence[str]) -> npt.NDArray[np.floating]:
    """Returns numbers of shape (rows, features), NaN where one is missing; as float32 where that holds all of them."""
    size = parquet_types.list_size(batch[names[0]].type)
    if size:
        lists = batch[names[0]]
        inside = lists.values.slice(lists.offset * size, len(lists) * size)
        rows = _numbers(inside).reshape(len(lists), size)
        if lists.null_count:
            rows = np.where(np.asarray(lists.is_valid())[:, None], rows, np.nan).astype(rows.dtype)
        return rows
    columns = [_numbers(batch[name]) for name in names]
    found = np.empty((len(names), batch.num_rows), np.result_type(*(column.dtype for column in columns)))
    for row, column in zip(found, columns, strict=True):
        row[:] = column
    return named(np.ascontiguousarray(found.T), names)


def _numbers(column: Any) -> npt.NDArray[np.floating]:
    """Returns a column of numbers, NaN where one is missing. The type of the array depends on that of the column."""
    import pyarrow
    from pyarrow import types

    if hasattr(column, "dictionary"):
        column = column.dictionary_decode()
    kind = column.type
    if types.is_null(kind):
        return np.full(len(column), np.nan, np.float32)
    if types.is_decimal(kind):  # exactly rounded, as Python does it
        found = coded(column)
        return np.array([*(float(cell) for cell in cast(list[Decimal], found.entries)), np.nan])[found.codes]
    if types.is_boolean(kind):
        column = column.cast(pyarrow.int8())
    small = types.is_float32(kind) or types.is_float16(kind)
    array: npt.NDArray[np.floating] = column.to_numpy(zero_copy_only=False)
    return array.astype(np.float32 if small else np.float64, copy=False)
