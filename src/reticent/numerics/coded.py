"""Coded: a column as codes into its distinct entries, so that what is asked of a cell is asked once per entry."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

# Equal objects of one of these very types are the same cell; of any other type (one with code of its own, or one whose
# equal values may be read apart) each cell is an entry of its own.
_PLAIN = frozenset({str, int, float, bool, bytes, date, UUID})
_NEVER_NAN = _PLAIN - {float}
_MANY = 1 << 16  # cells from which on pyarrow, where it is installed, is worth its call: three times as fast


@dataclass(frozen=True, eq=False)
class Coded:
    """Sensitive: one code for each cell, its place among the entries; -1 where a cell is missing or unreadable.

    Guarantees:
      - Equal cells of different types (1, 1.0, True, Decimal(1)) are different entries.   test_types_are_kept_apart
      - What it holds is what was given, cell by cell.                                     test_cells_come_back

    Args:
        codes: Shape (n,).
        entries: In the order of their first cells; of an array of codes that a file has, in any order.

    Example:
        >>> column = Coded.of(["a", None, "b", "a"])
        >>> column.codes.tolist(), column.entries
        ([0, -1, 1, 0], ['a', 'b'])
    """

    codes: npt.NDArray[np.int64]
    entries: list[object]

    def __repr__(self) -> str:
        return "Coded(<sensitive>)"

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[object]:
        return iter(self.cells())

    @classmethod
    def of(cls, cells: "Iterable[object] | Coded") -> "Coded":
        """Returns a column of cells; None and NaN are missing."""
        if isinstance(cells, Coded):
            return cells
        column = cells if isinstance(cells, list) else list(cells)
        kinds = set(map(type, column))
        if len(kinds) == 1 and kinds <= _NEVER_NAN:
            found = _by_pyarrow(column, *kinds) if len(column) >= _MANY else None
            if found is not None:
                return cls(*found)
            table: dict[Any, int] = defaultdict(itertools.count().__next__)
            return cls(np.fromiter(map(table.__getitem__, column), np.int64, len(column)), list(table))
        entries: list[object] = []
        tables: dict[type, dict[Any, int]] = {kind: {} for kind in kinds & _PLAIN}

        def code(cell: object) -> int:
            if cell is None or (type(cell) is float and cell != cell):
                return -1
            mine = tables.get(type(cell))
            found = None if mine is None else mine.get(cell)
            if found is None:
                found = len(entries)
                entries.append(cell)
                if mine is not None:
                    mine[cell] = found
            return found

        return cls(np.fromiter(map(code, column), np.int64, len(column)), entries)

    def taken(self, rows: "npt.NDArray[np.integer[Any] | np.bool_] | slice") -> "Coded":
        """Returns some of the cells, by place, by mask or by range; the entries stay."""
        return Coded(self.codes[rows], self.entries)

    def cells(self) -> list[object]:
        """Returns the column as Python objects; None where a cell is missing."""
        return list(map([*self.entries, None].__getitem__, self.codes.tolist()))

    def mapped(self, change: Callable[[object], object]) -> "Coded":
        """Returns the column with every entry changed; one that becomes None is missing. Entries may become equal.

        >>> Coded.of(["a", "b"]).mapped({"a": 1}.get).cells()
        [1, None]
        """
        return Coded(self.codes, [change(entry) for entry in self.entries])

    def places(self, place: Callable[[object], int]) -> npt.NDArray[np.int64]:
        """Returns one number for each cell, asked once for each entry; -1 where a cell is missing.

        >>> Coded.of(["a", None, "a"]).places({"a": 7}.__getitem__).tolist()
        [7, -1, 7]
        """
        numbers = np.fromiter(map(place, self.entries), np.int64, len(self.entries))
        return np.append(numbers, -1)[self.codes]

    @classmethod
    def joined(cls, columns: "Sequence[Coded]") -> "Coded":
        """Returns columns one after another; an entry that several have stands there for each of them."""
        starts = itertools.accumulate((len(column.entries) for column in columns), initial=0)
        codes = [
            np.where(column.codes < 0, -1, column.codes + start) for column, start in zip(columns, starts, strict=False)
        ]
        entries = [entry for column in columns for entry in column.entries]
        return cls(np.concatenate([*codes, np.zeros(0, np.int64)]), entries)


def _by_pyarrow(column: list[Any], kind: type) -> tuple[npt.NDArray[np.int64], list[object]] | None:
    """Returns the codes and entries of texts or whole numbers; None where pyarrow cannot hold them, or is missing."""
    try:
        import pyarrow

        kinds = {str: pyarrow.large_string(), int: pyarrow.int64()}
        coded = pyarrow.array(column, kinds[kind]).dictionary_encode()
    except (ImportError, KeyError, ValueError, OverflowError):  # half a character, a number of more than 64 bits
        return None
    codes = coded.indices.to_numpy().astype(np.int64)
    first = np.zeros(len(coded.dictionary), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of several rows the first one is written last
    return codes, list(map(column.__getitem__, first.tolist()))
