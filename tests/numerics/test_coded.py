"""A column as codes: what is asked of a cell is asked once for each entry, and every cell comes back as it was."""

import pickle
import sys
from datetime import date
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pytest

from reticent.numerics import coded
from reticent.numerics.coded import Coded, Entries

COLUMNS = [
    [],
    ["a", "b", "a"],
    [3, 1, 3, 1 << 80],
    [True, False, True],
    [0.5, 1.5, 0.5],
    [b"x", b"y", b"x"],
    [date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 1)],
    [UUID(int=1), UUID(int=2), UUID(int=1)],
    ["a", None, "a", 1, 1.0, True, "1", None],
    [("a", 1), ("a", 1), ["list"], {"a": 1}],
]


@pytest.mark.parametrize("cells", COLUMNS)
def test_cells_come_back(cells):
    column = Coded.of(cells)
    assert column.cells() == list(column) == cells
    assert [type(cell) for cell in column] == [type(cell) for cell in cells]
    assert len(column) == len(cells)
    assert column.codes.dtype == np.int64
    assert Coded.of(column) is column
    assert Coded.of(iter(cells)).cells() == cells


@pytest.mark.parametrize("cells", COLUMNS[:8])
def test_entries_are_distinct_in_the_order_of_their_first_cells(cells):
    assert Coded.of(cells).entries == list(dict.fromkeys(cells))
    assert Coded.of([*cells, None]).entries == list(dict.fromkeys(cells))


ARRAYS = [
    np.array([3, 1, 3, -7]),
    np.array([3, 1, 3, 250], np.uint8)[::2],
    np.array([-(1 << 63), (1 << 63) - 1, 0, 0]),
    np.array([1 << 40, 3, 1 << 40], ">i8"),
    np.array([7, (1 << 63) - 1, 7], np.uint64),
    np.tile(np.array(["a", "", "long text", "\ud800", "a\0", "\0a", "\U0010ffff"]), 12_000),
    np.tile(np.array(["a", "ä", "b"], ">U2"), 30_000)[::-1],
    np.tile(np.array([b"a", b"", b"a\0b"]), 30_000),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype))
def test_arrays_have_the_cells_of_their_lists(array):
    column = Coded.at_once(array)
    assert column is not None
    assert column.cells() == array.tolist()
    assert [type(cell) for cell in column] == [type(cell) for cell in array.tolist()]
    assert len(column.entries) == len(set(column.entries)) == len(set(array.tolist()))
    assert column.codes.dtype == np.int64
    sent = pickle.loads(pickle.dumps(column))  # noqa: S301
    assert sent.cells() == array.tolist()
    assert repr(column.entries) == "Entries(<sensitive>)"


@pytest.mark.parametrize("far", [False, True])
def test_arrays_need_no_pyarrow(monkeypatch, far):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    array = np.array([5, -5, 5, 1 << 50 if far else 0])
    column = Coded.at_once(array)
    assert column is not None
    assert column.cells() == array.tolist()
    assert Coded.at_once(np.tile(np.array(["a", "b"]), 50_000)) is None


@pytest.mark.parametrize(
    ("cells", "usual"),
    [
        (["a", "b c", "~", "0", "10.1", "a.0b", "Nan"], str),
        (["a", ""], None),
        ([""], None),
        (["a", " b"], None),
        (["a", "b "], None),
        (["a", "\tb"], None),
        (["a", "\x1cb"], None),
        (["a", "b\x7f"], None),
        (["a", "ä"], None),
        (["a", "NA"], None),
        (["7", "8.00"], None),
        ([1, -(1 << 63), 0], int),
    ],
)
def test_usual_entries_are_told_from_others(cells, usual):
    """Ids that are missing or written in another way than their canonical text are looked at one by one."""
    many = cells * (1 + (coded._MANY // len(cells)))
    column = Coded.of(many)
    assert isinstance(column.entries, Entries)
    assert column.entries.usual is usual
    assert list(column.entries) == cells
    assert column.cells() == many


def test_arrays_with_missing_or_unreadable_cells_are_left_to_a_look_at_each_cell():
    masked = np.ma.array(np.arange(3), mask=[False, True, False])
    beyond = np.tile(np.array([97, 0x110000], np.uint32), 40_000).view("U1")
    large = np.array([1, 1 << 63], np.uint64)
    for array in (masked, beyond, large, np.array([0.5, np.nan]), np.array([True]), np.zeros((2, 2), np.int64)):
        assert Coded.at_once(array) is None


def test_types_are_kept_apart():
    cells = [1, 1.0, True, Decimal(1), Fraction(1), np.int64(1), "1", 1, 1.0, True]
    column = Coded.of(cells)
    assert column.codes.tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2]
    assert [type(entry) for entry in column.entries] == [type(cell) for cell in cells[:7]]


def test_missing_cells_have_no_entry():
    column = Coded.of([None, float("nan"), 0.5, float("nan")])
    assert (column.codes.tolist(), column.entries) == ([-1, -1, 0, -1], [0.5])
    assert Coded.of([float("nan")]).entries == []


class Loud:
    """An object whose code must not be run."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __hash__(self) -> int:
        raise AssertionError("hashed")


def test_objects_with_code_of_their_own_are_not_asked():
    assert Coded.of([Loud(), Loud(), "a"]).codes.tolist() == [0, 1, 2]


def test_some_cells():
    column = Coded.of(["a", "b", None, "a"])
    assert column.taken(np.array([3, 2])).cells() == ["a", None]
    assert column.taken(np.array([True, False, True, False])).cells() == ["a", None]
    assert column.taken(slice(1, 3)).cells() == ["b", None]
    assert column.taken(slice(1, 3)).entries is column.entries


def test_entries_are_asked_once():
    asked: list[object] = []

    def place(entry: object) -> int:
        asked.append(entry)
        return len(asked) * 10

    assert Coded.of(["a", "b", None, "a"]).places(place).tolist() == [10, 20, -1, 10]
    assert asked == ["a", "b"]
    assert Coded.of([]).places(place).tolist() == []
    changed = Coded.of(["a", "b", None, "a"]).mapped(lambda entry: "x" if entry == "a" else None)
    assert changed.cells() == ["x", None, None, "x"]


def test_columns_are_joined():
    joined = Coded.joined([Coded.of(["a", None]), Coded.of([]), Coded.of([None, "b", "a"])])
    assert joined.cells() == ["a", None, None, "b", "a"]
    assert Coded.joined([]).codes.dtype == np.int64


def test_it_shows_nothing():
    assert repr(Coded.of(["secret"])) == "Coded(<sensitive>)"


@pytest.mark.parametrize("missing", [False, True])
def test_long_columns_are_coded_like_short_ones(missing, monkeypatch):
    """By pyarrow where it is installed and can hold the cells; else by a dict."""
    numbers: list[int] = np.random.default_rng(0).integers(0, 900, 4_000).tolist()
    columns: list[list[object]] = [[*numbers], [f"é {i}" for i in numbers], [i << 60 for i in numbers], ["\ud800", "a"]]
    expected = [Coded.of(column) for column in columns]
    monkeypatch.setattr(coded, "_MANY", 1)
    if missing:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    for column, short in zip(columns, expected, strict=True):
        found = Coded.of(column)
        assert found.codes.tolist() == short.codes.tolist()
        assert list(found.entries) == list(short.entries)
        assert found.codes.dtype == np.int64
