"""CSV: a line is an example and is read by itself, so that no line (an open quote, say) changes what another one is.

Lines that do not parse are left out, and every column is text: no type is inferred from the data. Texts that hold line
breaks need Parquet.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

from reticent.readers.examples import refuse_missing


def read_csv(path: Path, wanted: Sequence[str]) -> dict[str, list[object]]:
    """Returns the wanted columns, as texts."""
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        header = _fields(next(file, ""))
        refuse_missing(path, wanted, header, shown=False)  # where there is no header, its first line is an example
        rows = [row for row in map(_fields, file) if len(row) == len(header)]
    return {name: [row[header.index(name)] for row in rows] for name in wanted}


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []
