"""A CSV file of the user's own, as spreadsheets write it and as it goes wrong."""

import csv
import sys
from pathlib import Path

import pytest

from reticent import errors
from reticent.lab.data import datasets
from reticent.lab.data.datasets import Data, MissingData

ROWS = "note,queue\nrain and wind,weather\nmy account,money\n"


def load(tmp_path: Path, content: bytes, *, text: str | None = "note", label: str | None = "queue") -> Data:
    file = tmp_path / "mine.csv"
    file.write_bytes(content)
    return datasets.load(str(file), tmp_path, text=text, label=label)


@pytest.mark.parametrize(
    "content",
    [
        ROWS.encode(),
        ROWS.encode("utf-8-sig"),
        ROWS.replace("\n", "\r\n").encode("utf-8-sig"),
        ROWS.replace("\n", "\n\n").encode(),
    ],
    ids=["plain", "marked", "from a spreadsheet", "empty lines"],
)
def test_texts_and_labels(tmp_path, content):
    data = load(tmp_path, content)
    assert data.inputs == ["rain and wind", "my account"]
    assert data.labels.tolist() == ["weather", "money"]


def test_rows_without_a_label_are_left_out(tmp_path):
    data = load(tmp_path, f'{ROWS}lost,\nlost too,  \n"no, text",money\n'.encode())
    assert data.inputs == ["rain and wind", "my account", "no, text"]
    assert data.labels.tolist() == ["weather", "money", "money"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            f"{ROWS}short\n".encode(),
            "Line 4 of mine.csv has 1 entries, the first line 2. Quote entries that have a comma",
        ),
        (f"{ROWS}one, two,money\n".encode(), "Line 4 of mine.csv has 3 entries, the first line 2."),
        ("note,queue\ncafé,food\n".encode("latin-1"), "mine.csv is not in UTF-8. Save it as CSV in UTF-8."),
        (ROWS.encode("utf-16"), "mine.csv is not in UTF-8."),
        (b"note,queue\na,\n", "Expected rows with a label in mine.csv; there are none."),
        (b"note,queue\n", "Expected rows with a label in mine.csv; there are none."),
        (b"", "Expected text and label in the spec to name columns of mine.csv."),
        (ROWS.replace(",", ";").encode(), "Expected text and label in the spec to name columns of mine.csv."),
        (f"{ROWS}{'x' * (csv.field_size_limit() + 1)},money\n".encode(), "mine.csv cannot be read: field larger than"),
    ],
)
def test_unusable_csv_files_are_refused_in_one_line(tmp_path, content, sentence):
    with pytest.raises(MissingData) as refusal:
        load(tmp_path, content)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize("columns", [{"text": None}, {"label": None}, {"label": "topic"}])
def test_columns_must_be_named(tmp_path, columns):
    with pytest.raises(MissingData, match="Expected text and label in the spec to name columns"):
        load(tmp_path, ROWS.encode(), **columns)


def test_a_folder_named_like_a_csv_file_is_refused(tmp_path):
    (tmp_path / "mine.csv").mkdir()
    with pytest.raises(MissingData, match="Expected a CSV file of public data at"):
        datasets.load(str(tmp_path / "mine.csv"), tmp_path, text="note", label="queue")


def test_a_data_set_may_be_ones_own_object(tmp_path, monkeypatch):
    code = """
import numpy as np
from reticent.extend import Data

def mine():
    return Data("mine", np.eye(2), np.array(["a", "b"]), np.eye(2), np.array(["a", "b"]))

number = 7
"""
    (tmp_path / "own_data.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert datasets.load("own_data:mine", tmp_path).labels.tolist() == ["a", "b"]
    for name in ("own_data:number", "own_data:missing", "no_such_module:mine"):
        with pytest.raises(errors.InvalidValue, match=f"^Expected a data set at {name}"):
            datasets.load(name, tmp_path)
