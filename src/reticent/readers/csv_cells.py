"""Lines one by one, as Python's own reader takes them: what every other way of reading a line must agree with."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from reticent.numerics.coded import Coded
from reticent.readers.examples import Columns
from reticent.readers.limits import LONGEST_LINE


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What the first line of a file says; all public.

    Args:
        columns: Which columns are what.
        folder: Where paths of images start.
        labelled: Whether lines that do not parse are left out; else each is a row of missing values.
        width: How many cells a line has.
        places: From each wanted column to where it is.
    """

    columns: Columns
    folder: Path
    labelled: bool
    width: int
    places: dict[str, int]

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns whose cells stay texts; one that is kept may be a feature, too."""
        features = set(self.columns.features) - set(self.columns.keep)
        return tuple(name for name in self.places if name not in features)

    def only(self, person: str) -> "Layout":
        """Returns the layout of the same lines, of which the person ids alone are wanted."""
        return replace(self, columns=Columns(person=person), places={person: self.places[person]})


@dataclass(frozen=True)
class Rows:
    """Sensitive: features of some lines, and the texts of their other columns."""

    features: npt.NDArray[np.float64]
    texts: dict[str, Coded]

    def __repr__(self) -> str:
        return "Rows(<sensitive>)"


def one_by_one(lines: Iterable[bytes | None], layout: Layout) -> tuple[Rows, list[int]]:
    """Returns rows, and which lines they are of: of a line that does not parse, missing values unless it is left out.

    Args:
        lines: Without their ends; None is one that was too long to be kept.
        layout: What the first line says.
    """
    parsed = [_parsed(line, layout.width) for line in lines]
    kept = [place for place, row in enumerate(parsed) if row is not None or not layout.labelled]
    rows = [parsed[place] for place in kept]
    places = [layout.places[name] for name in layout.columns.features]
    missing = [float("nan")] * len(places)
    features = [missing if row is None else _numbers([row[place] for place in places]) for row in rows]
    texts = {
        name: Coded.of([None if row is None else row[layout.places[name]] for row in rows]) for name in layout.texts
    }
    return Rows(np.array(features, dtype=np.float64).reshape(len(rows), len(places)), texts), kept


def fields(line: bytes) -> list[str]:
    """Returns all cells of a line; none where it does not parse.

    >>> fields(b'1,"a, b"')
    ['1', 'a, b']
    """
    try:
        return next(csv.reader([line.decode("utf-8", "surrogateescape")]), [])
    except csv.Error:
        return []


def number(cell: str) -> float:
    """Returns a cell as a number; NaN where it is none.

    >>> number("1e3"), number("one")
    (1000.0, nan)
    """
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def readable(cell: str) -> str:
    r"""Returns a text with marks in place of bytes that are not UTF-8.

    >>> readable("caf\udce9") == "caf\ufffd"
    True
    """
    return cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if undecodable(cell) else cell


def undecodable(cell: str) -> bool:
    """Returns whether a text holds bytes that are not UTF-8."""
    return not cell.isascii() and any("\udc80" <= c <= "\udcff" for c in cell)


def _parsed(line: bytes | None, width: int) -> list[str] | None:
    row = fields(line) if line is not None and len(line) <= LONGEST_LINE else []
    return row if len(row) == width else None


def _numbers(cells: Sequence[str]) -> list[float]:
    try:
        return list(map(float, cells))
    except ValueError:
        return list(map(number, cells))
