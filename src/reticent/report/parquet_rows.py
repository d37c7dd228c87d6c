"""Tables below each other as one Parquet file, one held at a time, though a later one may widen a column's type."""

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reticent.numerics.coded import Coded
from reticent.numerics.files import draft_of
from reticent.readers.parquet_files import library
from reticent.report.row_files import Column, Table, Write, finite, utf8


@contextlib.contextmanager
def parquet_rows(path: Path, texts: Collection[str]) -> Iterator[Write]:
    """Gives what writes tables to a file: numbers as numbers and all else as text, by the whole column.

    Where a later table has text in what was a column of numbers, what is written already is written once more.

    Args:
        path: The file.
        texts: Columns that are text whatever they hold.
    """
    rows = _Rows(path, texts)
    try:
        yield rows.write
    finally:
        rows.close()


class _Rows:
    def __init__(self, path: Path, texts: Collection[str]) -> None:
        self._path, self._texts = path, texts
        self._file: Any = None
        self._schema: Any = None

    def write(self, table: Table) -> None:
        import pyarrow

        columns = {name: _column(cells, text=name in self._texts) for name, cells in table.items()}
        found = pyarrow.table(columns)
        if self._file is None:
            self._open(found.schema)
        wider = pyarrow.schema(
            [(field.name, _wider(field.type, found.field(field.name).type)) for field in self._schema]
        )
        if wider != self._schema:
            self._write_again(wider)
        self._file.write_table(_cast(found, wider))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self, schema: Any) -> None:
        self._schema = schema
        self._file = library().ParquetWriter(self._path, schema)

    def _write_again(self, schema: Any) -> None:
        import pyarrow

        self.close()
        before = draft_of(self._path)
        os.replace(self._path, before)
        try:
            self._open(schema)
            with library().ParquetFile(before) as file:
                for batch in file.iter_batches():
                    self._file.write_table(_cast(pyarrow.Table.from_batches([batch]), schema))
        finally:
            before.unlink(missing_ok=True)


def _wider(one: Any, two: Any) -> Any:
    import pyarrow
    from pyarrow import types

    if one == two or types.is_null(two):
        return one
    if types.is_null(one):
        return two
    numbers = all(types.is_integer(kind) or types.is_floating(kind) for kind in (one, two))
    return pyarrow.float64() if numbers else pyarrow.string()


def _cast(table: Any, schema: Any) -> Any:
    import pyarrow

    columns = []
    for name, kind in zip(schema.names, schema.types, strict=True):
        column = table.column(name)
        if column.type != kind and kind == pyarrow.string():
            column = _text(column.to_pylist())
        columns.append(column.cast(kind, safe=False))
    return pyarrow.table(columns, schema=schema)


def _column(cells: Column, *, text: bool) -> Any:
    """Returns numbers as numbers and all else as text."""
    import pyarrow

    if isinstance(cells, Coded) and text:
        entries = _text(list(map(finite, cells.entries)))
        return entries.take(pyarrow.array(cells.codes, mask=cells.codes < 0))
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf" and not text:
        return pyarrow.array(cells, mask=~np.isfinite(cells))
    shown = [finite(cell) for cell in (cells.tolist() if isinstance(cells, np.ndarray) else cells)]
    if not text and all(cell is None or type(cell) in (int, float, bool) for cell in shown):
        with contextlib.suppress(pyarrow.ArrowInvalid, OverflowError):  # truth values among numbers; too large
            return pyarrow.array(shown)
    return _text(shown)


def _text(cells: list[object]) -> Any:
    import pyarrow

    return pyarrow.array([None if cell is None else utf8(str(cell)) for cell in cells], pyarrow.string())
