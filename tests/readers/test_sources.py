"""Sources: files in batches and parts, of every format."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from reticent import errors
from reticent.numerics.coded import Coded
from reticent.readers import Columns, Examples, limits, open_source, parquet_cells, parquet_files, read, sources

ROWS, WIDTH = 1000, 3
NAMES = tuple(f"f{i}" for i in range(WIDTH))
MANY = Columns(features=NAMES, label="code", person="who", keep=("id",))
ONE = Columns(features=("x",), label="code", person="who", keep=("id",))
TEXT = Columns(text="note", label="code", person="who", keep=("id",))


def table(rows: int = ROWS) -> pa.Table:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(rows, WIDTH)).astype(np.float32)
    return pa.table(
        {
            **{name: x[:, i] for i, name in enumerate(NAMES)},
            "x": pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), WIDTH),
            "code": [f"label {i % 7}" for i in range(rows)],
            "who": [f"person {i // 2}" for i in range(rows)],
            "id": [f"row {i}" for i in range(rows)],
            "note": [f"note {i}" for i in range(rows)],
        }
    )


def as_parquet(folder: Path, rows: int = ROWS) -> Path:
    parquet.write_table(table(rows), folder / "march.parquet", row_group_size=90)
    return folder / "march.parquet"


def as_shards(folder: Path, rows: int = ROWS) -> Path:
    (folder / "march").mkdir()
    whole = table(rows)
    for i, start in enumerate(range(0, max(rows, 1), 400)):
        parquet.write_table(whole.slice(start, 400), folder / "march" / f"part-{i}.parquet")
    (folder / "march" / "_SUCCESS.parquet").write_bytes(b"")  # as Spark leaves one
    (folder / "march" / "notes.txt").write_text("x")
    return folder / "march"


def as_csv(folder: Path, rows: int = ROWS) -> Path:
    found = table(rows).drop_columns("x").to_pydict()
    lines = [",".join(map(str, row)) for row in zip(*found.values(), strict=True)]
    (folder / "march.csv").write_text("\n".join([",".join(found), *lines]) + "\n")
    return folder / "march.csv"


def as_npz(folder: Path, rows: int = ROWS, save: Callable[..., None] = np.savez) -> Path:
    found = table(rows)
    features = np.column_stack([found[name].to_numpy() for name in NAMES])
    columns = {name: np.array(found[name].to_pylist(), dtype="U20") for name in ("code", "who", "id", "note")}
    save(folder / "march.npz", x=features, **columns)
    return folder / "march.npz"


def as_compressed_npz(folder: Path, rows: int = ROWS) -> Path:
    return as_npz(folder, rows, np.savez_compressed)


FORMATS = [(as_parquet, MANY), (as_parquet, ONE), (as_parquet, TEXT), (as_shards, MANY), (as_shards, ONE)]
FORMATS += [(as_csv, MANY), (as_csv, TEXT), (as_npz, ONE), (as_compressed_npz, ONE)]
EACH = pytest.mark.parametrize(("made", "columns"), FORMATS, ids=lambda of: getattr(of, "__name__", "columns"))


@pytest.fixture
def small(monkeypatch):
    """Batches and parts as if memory were small."""
    for module in ("sources", "parquet_files", "npz_files"):
        monkeypatch.setattr(f"reticent.readers.{module}.BATCH", 1 << 10)
    for module in ("sources", "parquet_files", "csv_files"):
        monkeypatch.setattr(f"reticent.readers.{module}.PART", 1 << 12)
    monkeypatch.setattr("reticent.readers.csv_lines._BLOCK", 1 << 10)


def rows_of(batches: list[Examples]) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for batch in batches:
        assert isinstance(batch.labels, Coded)
        assert isinstance(batch.persons, Coded)
        inputs = batch.inputs.tolist() if isinstance(batch.inputs, np.ndarray) else batch.inputs
        cells = zip(inputs, batch.labels, batch.persons, batch.kept["id"], strict=True)
        found += [(tuple(row) if isinstance(row, list) else row, *more) for row, *more in cells]
    return found


@EACH
def test_parts_and_passes_are_the_whole(tmp_path, small, made, columns):
    """Read twice, in parts, and in parts that were sent to another process: the same examples in the same order."""
    source = open_source(made(tmp_path), columns)
    whole = rows_of(list(source))
    wanted = table().to_pylist()
    assert [row[1:] for row in whole] == [(row["code"], row["who"], row["id"]) for row in wanted]
    if columns is TEXT:
        assert [row[0] for row in whole] == [row["note"] for row in wanted]
    else:
        features = np.array([row[0] for row in whole], dtype=np.float32)
        np.testing.assert_array_equal(features, [[row[name] for name in NAMES] for row in wanted])
    assert rows_of(list(source)) == whole
    parts = source.parts()
    assert len(parts) > 1 or made in (as_npz, as_compressed_npz)
    assert rows_of([batch for part in parts for batch in part]) == whole
    sent = pickle.loads(pickle.dumps(parts))  # noqa: S301
    assert rows_of([batch for part in sent for batch in part]) == whole
    assert source.has_labels
    assert source.width == (None if columns is TEXT else WIDTH)
    assert "label" not in repr(source)
    assert str(ROWS) not in repr(parts)


@EACH
def test_ids_alone_are_those_of_the_examples(tmp_path, small, made, columns):
    for source in (whole := open_source(made(tmp_path), columns), *whole.parts()):
        wanted = [person for batch in source for person in batch.persons or ()]
        assert [person for ids in source.ids() for person in ids] == wanted
        assert source.has_persons
    nobody = open_source(whole.path, replace(columns, person=None))
    assert not nobody.has_persons
    assert list(nobody.ids()) == []


@EACH
def test_an_empty_file_is_an_empty_batch(tmp_path, made, columns):
    source = open_source(made(tmp_path, 0), columns)
    for batches in (list(source), [batch for part in source.parts() for batch in part]):
        assert batches
        assert rows_of(batches) == []
        if columns is not TEXT:
            assert all(batch.inputs.shape == (0, WIDTH) for batch in batches)
    assert len(read(source.path, columns).inputs) == 0


@EACH
def test_batches_are_of_bounded_size(tmp_path, small, made, columns):
    sizes = [len(batch.inputs) for batch in open_source(made(tmp_path), columns)]
    assert sum(sizes) == ROWS
    assert max(sizes) <= 130


@EACH
def test_read_is_the_concatenation(tmp_path, small, made, columns):
    path = made(tmp_path)
    found = read(path, columns)
    batches = list(open_source(path, columns))
    assert found.labels == [label for batch in batches for label in batch.labels or ()]
    assert found.kept["id"] == [cell for batch in batches for cell in batch.kept["id"]]
    if columns is MANY:
        assert found.inputs.columns == list(NAMES)
        assert all(batch.inputs.columns == list(NAMES) for batch in batches)


def test_folders_of_images_are_listed_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("reticent.readers.image_folders._BATCH", 2)
    for name in ("cat/1.png", "cat/2.png", "cat/3.png", "dog/1.png", "eel/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    source = open_source(tmp_path, Columns())
    wanted = read(tmp_path, Columns())
    for batches in (list(source), [batch for part in source.parts() for batch in part]):
        assert [path for batch in batches for path in batch.inputs] == wanted.inputs
        assert [label for batch in batches for label in batch.labels or ()] == wanted.labels == ["cat"] * 3 + ["dog"]
        assert max(len(batch.inputs) for batch in batches) == 2
    named = open_source(tmp_path, Columns(), labelled=False)
    assert [name for part in named.parts() for batch in part for name in batch.kept["file"]] == [
        "cat/1.png",
        "cat/2.png",
        "cat/3.png",
        "dog/1.png",
    ]


def test_standard_input_is_held(tmp_path, monkeypatch):
    """It cannot be read twice, so it is read once, and never leaves the process."""
    as_csv(tmp_path)
    with open(tmp_path / "march.csv") as file:
        monkeypatch.setattr("sys.stdin", file)
        source = open_source(Path("-"), MANY)
    assert rows_of(list(source)) == rows_of(list(source)) == rows_of(list(open_source(tmp_path / "march.csv", MANY)))
    assert source.parts() == [source]
    assert "row" not in repr(source)
    with pytest.raises(TypeError, match="sensitive"):
        pickle.dumps(source)


# --- Parquet: each type as Python would read it, cell by cell


@settings(max_examples=40, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.int8(),
        pa.uint64(),
        pa.float16(),
        pa.float32(),
        pa.float64(),
        pa.bool_(),
        pa.decimal128(20, 5),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns"),
        pa.uuid(),
        pa.binary(4),
        pa.null(),
    ],
    ids=str,
)
def test_codes_are_the_cells(kind, data):
    """However a column is coded, its cells are those that pyarrow reads one by one; NaN is missing."""
    cells = {
        "string": st.text(),
        "large_string": st.text(),
        "binary": st.binary(max_size=5),
        "int8": st.integers(-128, 127),
        "uint64": st.integers(0, 2**64 - 1),
        "halffloat": st.floats(width=16),
        "float": st.floats(width=32),
        "double": st.floats(),
        "bool": st.booleans(),
        "decimal128(20, 5)": st.decimals(-1000, 1000, places=5),
        "date32[day]": st.dates(),
        "timestamp[us, tz=UTC]": st.datetimes(timezones=st.just(UTC)),
        "timestamp[ns]": st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)),
        "extension<arrow.uuid>": st.uuids().map(lambda of: of.bytes),
        "fixed_size_binary[4]": st.binary(min_size=4, max_size=4),
        "null": st.none(),
    }[str(kind)]
    values = data.draw(st.lists(st.one_of(st.none(), cells), max_size=8))
    if str(kind) == "extension<arrow.uuid>":
        column = pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    else:
        column = pa.array(values, kind)
    for given_ in (column, column.slice(1), pa.concat_arrays([column, column])):
        wanted = [None if value != value else value for value in given_.to_pylist()]
        found = parquet_cells.coded(given_).cells()
        assert found == wanted
        assert list(map(type, found)) == list(map(type, wanted))


def written(folder: Path, column: Any, **more: Any) -> Path:
    parquet.write_table(pa.table({"x": column, "code": ["a"] * len(column), **more}), folder / "march.parquet")
    return folder / "march.parquet"


def features_of(folder: Path, column: Any) -> Any:
    return next(iter(open_source(written(folder, column), Columns(features=("x",), label="code")))).inputs


@pytest.mark.parametrize(
    "kind", [pa.float16(), pa.float32(), pa.float64(), pa.int8(), pa.int64(), pa.uint64()], ids=str
)
@pytest.mark.parametrize("listed", [False, True])
def test_numbers_of_any_type_are_features(tmp_path, kind, listed):
    """Missing ones are NaN; the type of the array is that of the column, whatever cells it has."""
    cells = [1, None, 3, 0]
    column = pa.array([1, 0, 3, 0], kind)
    column = pa.array([cell if cell is None else column[i] for i, cell in enumerate(cells)], kind)
    if listed:
        column = pa.FixedSizeListArray.from_arrays(column, 1)
    found = features_of(tmp_path, column)
    np.testing.assert_array_equal(found, [[1], [np.nan], [3], [0]])
    assert found.dtype == (np.float32 if str(kind) in ("halffloat", "float") else np.float64)
    assert features_of(tmp_path, column.slice(2)).dtype == found.dtype


@pytest.mark.parametrize(("rows", "width"), [(7, 1), (7, 2), (1, 3), (40, 16)])
def test_rows_of_columns_are_not_overwritten_by_the_next_batch(tmp_path, monkeypatch, rows, width):
    """Memory is used again for each batch: of one row or one column too, what was given before must stay as it was."""
    monkeypatch.setattr(parquet_files, "BATCH", 4 * width)  # one row in a batch
    x = np.random.default_rng(1).normal(size=(rows, width)).astype(np.float32)
    table = pa.table({f"f{i}": x[:, i] for i in range(width)})
    parquet.write_table(table, tmp_path / "x.parquet")
    columns = Columns(features=tuple(table.column_names))
    found = [batch.inputs for batch in open_source(tmp_path / "x.parquet", columns)]
    assert len(found) == rows
    assert np.array_equal(np.concatenate(found), x)
    memory = parquet_cells.SideBySide()
    whole, first, rest = (memory.rows([*x[part].T]) for part in (slice(None), slice(0, 1), slice(rows // 2, None)))
    assert np.array_equal(whole, x)
    assert np.array_equal(first, x[:1])
    assert np.array_equal(rest, x[rows // 2 :])
    assert whole.flags.c_contiguous
    assert repr(memory) == "SideBySide(<sensitive>)"


def test_decimals_and_truth_values_are_features_as_python_rounds_them(tmp_path):
    cells = [Decimal("0.1"), Decimal("12345678901234567.891"), None, Decimal("-0.3")]
    found = features_of(tmp_path, pa.array(cells, pa.decimal128(30, 10)))
    np.testing.assert_array_equal(found[:, 0], [np.nan if cell is None else float(cell) for cell in cells])
    np.testing.assert_array_equal(features_of(tmp_path, pa.array([True, None, False])), [[1], [np.nan], [0]])
    category = pa.array([1.5, None, 2.5, 1.5]).dictionary_encode()
    np.testing.assert_array_equal(features_of(tmp_path, category), [[1.5], [np.nan], [2.5], [1.5]])


def test_a_column_of_embeddings_is_features(tmp_path):
    """Every row of such a file was NaN, silently, and its whole budget was spent."""
    column = pa.array([[1.0, 2.0], None, [None, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))
    source = open_source(written(tmp_path, column), Columns(features=("x",), label="code"))
    found = next(iter(source)).inputs
    np.testing.assert_array_equal(found, [[1, 2], [np.nan, np.nan], [np.nan, 4], [5, 6]])
    assert found.dtype == np.float32
    assert source.width == 2
    sliced = pa.record_batch({"x": column}).slice(2)
    np.testing.assert_array_equal(
        parquet_cells._features(sliced, ["x"], parquet_cells.SideBySide()), [[np.nan, 4], [5, 6]]
    )


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1.0, 2.0]], pa.list_(pa.float32())),
        pa.array([[1.0, 2.0]], pa.large_list(pa.float32())),
        pa.array([["a", "b"]], pa.list_(pa.string(), 2)),
        pa.array([[[1.0], [2.0]]], pa.list_(pa.list_(pa.float32(), 1), 2)),
        pa.array([{"a": 1.0}]),
    ],
    ids=lambda column: str(column.type),
)
def test_lists_of_no_fixed_size_are_refused_by_the_schema(tmp_path, column):
    with pytest.raises(errors.InvalidValue, match="lists of numbers of one fixed size, or numbers, got"):
        open_source(written(tmp_path, column), Columns(features=("x",), label="code"))
    fixed = pa.array([[1.0]], pa.list_(pa.float32(), 1))
    with pytest.raises(errors.InvalidValue, match="to hold numbers, got fixed_size_list"):
        open_source(written(tmp_path, fixed, y=[1.0]), Columns(features=("y", "x"), label="code"))


def test_numbers_are_declared_by_the_schema(tmp_path):
    for kind, numeric in ((pa.int64(), True), (pa.bool_(), True), (pa.string(), False), (pa.null(), False)):
        file = written(tmp_path, pa.array([1.0]), y=pa.array([None], kind))
        assert open_source(file, Columns(features=("x",), label="y")).numeric is numeric


def test_a_large_row_group_is_refused_and_a_large_file_is_not(tmp_path, monkeypatch):
    path = as_parquet(tmp_path)
    monkeypatch.setattr(limits, "_memory", lambda: 1 << 15)
    assert sum(len(batch.inputs) for batch in open_source(path, MANY)) == ROWS
    with pytest.raises(errors.InvalidValue, match="half of this machine's memory"):
        read(path, MANY)
    parquet.write_table(table(), path)
    with pytest.raises(errors.InvalidValue, match="half of this machine's memory"):
        open_source(path, MANY)


def test_a_large_row_group_is_not_read_ahead(tmp_path, monkeypatch):
    """pyarrow would hold all of it: a gigabyte for 600,000 rows of 384 numbers."""
    monkeypatch.setattr("reticent.readers.parquet_files._LARGE", 1 << 20)
    monkeypatch.setattr("reticent.readers.parquet_files.BATCH", 1 << 20)
    numbers = np.random.default_rng(0).normal(size=1 << 23).astype(np.float32)
    path = written(tmp_path, pa.FixedSizeListArray.from_arrays(pa.array(numbers), 64))
    del numbers
    start = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - start for _ in open_source(path, Columns(features=("x",), label="code"))]
    assert len(held) > 20
    assert max(held) < path.stat().st_size / 2


# --- shards and files that are no good: one sentence, before anything is read


def test_shards_of_different_schema_are_refused(tmp_path):
    as_shards(tmp_path)
    last = tmp_path / "march" / "part-2.parquet"
    other = table(10).set_column(0, "f0", pa.array([1] * 10))
    parquet.write_table(other, last)
    sentence = "Expected column 'f0' of part-2.parquet to hold float as the files before it, got int64"
    with pytest.raises(errors.InvalidValue, match=sentence):
        open_source(tmp_path / "march", MANY)
    assert open_source(tmp_path / "march", ONE).width == WIDTH  # the column is not asked for
    parquet.write_table(table(10).drop_columns("f0"), last)
    with pytest.raises(errors.InvalidValue, match=r"No column 'f0' in part-2\.parquet"):
        open_source(tmp_path / "march", MANY)
    parquet.write_table(table(10).set_column(0, "f0", pa.nulls(10)), last)
    assert np.isnan(list(open_source(tmp_path / "march", MANY))[-1].inputs[:, 0]).all()


def test_an_unreadable_shard_is_refused_by_name(tmp_path):
    as_shards(tmp_path)
    last = tmp_path / "march" / "part-2.parquet"
    last.write_bytes(last.read_bytes()[:-5])
    with pytest.raises(errors.InvalidValue, match=r"^part-2\.parquet is not a readable Parquet file\.$"):
        open_source(tmp_path / "march", MANY)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_shard_that_is_no_file_is_refused(ending, tmp_path):
    """It was left out silently, and the budget spent on the others."""
    make = {"csv": as_csv, "parquet": as_parquet}[ending]
    make(tmp_path)
    lost = tmp_path / f"april.{ending}"
    sentence = rf"^Expected a file at april\.{ending} in [^ ]+, got a folder or a dead link\. Nothing was read\.$"
    lost.mkdir()
    with pytest.raises(errors.InvalidValue, match=sentence):
        open_source(tmp_path, MANY)
    lost.rmdir()
    lost.symlink_to(tmp_path / "nowhere")
    with pytest.raises(errors.InvalidValue, match=sentence):
        open_source(tmp_path, MANY)
    lost.rename(tmp_path / f"_april.{ending}")  # what other programs mark is none
    assert open_source(tmp_path, MANY).width == WIDTH


def test_shards_of_two_formats_are_refused(tmp_path):
    as_csv(tmp_path)
    as_parquet(tmp_path)
    with pytest.raises(errors.InvalidValue, match=r"files of one format"):
        open_source(tmp_path, MANY)
    both = [tmp_path / "march.csv", tmp_path / "march.csv"]
    assert len(rows_of(list(open_source(both, MANY)))) == 2 * ROWS
    (tmp_path / "other.csv").write_text("f0,code\n1,E10\n")
    with pytest.raises(errors.InvalidValue, match=r"No column 'f1' in the first line of other\.csv"):
        open_source([*both, tmp_path / "other.csv"], MANY)


def test_pages_that_cannot_be_read_are_one_sentence(tmp_path):
    """Bytes in the middle of a file are met while it is read."""
    path = as_parquet(tmp_path)
    content = bytearray(path.read_bytes())
    content[200:3000] = bytes(2800)
    path.write_bytes(content)
    with pytest.raises(errors.InvalidValue, match=r"^march\.parquet is not a readable Parquet file\.$"):
        list(open_source(path, MANY))


def test_a_file_that_changes_its_schema_while_it_is_read_is_refused(tmp_path):
    path = as_parquet(tmp_path)
    source = open_source(path, MANY)
    parquet.write_table(table(10).set_column(0, "f0", pa.array([1] * 10)), path)
    with pytest.raises(errors.InvalidValue, match="another schema than when it was opened"):
        list(source)


def test_texts_in_a_csv_column_of_numbers_change_no_type(tmp_path, small):
    """A column that is numbers at first and texts later: NaN where it is none, one type of array."""
    lines = ["f0,code", *(f"{i},a" for i in range(500)), *(f"text {i},a" for i in range(500))]
    (tmp_path / "march.csv").write_text("\n".join(lines))
    batches = list(open_source(tmp_path / "march.csv", Columns(features=("f0",), label="code")))
    assert {batch.inputs.dtype for batch in batches} == {np.dtype(np.float64)}
    found = np.concatenate([batch.inputs for batch in batches])[:, 0]
    np.testing.assert_array_equal(found, [*range(500), *[np.nan] * 500])


def test_npz_columns_of_other_lengths_are_refused(tmp_path):
    for name, sentence in (("y", "as many labels"), ("who", "as many persons"), ("id", "one value for each row")):
        arrays: dict[str, Any] = {
            "x": np.eye(3),
            "y": np.arange(3),
            "who": np.arange(3),
            "id": np.arange(3),
            name: np.arange(4),
        }
        np.savez(tmp_path / "march.npz", **arrays)
        with pytest.raises(errors.InvalidValue, match=sentence):
            open_source(tmp_path / "march.npz", Columns(person="who", keep=("id",)))
    np.savez(tmp_path / "march.npz", x=np.eye(3), y=np.eye(3))
    with pytest.raises(errors.InvalidValue, match="labels with one dimension"):
        open_source(tmp_path / "march.npz", Columns())


@pytest.mark.parametrize("names", [("1", "2"), ("2", "1")])
def test_shards_whose_lists_have_no_type_are_refused(names, tmp_path):
    """Their rows had another width than those of other files, which ended learning after the spend."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0]), 3)
    for name, column in zip(names, (lists, pa.nulls(1)), strict=True):
        parquet.write_table(pa.table({"x": column, "y": ["a"]}), tmp_path / f"{name}.parquet")
    with pytest.raises(errors.InvalidValue, match=f"of {names[1]}.parquet to hold fixed_size_list"):
        open_source(tmp_path, Columns(features=("x",), label="y"))


def test_npz_texts_are_no_features(tmp_path):
    """Else they were read as numbers after the spend, and a row that is none would end the learning of others."""
    np.savez(tmp_path / "march.npz", x=np.array([["1", "2"], ["3", "4"]]), y=np.arange(2))
    with pytest.raises(errors.InvalidValue, match="Expected texts with one dimension, got 2"):
        open_source(tmp_path / "march.npz", Columns())


def test_npz_arrays_in_columns_are_read_in_rows(tmp_path, small):
    whole = np.asfortranarray(np.arange(600.0).reshape(200, 3))
    np.savez(tmp_path / "march.npz", x=whole, y=np.arange(200) % 2)
    batches = list(open_source(tmp_path / "march.npz", Columns()))
    assert len(batches) > 1
    np.testing.assert_array_equal(np.concatenate([batch.inputs for batch in batches]), whole)


def test_dates_that_are_missing_are_nobody(tmp_path):
    who = np.array(["2026-01-01", "NaT", "NaT"], "datetime64[ns]")
    np.savez(tmp_path / "march.npz", x=np.eye(3), y=np.arange(3), who=who)
    found = read(tmp_path / "march.npz", Columns(person="who")).persons or []
    assert [str(day) == "NaT" for day in found] == [False, True, True]


def test_the_hostile_archive_is_read_in_bounded_memory(tmp_path):
    """A gigabyte of zeros in a megabyte: batch after batch, none of them large."""
    import tracemalloc

    np.savez_compressed(tmp_path / "march.npz", x=np.zeros((1 << 17, 256), np.float32))
    tracemalloc.start()
    try:
        for batch in open_source(tmp_path / "march.npz", Columns()):
            assert batch.inputs.nbytes <= sources.BATCH
        assert tracemalloc.get_traced_memory()[1] < 80e6
    finally:
        tracemalloc.stop()


def test_folders_without_files_and_names_that_are_no_list_are_named(tmp_path):
    (tmp_path / "march" / "deeper").mkdir(parents=True)
    with pytest.raises(errors.InvalidValue, match=r"No \.csv or \.parquet file in march"):
        open_source(tmp_path / "march", Columns(features=("a",), label="code", person="patient"))
    with pytest.raises(errors.InvalidValue, match=r"list of names, such as \['embedding'\]"):
        Columns(features="embedding", label="code")
    nothing: Any
    for nothing in (None, 3, []):
        with pytest.raises(errors.InvalidValue, match="Expected a path"):
            open_source(nothing, Columns(text="note"))
    for nothing in (None, {"text": "note"}):
        with pytest.raises(errors.InvalidValue, match="Expected columns to be"):
            open_source(tmp_path, nothing)
