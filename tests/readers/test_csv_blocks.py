"""CSV in bulk against the obvious way: Python's reader, one line after another, as bytes of text."""

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reticent.readers import Columns, csv_bulk, csv_lines, open_source, read
from reticent.readers.csv_blocks import examples_of
from reticent.readers.csv_cells import Layout, Rows

COLUMNS = Columns(features=("a", "b"), label="code", person="who", keep=("b", "note"))
HEADER = "who,a,code,b,note"
NUMBERS = [
    *("1", "-0.0", "1e3", ".5", "5.", "+7", "1_000", "0x10", "1e999", "1e-400", "1e", "--1", "1,5", "inf", "-Infinity"),
    *("nan", "nan(1)", "NA", "None", "null", "true", "", " 2", "2 ", "\t3", "\u00a04", "\u0663", "5e-324"),
    *("2.2250738585072011e-308", "0.1234567890123456789", "9007199254740993", "179769313486231580793" + "0" * 288),
]
SPECIAL = ['"', ",", "\r", "\n", "\r\n", "\0", "\ufeff", " ", "\udcff", "\udce9", "é", "\u2028", "\x85", "\x1c", "''"]
CELLS = st.one_of(
    st.sampled_from(NUMBERS),
    st.floats().map(repr),
    st.floats(width=32).map(repr),
    st.decimals(allow_nan=False).map(str),
    st.lists(st.one_of(st.sampled_from([*SPECIAL, *"ab1."]), st.characters()), max_size=6).map("".join),
)
LINES = st.one_of(st.lists(CELLS, min_size=5, max_size=5), st.lists(CELLS, max_size=7)).map(",".join)


def obvious(content: bytes, *, labelled: bool) -> list[tuple[object, ...]]:
    """One row for each line: a, b, code, who, the text of b, note."""
    found: list[tuple[object, ...]] = []
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="surrogateescape", newline="")
    for line in text:
        if not line.strip():
            continue
        try:
            row = next(csv.reader([line.rstrip("\r\n")]), [])
        except csv.Error:
            row = []
        if len(row) == 5:
            found.append((*(_float(row[i]) for i in (1, 3)), row[2], row[0], row[3], row[4]))
        elif not labelled:
            found.append((math.nan, math.nan, None, None, None, None))
    return found


def _float(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def rows_of(content: bytes, *, labelled: bool) -> list[tuple[object, ...]]:
    places = {name: HEADER.split(",").index(name) for name in COLUMNS.wanted}
    layout = Layout(columns=COLUMNS, folder=Path(), labelled=labelled, width=5, places=places)
    found = examples_of(content, layout)
    assert found.labels is not None
    assert found.persons is not None
    numbers = found.inputs.tolist()
    cells = zip(found.labels, found.persons, found.kept["b"], found.kept["note"], strict=True)
    return [(*row, *more) for row, more in zip(numbers, cells, strict=True)]


def bits(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [tuple(cell.hex() if isinstance(cell, float) else cell for cell in row) for row in rows]


@settings(max_examples=400, deadline=None)
@given(lines=st.lists(LINES, max_size=8), end=st.sampled_from(["\n", "\r\n", "\r"]), labelled=st.booleans())
@example(lines=["\ufeffp,1,E10,2,x", "\ufeffq,1,E10,2,x"], end="\n", labelled=True)
@example(lines=['p,1,"E10,2,x', "q,1,E10,2,x"], end="\n", labelled=False)
def test_bulk_is_line_by_line(lines, end, labelled):
    """Whatever lines a file holds, each gives the row that Python's reader makes of it alone, to the bit."""
    try:
        content = end.join(lines).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return
    wanted = obvious(content, labelled=labelled)
    assert bits(rows_of(content, labelled=labelled)) == bits(wanted)


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(LINES, max_size=6), data=st.data())
def test_a_block_is_its_lines(lines, data):
    """Cut anywhere between lines, the rows are the same: no line decides how another is read."""
    text = [line.replace("\r", "").replace("\n", "") for line in lines]
    try:
        content = [line.encode("utf-8", "surrogateescape") + b"\n" for line in text]
    except UnicodeEncodeError:
        return
    cut = data.draw(st.integers(0, len(content)))
    both = [rows_of(b"".join(part), labelled=False) for part in (content[:cut], content[cut:])]
    assert bits(rows_of(b"".join(content), labelled=False)) == bits([*both[0], *both[1]])


@settings(max_examples=300, deadline=None)
@given(value=st.one_of(st.floats(), st.floats(width=32), st.integers().map(float)), form=st.sampled_from("regf"))
def test_bulk_numbers_have_the_bits_of_python(value, form):
    text = repr(value) if form == "r" else f"{value:.{'17' if form == 'e' else '9'}{form}}"
    line = f"p,{text},E10,{text},x\n".encode()
    assert bits(rows_of(line * 3, labelled=True)) == bits(obvious(line * 3, labelled=True))


def test_plain_lines_are_read_in_bulk(monkeypatch):
    """Else the oracle compares the slow way with itself."""
    seen = []
    at_once = csv_bulk.at_once

    def watched(lines: bytes, layout: Layout) -> Rows:
        seen.append(lines)
        return at_once(lines, layout)

    monkeypatch.setattr(csv_bulk, "at_once", watched)
    rows_of(b"p,1,E10,2,x\nq,oops,E11,,y\n", labelled=True)
    rows_of(b'p,1,E10,2,x\nq,1,"E11",2,y\nshort\nr,1,E10,2,x\r\n', labelled=True)
    assert seen == [b"p,1,E10,2,x\nq,oops,E11,,y\n", b"p,1,E10,2,x\nr,1,E10,2,x"]


def test_without_pyarrow_lines_are_read_one_by_one(monkeypatch):
    monkeypatch.setattr(csv_bulk, "_is_installed", lambda: False)
    monkeypatch.delattr(csv_bulk, "at_once")
    assert rows_of(b"p,1,E10,2,x\n", labelled=True) == [(1.0, 2.0, "E10", "p", "2", "x")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [5, 16, 1 << 22])
def test_ranges_of_bytes_are_whole_lines(tmp_path, monkeypatch, end, block):
    """A line is in the part in which it begins, wherever parts and blocks are cut."""
    lines = ["1,x", "22,yy", "", "short", '"3,z', "4444,é", "5,w" * 9, "6,v"]
    file = tmp_path / "march.csv"
    file.write_bytes(end.join(["a,code", *lines]).encode())
    monkeypatch.setattr(csv_lines, "_BLOCK", block)
    columns = Columns(features=("a",), label="code")
    whole = read(file, columns, labelled=False)
    assert whole.labels == ["x", "yy", None, None, "é", None, "v"]
    for size in range(1, 40):
        monkeypatch.setattr("reticent.readers.csv_files.PART", size)
        parts = open_source(file, columns, labelled=False).parts()
        assert [label for part in parts for batch in part for label in batch.labels or ()] == whole.labels
        numbers = np.concatenate([batch.inputs for part in parts for batch in part])
        np.testing.assert_array_equal(numbers, whole.inputs)


def test_a_line_is_too_long_wherever_blocks_are_cut(tmp_path, monkeypatch):
    for module in ("csv_lines", "csv_cells", "csv_bulk"):
        monkeypatch.setattr(f"reticent.readers.{module}.LONGEST_LINE", 30)
    file = tmp_path / "march.csv"
    file.write_text("a,code\n1," + "x" * 28 + "\n2," + "y" * 29 + "\n3,z\n")
    for block in (3, 10, 64, 1000):
        monkeypatch.setattr(csv_lines, "_BLOCK", block)
        assert read(file, Columns(features=("a",), label="code")).labels == ["x" * 28, "z"]


def test_many_columns_in_any_order(tmp_path):
    names = [f"f{i}" for i in range(768)]
    values = np.random.default_rng(0).normal(size=(50, 768))
    lines = [",".join([*names, "code"]), *(",".join([*map(repr, row), "E10"]) for row in values.tolist())]
    file = tmp_path / "march.csv"
    file.write_text("\n".join(lines))

    found = read(file, Columns(features=tuple(reversed(names)), label="code"))
    np.testing.assert_array_equal(found.inputs, values[:, ::-1])
    assert found.inputs.flags.c_contiguous
