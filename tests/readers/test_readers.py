import io
import os
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from numpy.lib import format as npy
from pyarrow import parquet

from reticent import errors
from reticent.labels import canonical
from reticent.readers import Columns, Examples, limits, read
from reticent.sensitive.task import Task

TEXT = Columns(text="note", label="code", person="who")


def test_csv_is_text_whatever_it_looks_like(tmp_path):
    """No type is inferred from rows: 010 stays 010, and a column of numbers does not change type with one row."""
    file = tmp_path / "march.csv"
    file.write_text('who,note,code\n1,"a ""quoted"", note",010\n2,plain,E10\n')
    found = read(file, TEXT)
    assert found.inputs == ['a "quoted", note', "plain"]
    assert found.labels == ["010", "E10"]
    assert found.persons == ["1", "2"]
    assert "quoted" not in repr(found)


def test_rows_that_do_not_parse_are_left_out(tmp_path, capfd):
    file = tmp_path / "march.csv"
    file.write_bytes(b"note,code,who\ngood,E10,1\ntoo,many,fields,here\nshort\nbad \xff byte,E11,2\n,,\n")
    found = read(file, TEXT)
    assert found.inputs == ["good", "bad \ufffd byte", ""]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "bad", ['99,"open quote,E12', "99," + "x" * 2_000_000 + ",E12", '99,"a""b,c"d"",E12', "99,\0,E12"]
)
def test_one_line_does_not_change_another(tmp_path, bad):
    """Else one person's record could take others' out of the data."""
    good = [f"{i},note {i},E10" for i in range(50)]
    seen = []
    for lines in (good, [*good[:20], bad, *good[20:]]):
        (tmp_path / "march.csv").write_text("\n".join(["who,note,code", *lines]) + "\n")
        found = read(tmp_path / "march.csv", TEXT)
        seen.append([note for note, who in zip(found.inputs, found.persons or [], strict=True) if who != "99"])
    assert seen[0] == seen[1]
    assert len(seen[0]) == 50


def test_a_header_alone_is_an_empty_task(tmp_path):
    file = tmp_path / "march.csv"
    file.write_text("note,code,who\n")
    found = read(file, TEXT)
    assert (found.inputs, found.labels, found.persons) == ([], [], [])


def test_features_in_columns(tmp_path):
    file = tmp_path / "march.csv"
    file.write_text("a,b,code\n1,2,x\n3,oops,y\n,5,z\n")
    found = read(file, Columns(features=("b", "a"), label="code"))
    np.testing.assert_array_equal(found.inputs, [[2, 1], [np.nan, 3], [5, np.nan]])


def test_parquet(tmp_path):
    file = tmp_path / "march.parquet"
    parquet.write_table(pa.table({"note": ["x", None], "code": ["E10", None], "who": [1, 2]}), file)
    found = read(file, TEXT)
    assert (found.inputs, found.labels, found.persons) == (["x", None], ["E10", None], [1, 2])
    file.write_bytes(b"junk")
    with pytest.raises(errors.InvalidValue, match="not a readable Parquet"):
        read(file, TEXT)


def test_no_parquet_cell_raises(tmp_path):
    """Text that is not UTF-8 and a day beyond the calendar are missing values, not errors that show them."""
    file = tmp_path / "march.parquet"
    code = pa.array([b"E10", b"caf\xe9"]).view(pa.string())
    day = pa.array([1, 2_000_000_000], pa.int32()).view(pa.date32())
    parquet.write_table(pa.table({"note": ["x", "y"], "code": code, "who": day}), file)
    found = read(file, TEXT)
    assert (found.labels, found.persons) == (["E10", None], [date(1970, 1, 2), None])


@pytest.mark.parametrize("index", [pa.int8(), pa.int32(), pa.int64()])
def test_no_category_of_a_parquet_file_raises(tmp_path, index):
    file = tmp_path / "march.parquet"
    codes = pa.array([b"E10", b"caf\xe9", b"ARROW:schema"]).view(pa.string())
    category = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 0], index), codes)
    parquet.write_table(pa.table({"note": list("vwxyz"), "code": category, "who": range(5)}), file)
    found = read(file, TEXT)
    assert found.labels == ["E10", None, "ARROW:schema", None, "E10"]
    assert (found.inputs, found.persons) == (list("vwxyz"), [0, 1, 2, 3, 4])


def test_npz(tmp_path):
    file = tmp_path / "march.npz"
    np.savez(file, x=np.eye(2), y=np.array(["a", "b"]), who=np.array([7, 8]))
    found = read(file, Columns(person="who"))
    assert found.inputs.shape == (2, 2)
    assert found.labels is not None
    assert found.persons is not None
    assert (list(found.labels), list(found.persons)) == (["a", "b"], [7, 8])
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(errors.InvalidValue, match="plain arrays"):
        read(file, Columns())
    np.savez(file, x=np.array([{"pickled": 1}], dtype=object))
    with pytest.raises(errors.InvalidValue, match="plain arrays"):
        read(file, Columns())


def test_image_folders(tmp_path):
    for name in ("cat/1.png", "dog/2.JPG", "dog/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = read(tmp_path, Columns())
    assert [f.name for f in found.inputs] == ["1.png", "2.JPG"]
    assert found.labels == ["cat", "dog"]
    (tmp_path / "3.png").write_bytes(b"")
    assert read(tmp_path, Columns()).labels == ["cat", "dog"]
    assert read(tmp_path, Columns(), labelled=False).labels is None
    for name in ("cat/1.png", "dog/2.JPG"):
        (tmp_path / name).unlink()
    assert read(tmp_path, Columns()).labels == []  # one example less is no other kind of folder
    assert [f.name for f in read(tmp_path, Columns(), labelled=False).inputs] == ["3.png"]
    with pytest.raises(errors.InvalidValue, match="does not say whose they are"):
        read(tmp_path, Columns(person="patient"))


@pytest.mark.posix
def test_files_that_cannot_be_images_are_left_out(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_bytes(b"")
    (tmp_path / "cat" / "folder.png").mkdir()
    os.mkfifo(tmp_path / "cat" / "pipe.png")
    (tmp_path / "again").symlink_to(tmp_path / "cat")  # else each of its images had two labels
    found = read(tmp_path, Columns())
    assert [f.name for f in found.inputs] == ["1.png"]
    assert found.labels == ["cat"]


@pytest.mark.parametrize(
    ("name", "columns", "sentence"),
    [
        ("march.csv", Columns(text="text"), "^No column 'text' in the first line of march.csv.$"),
        ("bare.csv", TEXT, "^No column 'note' in the first line of bare.csv.$"),  # it has no header
        ("march.parquet", Columns(text="text"), r"Its columns: note, code\.$"),
        ("march.csv", Columns(label="code"), "column with the inputs"),
        ("march.txt", TEXT, "Expected a .csv"),
        ("absent.csv", TEXT, "No file at"),
    ],
)
def test_schema_errors_name_no_values(tmp_path, name, columns, sentence):
    (tmp_path / "march.csv").write_text("note,code,who\nsecret,secret,secret\n")
    (tmp_path / "bare.csv").write_text("secret,E10\nanother secret,E11\n")
    parquet.write_table(pa.table({"note": ["secret"], "code": ["secret"]}), tmp_path / "march.parquet")
    (tmp_path / "march.txt").write_text("x")
    with pytest.raises(errors.InvalidValue, match=sentence) as refusal:
        read(tmp_path / name, columns)
    assert "secret" not in str(refusal.value)
    with pytest.raises(errors.InvalidValue, match="one kind of input"):
        Columns(text="a", image="b")


def test_frames_are_inputs():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "y": ["p", "q"]})
    task = Task(frame[["a", "b"]], frame["y"])
    assert np.asarray(task.inputs).shape == (2, 2)
    assert task.labels == ["p", "q"]
    assert Task(frame["y"], frame["y"]).inputs == ["p", "q"]


def test_polars_frames_are_inputs():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame({"a": [1.0, 2.0], "y": ["p", "q"]})
    task = Task(frame.select("a"), frame["y"])
    assert np.asarray(task.inputs).shape == (2, 1)
    assert task.labels == ["p", "q"]


# --- what can be refused is refused by the schema


@pytest.mark.parametrize(
    ("column", "columns", "sentence"),
    [
        (pa.array([b"x"]), Columns(features=("a",), label="other"), "labels: texts or numbers, got binary"),
        (pa.array([date(2026, 1, 1)]), Columns(features=("a",), label="other"), "labels: texts or numbers, got date32"),
        (pa.array([Decimal("1.5")]), Columns(features=("a",), label="other"), "labels: texts or numbers, got decimal"),
        (pa.array([["nested"]]), Columns(features=("a",), label="other"), "labels: texts or numbers, got list"),
        (pa.array([{"b": 1}]), Columns(features=("a",), label="other"), "labels: texts or numbers, got struct"),
        (pa.array(["1.5"]), Columns(features=("other",), label="code"), "numbers, got string"),
        (pa.array([[1.5]]), Columns(features=("other",), label="code"), "numbers, got list"),
        (pa.array([7]), Columns(text="other", label="code"), "texts, got int64"),
        (pa.array([b"x"]), Columns(image="other", label="code"), "paths of images, got binary"),
        (pa.array([{"b": 1}]), Columns(features=("a",), label="code", person="other"), "ids, got struct"),
    ],
)
def test_parquet_types_that_no_row_can_have_are_refused(tmp_path, column, columns, sentence):
    """Every row would be left out, at full price; the schema is public."""
    file = tmp_path / "march.parquet"
    parquet.write_table(pa.table({"a": [1.0], "code": ["E10"], "other": column}), file)
    with pytest.raises(errors.InvalidValue, match=sentence):
        read(file, columns)
    parquet.write_table(pa.table({"a": [1.0], "code": ["E10"], "other": pa.nulls(1)}), file)
    assert read(file, columns).inputs is not None  # a column without any cell has no type


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("y", np.array([b"a", b"b"])),
        ("y", np.array(["2026-01-01", "2026-01-02"], "datetime64[D]")),
        ("y", np.array([1j, 2j])),
        ("y", np.zeros(2, [("a", int)])),
        ("x", np.array([[b"1"], [b"2"]])),
        ("x", np.array([[1], [2]], "timedelta64[s]")),
        ("who", np.array([1j, 2j])),
    ],
)
def test_npz_types_that_no_row_can_have_are_refused(tmp_path, name, column):
    file = tmp_path / "march.npz"
    np.savez(file, **{"x": np.eye(2), "y": np.array(["a", "b"]), "who": np.arange(2), name: column})
    with pytest.raises(errors.InvalidValue, match=f"Expected column '{name}' of march.npz to hold"):
        read(file, Columns(person="who"))


@pytest.mark.parametrize(
    "columns", [{"text": "a", "label": "a"}, {"features": ("a", "b", "a")}, {"text": "a", "label": "b", "person": "b"}]
)
def test_a_column_has_one_purpose(columns):
    with pytest.raises(errors.InvalidValue, match=r"got '[ab]' twice"):
        Columns(**columns)


def test_columns_of_one_name_are_refused(tmp_path):
    (tmp_path / "march.csv").write_text("note,code,code\nx,E10,secret\n")
    parquet.write_table(pa.table([["x"], ["E10"], ["y"]], names=["note", "code", "code"]), tmp_path / "march.parquet")
    for file in tmp_path.iterdir():
        with pytest.raises(errors.InvalidValue, match="Expected one column 'code'"):
            read(file, Columns(text="note", label="code"))


def test_npz_arrays_are_named_or_refused(tmp_path):
    file = tmp_path / "march.npz"
    np.savez(file, x=np.eye(2), y=np.array(["a", "b"]), notes=np.array(["p", "q"]))
    assert list(read(file, Columns(text="notes")).inputs) == ["p", "q"]
    with pytest.raises(errors.InvalidValue, match="one array of inputs"):
        read(file, Columns(features=("x", "z")))
    with pytest.raises(errors.InvalidValue, match="No column 'code'"):
        read(file, Columns(label="code"))


def test_a_folder_without_folders_is_refused(tmp_path):
    (tmp_path / "1.png").write_bytes(b"")
    with pytest.raises(errors.InvalidValue, match="one folder of images for each label"):
        read(tmp_path, Columns())
    (tmp_path / "cat").mkdir()
    assert read(tmp_path, Columns()).labels == []  # an empty one is a label without examples


@pytest.mark.parametrize("text", ["prénom,code\nx,E10\n".encode("latin-1"), "note,code\nx,E10\n".encode("utf-16")])
def test_a_header_that_is_not_utf8_is_refused(tmp_path, text):
    (tmp_path / "march.csv").write_bytes(text)
    with pytest.raises(errors.InvalidValue, match=r"first line of march\.csv is not UTF-8"):
        read(tmp_path / "march.csv", Columns(text="note", label="code"))


def test_cells_that_are_not_utf8_merge_neither_labels_nor_persons(tmp_path):
    """As one mark for any byte, two persons were one, and removing one of them brought in a row of the other."""
    lines = ["who,note,code", "Müller,x,café", "Möller,y,cafè", "plain,né,E10"]
    (tmp_path / "march.csv").write_bytes("\n".join(lines).encode("latin-1"))
    found = read(tmp_path / "march.csv", TEXT)
    assert found.inputs == ["x", "y", "n\ufffd"]
    assert [canonical(label) for label in found.labels or []] == [None, None, "E10"]
    assert Task(found.inputs, ["a"] * 3, found.persons)._capped(1).inputs == ["n\ufffd"]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    (tmp_path / "march.csv").write_text("\ufeffnote,code\nx,E10\n", encoding="utf-8")
    assert read(tmp_path / "march.csv", Columns(text="note", label="code")).inputs == ["x"]


def test_without_labels_each_line_is_a_row(tmp_path):
    """Else predictions stand beside other rows than theirs."""
    (tmp_path / "new.csv").write_text('a,b\n1,2\nshort\n\ntoo,many,cells\n3,4\n5,oops\n"open,6\n7,8\n')
    found = read(tmp_path / "new.csv", Columns(features=("a", "b")), labelled=False)
    wanted = [[1, 2], [np.nan] * 2, [np.nan] * 2, [3, 4], [5, np.nan], [np.nan] * 2, [7, 8]]
    np.testing.assert_array_equal(found.inputs, wanted)


@pytest.mark.parametrize("name", ["MARCH.CSV", "march.Parquet", "march.NPZ"])
def test_endings_of_any_case_are_read(tmp_path, name):
    file = tmp_path / name
    if name.endswith("CSV"):
        file.write_text("x,y\n1,a\n")
    elif name.endswith("NPZ"):
        with file.open("wb") as stream:
            np.savez(stream, x=np.ones((1, 1)), y=np.array(["a"]))
    else:
        parquet.write_table(pa.table({"x": [1.0], "y": ["a"]}), file)
    assert list(read(file, Columns(features=("x",), label="y")).labels or []) == ["a"]


def test_old_headers_are_read_without_a_warning(tmp_path):
    """A long integer of Python 2: numpy warns, and warnings are printed."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1L, 1L), }"
    array = npy.magic(1, 0) + (118).to_bytes(2, "little") + header.ljust(117) + b"\n" + bytes(8)
    with zipfile.ZipFile(tmp_path / "march.npz", "w") as archive:
        archive.writestr("x.npy", array)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert read(tmp_path / "march.npz", Columns()).inputs.shape == (1, 1)
    assert not told


# --- sizes are checked before anything is allocated


def grown(action: Callable[[], object]) -> float:
    """Returns how many MB were allocated at once."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def bomb(shape: tuple[int, ...], declared: int | None = None) -> bytes:
    """An NPZ file whose array x declares a shape; without its data, unless it is all zeros of `declared` bytes."""
    header, out = io.BytesIO(), io.BytesIO()
    npy.write_array_header_1_0(header, {"shape": shape, "fortran_order": False, "descr": "<f8"})
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(declared or 0))
    return out.getvalue()


def test_arrays_that_declare_more_than_they_hold_are_refused(tmp_path):
    file = tmp_path / "march.npz"
    file.write_bytes(bomb((1 << 20, 1 << 10)))  # 8 GB
    lying = bytearray(bomb((1 << 27, 1)))
    size = len(zipfile.ZipFile(io.BytesIO(lying)).read("x.npy"))
    lying = bytearray(bytes(lying).replace(size.to_bytes(4, "little"), (size + (1 << 30)).to_bytes(4, "little")))
    for content in (file.read_bytes(), bytes(lying)):
        file.write_bytes(content)

        def refused() -> None:
            with pytest.raises(errors.InvalidValue, match="plain arrays"):
                read(file, Columns())

        assert grown(refused) < 50


@pytest.mark.parametrize(
    ("kind", "shape", "sentence"),
    [("<U0", (10**12,), "plain arrays"), ("<U0", (3, 10**12), "plain arrays"), ("<f4", (10**12, 0), "half of this")],
)
def test_rows_that_take_no_bytes_are_counted(tmp_path, kind, shape, sentence):
    header = io.BytesIO()
    npy.write_array_header_1_0(header, {"shape": shape, "fortran_order": False, "descr": kind})
    with zipfile.ZipFile(tmp_path / "march.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(errors.InvalidValue, match=sentence):
        read(tmp_path / "march.npz", Columns())


def test_what_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_memory", lambda: 1 << 20)
    (tmp_path / "march.npz").write_bytes(bomb((1 << 17, 1), 1 << 20))
    parquet.write_table(pa.table({"x": np.zeros(1 << 17), "y": ["a"] * (1 << 17)}), tmp_path / "march.parquet")
    for file in tmp_path.iterdir():
        with pytest.raises(errors.InvalidValue, match="half of this machine's memory") as refusal:
            read(file, Columns(features=("x",)))
        assert not any(c.isdigit() for c in str(refusal.value))


def test_a_dictionary_is_not_spelled_out(tmp_path):
    """100,000 rows that share one text of 10 MB took a terabyte."""
    file = tmp_path / "march.parquet"
    for size in (10_000_000, 1_000_000):
        shared = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50_000, pa.int32()), pa.array(["x" * size, "short"]))
        parquet.write_table(pa.table({"note": shared, "code": shared}), file)
        found: list[Examples] = []
        assert grown(lambda: found.append(read(file, Columns(text="note", label="code")))) < 200  # noqa: B023
        kept = "x" * size if size < limits.LONGEST_CELL else None
        assert found[0].inputs[:2] == [kept, "short"]


def test_a_line_of_any_length_takes_little_memory(tmp_path):
    file = tmp_path / "march.csv"
    with file.open("w") as stream:
        stream.write("a,code\n1,E10\n2,")
        for _ in range(30):
            stream.write("x" * 4_000_000)
        stream.write("\n3,E11\n")
    found: list[Examples] = []
    assert grown(lambda: found.append(read(file, Columns(features=("a",), label="code")))) < 80
    assert found[0].labels == ["E10", "E11"]
