"""Rows for other programs: CSV, Parquet, JSON or one JSON object per line, by the ending of the file."""

import csv
import io
import json
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from reticent import errors

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

Table = Mapping[str, Sequence[object]]


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
    check_ending(path)
    if path == STANDARD_OUTPUT:
        if isinstance(sys.stdout, io.TextIOWrapper):  # as for files: cells hold any bytes
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="")
        _csv(sys.stdout, table, safe)
        return
    try:
        if path.suffix.lower() == ".parquet":
            _parquet(path, table, texts)
        else:
            with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
                _WRITERS[path.suffix.lower()](file, table, safe)
    except OSError as error:
        raise errors.InvalidValue(f"Cannot write {path}: {error.strerror}.") from error


def finite(cell: object) -> object:
    """Returns None for a number that is none, such as the score of an answer that there is not.

    >>> finite(0.5), finite(float("-inf")), finite("E10")
    (0.5, None, 'E10')
    """
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def without_formula(cell: object) -> object:
    """Returns a cell that no spreadsheet runs: a text that begins like a formula gets an apostrophe in front.

    >>> [without_formula(cell) for cell in ("=1+1", "E10", -5)]
    ["'=1+1", 'E10', -5]
    """
    cell = finite(cell)
    text = cell if isinstance(cell, int | float) else str("" if cell is None else cell)
    return f"'{text}" if isinstance(text, str) and text.startswith(_STARTS_A_FORMULA) else text


def _csv(file: IO[str], table: Table, safe: bool) -> None:
    shown = without_formula if safe else finite
    csv.writer(file).writerows(map(shown, line) for line in (tuple(table), *zip(*table.values(), strict=True)))


def _json(file: IO[str], table: Table, safe: bool) -> None:
    del safe
    file.write(json.dumps(list(_records(table)), indent=2, default=str) + "\n")


def _json_lines(file: IO[str], table: Table, safe: bool) -> None:
    del safe
    file.writelines(json.dumps(record, default=str) + "\n" for record in _records(table))


_WRITERS = {".csv": _csv, ".json": _json, ".jsonl": _json_lines}


def _parquet(path: Path, table: Table, texts: Collection[str]) -> None:
    import pyarrow

    from reticent.readers.parquet_files import library

    columns = {name: _column(cells, text=name in texts) for name, cells in table.items()}
    library().write_table(pyarrow.table(columns), path)


def _column(cells: Sequence[object], *, text: bool) -> Any:
    """Returns numbers as numbers and all else as text, by the whole column: one type for its cells."""
    import pyarrow

    shown = list(map(finite, cells))
    if not text and all(cell is None or type(cell) in (int, float, bool) for cell in shown):
        return pyarrow.array(shown)
    return pyarrow.array([None if cell is None else _utf8(str(cell)) for cell in shown], pyarrow.string())


def _records(table: Table) -> list[dict[str, object]]:
    rows = zip(*table.values(), strict=True)
    return [{name: _plain(cell) for name, cell in zip(table, row, strict=True)} for row in rows]


def _plain(cell: object) -> object:
    return _utf8(cell) if isinstance(cell, str) else finite(cell)


def _utf8(text: str) -> str:
    """Returns a text with marks in place of bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
