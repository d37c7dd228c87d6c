"""CSV: a line is an example and is read by itself, so that no line (an open quote, say) changes what another one is.

Lines that do not parse are left out, and every column is text: no type is inferred from the data. Bytes that are not
UTF-8 stay in their cell as Python keeps them in names of files: two ids that differ in such bytes alone are not one
person, and neither is a label or an id. Texts that hold line breaks need Parquet.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from reticent import errors
from reticent.readers.examples import Columns, refuse_missing
from reticent.readers.limits import LONGEST_LINE

STANDARD_INPUT = Path("-")
_ENDS = ("\n", "\r")


def read_csv(path: Path, columns: Columns, *, labelled: bool) -> dict[str, list[object]]:
    """Returns the wanted columns, as texts; without labels a line that does not parse is a row of missing values.

    Args:
        path: The file; "-" is standard input.
        columns: Which columns are what.
        labelled: Whether rows without a label are left out.
    """
    source: int | Path = path
    if path == STANDARD_INPUT:
        source, path = sys.stdin.fileno(), Path("standard input")
    with open(source, newline="", encoding="utf-8-sig", errors="surrogateescape", closefd=source is path) as file:
        lines = _lines(file)
        header = _fields(next(lines, None))
        if any(map(_undecodable, header)):
            raise errors.InvalidValue(f"The first line of {path.name} is not UTF-8. Save the file as UTF-8.")
        _refuse_other_formats(path, columns, header)
        refuse_missing(path, columns.wanted, header, shown=False)  # without a header the first line is an example
        places = [header.index(name) for name in columns.wanted]
        rows = (row if len(row) == len(header) else None for row in map(_fields, lines))
        missing: list[object] = [None] * len(places)
        kept = [[row[i] for i in places] if row else missing for row in rows if row or not labelled]
    return {name: [row[i] for row in kept] for i, name in enumerate(columns.wanted)}


def _refuse_other_formats(path: Path, columns: Columns, header: list[str]) -> None:
    """Refuses a file without a first line, and one whose columns are separated by something else, and says so.

    Only a line that holds all wanted names is told from an example, of which nothing may be said.
    """
    if not header:
        raise errors.InvalidValue(f"{path.name} is empty. Expected names of columns in its first line.")
    for separator, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        parts = [part.strip().strip('"') for part in separator.join(header).split(separator)]
        if len(parts) > len(header) and set(columns.wanted) <= set(parts):
            raise errors.InvalidValue(
                f"The columns of {path.name} are separated by {called}. Save it with commas, or as Parquet."
            )


def readable(cell: object) -> object:
    r"""Returns a text with marks in place of bytes that are not UTF-8; any other cell as it is.

    >>> readable("caf\udce9") == "caf\ufffd"
    True
    """
    if isinstance(cell, str) and _undecodable(cell):
        return cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return cell


def _undecodable(cell: str) -> bool:
    return not cell.isascii() and any("\udc80" <= c <= "\udcff" for c in cell)


def _lines(file: TextIO) -> Iterator[str | None]:
    """Yields lines one by one, None for one that is too long; empty ones are no rows."""
    while line := file.readline(LONGEST_LINE):
        if line.strip():
            yield line if line.endswith(_ENDS) or len(line) < LONGEST_LINE else None
        while line and not line.endswith(_ENDS):
            line = file.readline(LONGEST_LINE)


def _fields(line: str | None) -> list[str]:
    try:
        return next(csv.reader([] if line is None else [line]), [])
    except csv.Error:
        return []
