"""Coded: a column as codes into its distinct entries, so that what is asked of a cell is asked once per entry."""

import itertools
import sys
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
_LARGEST = (1 << 63) - 1
_DELETE = 0x7F  # the last character of ASCII, and no visible one
MISSING = frozenset({"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null", "None"})
"""Texts that programs write where a number or an id is missing. Labels may be any but the empty one."""
_MANY = 1 << 16  # cells from which on pyarrow, where it is installed, is worth its call: three times as fast


class Entries(Sequence[object]):
    """Sensitive: entries that become Python objects when the first of them is asked for.

    A million ids of which nothing but the codes is used never do.

    Args:
        size: How many there are.
        make: Returns them as Python objects.
        usual: int where no two of them are equal and all are whole numbers; str where all are texts that are ids as
            they stand: of ASCII, without whitespace around them, none `MISSING` and none that ends as 7.0 does.
    """

    def __init__(self, size: int, make: Callable[[], list[object]], *, usual: type | None = None) -> None:
        self._size, self._make, self.usual = size, make, usual
        self._made: list[object] | None = None

    def __repr__(self) -> str:
        return "Entries(<sensitive>)"

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: Any) -> Any:
        return self._listed()[place]

    def __iter__(self) -> Iterator[object]:
        return iter(self._listed())

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self._listed(),)

    def _listed(self) -> list[object]:
        if self._made is None:
            self._made = self._make()
        return self._made


@dataclass(frozen=True, eq=False)
class Coded:
    """Sensitive: one code for each cell, its place among the entries; -1 where a cell is missing or unreadable.

    Guarantees:
      - Equal cells of different types (1, 1.0, True, Decimal(1)) are different entries.   test_types_are_kept_apart
      - What it holds is what was given, cell by cell.                                     test_cells_come_back

    Args:
        codes: Shape (n,).
        entries: In the order of their first cells; of an array, and of codes that a file has, in any order.

    Example:
        >>> column = Coded.of(["a", None, "b", "a"])
        >>> column.codes.tolist(), column.entries
        ([0, -1, 1, 0], ['a', 'b'])
    """

    codes: npt.NDArray[np.int64]
    entries: Sequence[object]

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
        column = cells if isinstance(cells, list | np.ndarray) else list(cells)
        found = cls.at_once(column)
        if found is not None:
            return found
        kinds = set(map(type, column))
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

    @classmethod
    def at_once(cls, column: Any) -> "Coded | None":
        """Returns a column that is read without a look at each cell: a list of one plain type, or a NumPy array.

        None for any other column, one of which some cells are missing among them.

        Guarantees:
          - An array of numbers or texts has the cells of its `tolist`.   test_arrays_have_the_cells_of_their_lists
        """
        if type(column) in (np.ndarray, np.memmap) and column.ndim == 1:  # a masked array has missing cells
            return _of_whole_numbers(column) if column.dtype.kind in "iu" else _of_texts(column)
        kinds = set(map(type, column)) if type(column) is list else set()
        if len(kinds) != 1 or not kinds <= _NEVER_NAN:
            return None
        found = _by_pyarrow(column, *kinds) if len(column) >= _MANY else None
        if found is not None:
            return found
        table: dict[Any, int] = defaultdict(itertools.count().__next__)
        return cls(np.fromiter(map(table.__getitem__, column), np.int64, len(column)), list(table))

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


def _by_pyarrow(column: list[Any], kind: type) -> Coded | None:
    """Returns texts or whole numbers of these very types; None where pyarrow cannot hold them, or is missing."""
    try:
        import pyarrow

        kinds = {str: pyarrow.large_string(), int: pyarrow.int64()}
        coded = pyarrow.array(column, kinds[kind]).dictionary_encode()
    except (ImportError, KeyError, ValueError, OverflowError):  # half a character, a number of more than 64 bits
        return None
    codes, found = coded.indices.to_numpy().astype(np.int64), coded.dictionary
    usual = kind if kind is int or _are_usual(found) else None
    return Coded(codes, Entries(len(found), lambda: found.to_numpy(zero_copy_only=False).tolist(), usual=usual))


def _are_usual(texts: Any) -> bool:
    """Returns whether distinct texts of pyarrow, at least one of them, are ids as they stand."""
    import pyarrow
    from pyarrow import compute

    _, offsets, content = texts.buffers()
    at, letters = np.frombuffer(offsets, np.int64, len(texts) + 1), np.frombuffer(content or b"", np.uint8)
    if not (np.diff(at) > 0).all():
        return False
    letters = letters[: at[-1]]
    if letters.max() >= _DELETE or min(letters[at[:-1]].min(), letters[at[1:] - 1].min()) <= ord(" "):
        return False
    zeros = ((letters[:-1] == ord(".")) & (letters[1:] == ord("0"))).any()  # in few columns
    if zeros and compute.any(compute.match_substring_regex(texts, r"\.0+$")).as_py():
        return False
    return not compute.any(compute.is_in(texts, pyarrow.array(MISSING, texts.type))).as_py()


def _of_whole_numbers(column: npt.NDArray[Any]) -> Coded | None:
    """Returns an array of whole numbers; None where one of them has more than 63 bits."""
    if not len(column) or int(column.max()) > _LARGEST:
        return None
    numbers = np.ascontiguousarray(column, np.int64)
    least = int(numbers.min())
    if int(numbers.max()) - least < 2 * len(numbers):  # close together: counted instead of hashed
        shifted = numbers - least
        there = np.bincount(shifted) > 0
        codes, found = (np.cumsum(there) - 1)[shifted], np.flatnonzero(there) + least
    else:
        found, codes = _hashed(numbers) or np.unique(numbers, return_inverse=True)
    return Coded(codes, Entries(len(found), found.tolist, usual=int))


def _of_texts(column: npt.NDArray[Any]) -> Coded | None:
    """Returns an array of texts of a fixed length, or of bytes; None where pyarrow is missing, and for other arrays."""
    kind = column.dtype.newbyteorder("=")
    if kind.kind not in "US" or not kind.itemsize or len(column) < _MANY:
        return None
    found = _hashed(np.ascontiguousarray(column, kind))
    if found is None or (kind.kind == "U" and found[0].view(np.uint32).max() > sys.maxunicode):
        return None  # a letter beyond Unicode: that cell alone is missing
    return Coded(found[1], Entries(len(found[0]), found[0].tolist))


def _hashed(column: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]] | None:
    """Returns the distinct cells of an array and the place of each cell among them; None where pyarrow is missing.

    Cells are compared byte by byte, as numpy compares texts of one length.
    """
    try:
        import pyarrow
    except ImportError:
        return None
    kind = pyarrow.int64() if column.dtype.kind == "i" else pyarrow.binary(column.dtype.itemsize)
    coded = pyarrow.Array.from_buffers(kind, len(column), [None, pyarrow.py_buffer(column)]).dictionary_encode()
    entries = np.frombuffer(coded.dictionary.buffers()[1], column.dtype, len(coded.dictionary))
    return entries, coded.indices.to_numpy().astype(np.int64)
