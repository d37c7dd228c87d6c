"""Predictions as a CSV file, for spreadsheets on request."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from reticent import errors

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


def write_csv(path: Path, header: Sequence[object], rows: Iterable[Sequence[object]], *, safe: bool) -> None:
    """Writes a CSV file; bytes of file names that are not UTF-8 are written as they are.

    Args:
        path: Where to.
        header: Names of the columns.
        rows: The cells.
        safe: Whether texts that a spreadsheet would run as formulas get an apostrophe in front.
    """
    lines = (line if not safe else [without_formula(cell) for cell in line] for line in (header, *rows))
    try:
        with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            csv.writer(file).writerows(lines)
    except OSError as error:
        raise errors.InvalidValue(f"Cannot write {path}: {error.strerror}.") from error


def without_formula(cell: object) -> object:
    """Returns a cell that no spreadsheet runs: a text that begins like a formula gets an apostrophe in front.

    >>> [without_formula(cell) for cell in ("=1+1", "E10", -5)]
    ["'=1+1", 'E10', -5]
    """
    text = cell if isinstance(cell, int | float) else str("" if cell is None else cell)
    return f"'{text}" if isinstance(text, str) and text.startswith(_STARTS_A_FORMULA) else text
