import os
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from reticent import errors
from reticent.readers import Columns, read
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
