"""Cells of record batches: features as one array without Python objects, labels and ids as codes of their entries."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from reticent.numerics.coded import Coded, Entries
from reticent.readers import parquet_types
from reticent.readers.examples import Columns, Examples
from reticent.readers.limits import LONGEST_CELL
from reticent.readers.sources import named

_LINE = 64  # bytes of a cache line


class SideBySide:
    """Sensitive: memory in which columns lie side by side before they become rows, used again for each batch of a pass.

    New memory for each batch would take as long as all the copying. An odd number of cache lines lies between the
    beginnings of two columns: cells of one row would else push each other out of the cache.
    """

    def __init__(self) -> None:
        self._memory: npt.NDArray[Any] = np.empty((0, 0), np.float32)

    def __repr__(self) -> str:
        return "SideBySide(<sensitive>)"

    def rows(self, columns: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.floating]:
        """Returns columns of one length as rows, of the smallest type that holds all of them."""
        kind, size = np.result_type(*{column.dtype for column in columns}), len(columns[0])
        held = self._memory
        if held.dtype != kind or held.shape[0] != len(columns) or held.shape[1] < size:
            lines = -(-size * kind.itemsize // _LINE) | 1
            self._memory = held = np.empty((len(columns), lines * _LINE // kind.itemsize), kind)
        for cells, column in zip(held, columns, strict=True):
            cells[:size] = column
        return held[:, :size].T.copy(order="C")  # always a copy: the next batch overwrites it


def examples_of(batch: Any, columns: Columns, folder: Path, memory: SideBySide) -> Examples:
    """Returns the examples of a record batch.

    Args:
        batch: Of pyarrow.
        columns: Which columns are what.
        folder: Where paths of images start.
        memory: Of this pass.
    """
    if columns.text:
        inputs: Any = coded(batch[columns.text]).cells()
    elif columns.image:
        names = coded(batch[columns.image])
        inputs = names.mapped(lambda name: None if name is None else folder / str(name)).cells()
    else:
        inputs = _features(batch, columns.features, memory)
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


def _objects(column: Any) -> tuple[Sequence[object], bool]:
    """Returns cells as Python objects, and whether none is missing; later where all can be read, else one by one."""
    from pyarrow import compute, types

    whole = column.null_count == 0
    if whole and types.is_integer(column.type):
        return Entries(len(column), column.to_numpy().tolist), True
    with suppress(Exception):  # pyarrow does not say what it raises for a text that is not UTF-8
        longest = compute.max(compute.binary_length(column)).as_py() if parquet_types.is_text(column.type) else None
        if whole and longest is not None and longest <= LONGEST_CELL:
            column.validate(full=True)
            return Entries(len(column), lambda: column.to_numpy(zero_copy_only=False).tolist()), True
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


def _features(batch: Any, names: Sequence[str], memory: SideBySide) -> npt.NDArray[np.floating]:
    """Returns numbers of shape (rows, features), NaN where one is missing; as float32 where that holds all of them."""
    size = parquet_types.list_size(batch[names[0]].type)
    if size:
        lists = batch[names[0]]
        inside = lists.values.slice(lists.offset * size, len(lists) * size)
        rows = _numbers(inside).reshape(len(lists), size)
        if lists.null_count:
            rows = np.where(np.asarray(lists.is_valid())[:, None], rows, np.nan).astype(rows.dtype)
        return rows
    return named(memory.rows([_numbers(batch[name]) for name in names]), names)


def _numbers(column: Any) -> npt.NDArray[np.floating]:
    """Returns a column of numbers, NaN where one is missing. The type of the array depends on that of the column."""
    import pyarrow
    from pyarrow import types

    kind = column.type
    small = types.is_float32(kind) or types.is_float16(kind)
    if small or types.is_float64(kind):
        floats: npt.NDArray[np.floating] = column.to_numpy(zero_copy_only=False)
        return floats.astype(np.float32 if small else np.float64, copy=False)
    if hasattr(column, "dictionary"):
        return _numbers(column.dictionary_decode())
    if types.is_null(kind):
        return np.full(len(column), np.nan, np.float32)
    if types.is_decimal(kind):  # exactly rounded, as Python does it
        found = coded(column)
        return np.array([*(float(cell) for cell in cast(list[Decimal], found.entries)), np.nan])[found.codes]
    if types.is_boolean(kind):
        column = column.cast(pyarrow.int8())
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
