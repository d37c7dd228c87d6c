"""Blocks of lines as examples. What becomes of a line depends on that line alone, whichever way it is read."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reticent.numerics.coded import Coded
from reticent.readers.csv_lines import is_blank
from reticent.readers.examples import Columns, Examples
from reticent.readers.limits import LONGEST_LINE
from reticent.readers.sources import named


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What the first line of a file says; all public.

    Args:
        columns: Which columns are what.
        folder: Where paths of images start.
        labelled: Whether lines that do not parse are left out; else each is a row of missing values.
        width: How many cells a line has.
        places: Where the wanted columns are.
    """

    columns: Columns
    folder: Path
    labelled: bool
    width: int
    places: tuple[int, ...]


def examples_of(block: bytes | None, layout: Layout) -> Examples:
    """Returns the examples of some lines; None is a line that was too long to be read."""
    rows = [None] if block is None else (row_of(line, layout) for line in _lines(block))
    missing = (None,) * len(layout.places)
    kept = [missing if row is None else row for row in rows if row is not None or not layout.labelled]
    cells = {name: [row[i] for row in kept] for i, name in enumerate(layout.columns.wanted)}
    columns = layout.columns
    if columns.features:
        numbers = [[number(cell) for cell in cells[name]] for name in columns.features]
        inputs: Any = named(np.ascontiguousarray(np.array(numbers, dtype=np.float64).T), columns.features)
    elif columns.image:
        inputs = [None if name is None else layout.folder / name for name in cells[columns.image]]
    else:
        inputs = [readable(cell) for cell in cells[columns.text or ""]]
    return Examples(
        inputs,
        Coded.of(cells[columns.label]) if columns.label else None,
        Coded.of(cells[columns.person]) if columns.person else None,
        {name: cells[name] for name in columns.keep},
    )


def row_of(line: bytes, layout: Layout) -> Sequence[str] | None:
    """Returns the wanted cells of a line; None where it does not parse."""
    row = fields(line) if len(line) <= LONGEST_LINE else ()
    return [row[i] for i in layout.places] if len(row) == layout.width else None


def fields(line: bytes) -> list[str]:
    """Returns all cells of a line; none where it does not parse.

    >>> fields(b'1,"a, b"')
    ['1', 'a, b']
    """
    try:
        return next(csv.reader([line.decode("utf-8", "surrogateescape")]), [])
    except csv.Error:
        return []


def number(cell: object) -> float:
    """Returns a cell as a number; NaN where it is none.

    >>> number("1e3"), number("one")
    (1000.0, nan)
    """
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def readable(cell: str | None) -> str | None:
    r"""Returns a text with marks in place of bytes that are not UTF-8.

    >>> readable("caf\udce9") == "caf\ufffd"
    True
    """
    if cell is not None and undecodable(cell):
        return cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return cell


def undecodable(cell: str) -> bool:
    """Returns whether a text holds bytes that are not UTF-8."""
    return not cell.isascii() and any("\udc80" <= c <= "\udcff" for c in cell)


def _lines(block: bytes) -> Iterator[bytes]:
    return (line for line in block.replace(b"\r", b"\n").split(b"\n") if not is_blank(line))
