"""Rows for other programs: CSV, Parquet, JSON or one JSON object per line, by the ending of the file."""

import contextlib
import csv
import io
import json
import math
import os
import stat
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.numerics.coded import Coded
from reticent.numerics.files import draft_of

STANDARD_OUTPUT = Path("-")
ENDINGS = (".csv", ".parquet", ".json", ".jsonl")
_STARTS_A_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
)  # the last full-width

Column = Sequence[object] | Coded | npt.NDArray[Any]
Table = Mapping[str, Column]
Write = Callable[[Table], None]


def check_ending(path: Path) -> None:
    """Refuses a file in whose format rows cannot be written, before anything is computed.

    >>> check_ending(Path("out.jsonl"))
    """
    if path != STANDARD_OUTPUT and path.suffix.lower() not in ENDINGS:
        raise errors.InvalidValue(
            f"Expected a file that ends in {', '.join(ENDINGS)}, or - for CSV on standard output, got {path.name}."
        )
    if path.suffix.lower() == ".parquet":
        from reticent.readers.parquet_files import library

        library()


def write_rows(path: Path, table: Table, *, texts: Collection[str] = (), safe: bool = False) -> None:
    """Writes columns of equal length; missing values are empty in CSV and null elsewhere. Parquet: texts or numbers.

    Args:
        path: Where to; "-" writes CSV to standard output.
        table: From the name of a column to its cells.
        texts: Columns that are text in Parquet whatever they hold, so that every file has one schema.
        safe: In CSV, whether texts that a spreadsheet would run as formulas get an apostrophe in front.
    """
    write_batches(path, [table], texts=texts, safe=safe)


def write_batches(path: Path, tables: Iterable[Table], *, texts: Collection[str] = (), safe: bool = False) -> None:
    """Writes tables with the same columns below each other, holding one at a time.

    Guarantees:
      - The same rows as those of one table.                            test_batches_are_written_like_one_table
      - A file has its name once it is whole; what fails before leaves the one that was there.
                                                                        test_a_file_is_written_whole_or_not_at_all

    Args:
        path: Where to; "-" writes CSV to standard output.
        tables: At least one, which may have no rows.
        texts: As in `write_rows`.
        safe: As in `write_rows`.
    """
    check_ending(path)
    if path == STANDARD_OUTPUT:
        if isinstance(sys.stdout, io.TextIOWrapper):  # as for files: cells hold any bytes
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="")
        with _csv(sys.stdout, safe) as write:
            for table in tables:
                write(_with_texts(table, texts))
        return
    ending = path.suffix.lower()
    try:
        with _draft_of(path) as draft, contextlib.ExitStack() as stack:
            if ending == ".parquet":
                from reticent.report.parquet_rows import parquet_rows

                write = stack.enter_context(parquet_rows(draft, texts))
            else:
                file = stack.enter_context(open(draft, "w", newline="", encoding="utf-8", errors="surrogateescape"))
                write = stack.enter_context(_WRITERS[ending](file, safe))
            for table in tables:
                write(_with_texts(table, texts))
    except OSError as error:
        raise errors.InvalidValue(f"Cannot write {path}: {error.strerror}.") from error


@contextlib.contextmanager
def _draft_of(path: Path) -> Iterator[Path]:
    """Gives a file that gets its name once it is whole; what is no file, such as a pipe, is written as it is."""
    place = path.resolve()  # a link stays one
    if place.exists() and not place.is_file():
        yield place
        return
    draft = draft_of(place)
    mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o666  # nobody may read it who could not before
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    try:
        yield draft
        os.replace(draft, place)
    finally:
        draft.unlink(missing_ok=True)


def finite(cell: object) -> object:
    """Returns None for a number that is none, such as the score of an answer that there is not.

    >>> finite(0.5), finite(float("-inf")), finite("E10")
    (0.5, None, 'E10')
    """
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _with_texts(table: Table, texts: Collection[str]) -> Table:
    """Returns a table whose columns of texts spell infinite numbers, which are labels there and no missing scores."""
    return {name: _spelled(column) if name in texts else column for name, column in table.items()}


def _spelled(column: Column) -> Column:
    return column.mapped(infinite) if isinstance(column, Coded) else list(map(infinite, column))


def infinite(cell: object) -> object:
    """Returns the text of an infinite number, also within a tuple, and any other cell as it is.

    >>> infinite(float("inf")), infinite(0.5), infinite(("a", float("-inf")))
    ('inf', 0.5, ('a', '-inf'))
    """
    if isinstance(cell, tuple):
        return tuple(map(infinite, cell))
    return str(cell) if isinstance(cell, float) and math.isinf(cell) else cell


def without_formula(cell: object) -> object:
    """Returns a cell that no spreadsheet runs: a text that begins like a formula gets an apostrophe in front.

    >>> [without_formula(cell) for cell in ("=1+1", "E10", -5)]
    ["'=1+1", 'E10', -5]
    """
    cell = finite(cell)
    text = cell if isinstance(cell, int | float) else str("" if cell is None else cell)
    return f"'{text}" if isinstance(text, str) and text.startswith(_STARTS_A_FORMULA) else text


@contextlib.contextmanager
def _csv(file: IO[str], safe: bool) -> Iterator[Write]:
    rows, began = csv.writer(file), False

    def write(table: Table) -> None:
        nonlocal began
        if not began:
            rows.writerow(map(without_formula if safe else finite, table))
        began = True
        rows.writerows(
            zip(*(_cells(column, without_formula if safe else finite) for column in table.values()), strict=True)
        )

    yield write


@contextlib.contextmanager
def _json(file: IO[str], safe: bool) -> Iterator[Write]:
    del safe
    before = "["

    def write(table: Table) -> None:
        nonlocal before
        for record in _records(table):
            text = json.dumps(record, indent=2, default=str)
            file.write(before + "\n" + textwrap.indent(text, "  "))
            before = ","

    yield write
    file.write("[]\n" if before == "[" else "\n]\n")


@contextlib.contextmanager
def _json_lines(file: IO[str], safe: bool) -> Iterator[Write]:
    del safe
    yield lambda table: file.writelines(json.dumps(record, default=str) + "\n" for record in _records(table))


_WRITERS = {".csv": _csv, ".json": _json, ".jsonl": _json_lines}


def _cells(column: Column, shown: Callable[[object], object]) -> Iterable[object]:
    """Returns cells as they are shown; of a column of codes each entry is looked at once."""
    if isinstance(column, Coded):
        return column.mapped(shown).cells()
    cells = column.tolist() if isinstance(column, np.ndarray) else column
    is_whole = isinstance(column, np.ndarray) and column.dtype.kind in "iu"
    return cells if is_whole else map(shown, cells)


def _records(table: Table) -> Iterator[dict[str, object]]:
    for row in zip(*(_cells(column, _plain) for column in table.values()), strict=True):
        yield dict(zip(table, row, strict=True))


def _plain(cell: object) -> object:
    return utf8(cell) if isinstance(cell, str) else finite(cell)


def utf8(text: str) -> str:
    """Returns a text with marks in place of bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
