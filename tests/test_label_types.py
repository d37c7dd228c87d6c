"""Whatever type a column of labels has: a number and its text are one label, and what could never match is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reticent as rt
from reticent.labels import canonical, is_number_or_its_text, spelled
from tests.cli.command import BUDGET, EACH, reticent

NUMBERS, ROWS = [101, 102, 103], 200
X, Y = np.repeat(np.eye(3), ROWS, axis=0), np.repeat(NUMBERS, ROWS)
COLUMNS: dict[str, Callable[[], Any]] = {
    "list of numbers": Y.tolist,
    "list of texts": lambda: [str(y) for y in Y],
    "numpy": lambda: Y,
    "numpy floats": lambda: Y.astype(float),
    "numpy texts": lambda: Y.astype(str),
    "pandas": lambda: pd.Series(Y),
    "pandas nullable": lambda: pd.Series([*Y[:-1], None], dtype="Int64"),
    "pandas category": lambda: pd.Series(Y).astype("category"),
    "polars": lambda: pl.Series(Y),
    "pyarrow": lambda: pa.array(Y),
    "torch": lambda: pytest.importorskip("torch", reason="needs torch").tensor(Y),
    "pandas objects": lambda: pd.Series(Y, dtype=object),
}


@pytest.mark.parametrize("column", list(COLUMNS))
@pytest.mark.parametrize("labels", [NUMBERS, ["101", "102", "103"]], ids=["numbers", "texts"])
def test_labels_of_any_type_are_learned(column, labels):
    """Labels "101" and a column of whole numbers: accuracy 0, the whole budget spent, no word."""
    model = rt.ContinualClassifier(labels=rt.PublicLabels(labels), budget=rt.Budget(epsilon=8.0, delta=1e-5))
    y = COLUMNS[column]()
    model.learn_task(X, y, name="march")
    assert model.classes_.tolist() == labels
    assert model.predict(np.eye(3)).tolist() == labels
    assert model.score(X, y) > 0.99
    assert model.private_score(X, y, epsilon=4.0, name="test") > 0.9


def test_files_of_any_type_are_learned(tmp_path):
    """labels.txt is text, Parquet has types, CSV has none, NPZ has those of numpy."""
    (tmp_path / "labels.txt").write_text("101\n102\n103\n")
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(code=Y)
    frame.to_csv(tmp_path / "csv.csv", index=False)
    frame.to_parquet(tmp_path / "parquet.parquet", index=False)
    np.savez(tmp_path / "npz.npz", x=X, y=Y)
    frame.astype({"code": float}).to_csv(tmp_path / "floats.csv", index=False)  # pandas: once a label is missing
    columns = ["--features", "a,b,c", "--label", "code"]
    for policy in (["--labels", tmp_path / "labels.txt"], ["--released"]):
        model = tmp_path / policy[0].strip("-")
        assert reticent("init", model, *BUDGET, "--encoder", "none", *policy).returncode == 0
        for file in ("csv.csv", "parquet.parquet", "npz.npz", "floats.csv"):
            words = [] if file == "npz.npz" else columns
            assert reticent("learn", tmp_path / file, "--model", model, EACH, *words).returncode == 0
            scored = reticent("evaluate", tmp_path / file, "--model", model, "--public", *words)
            assert scored.stdout.startswith("accuracy 1.0"), scored
        assert rt.load(model).classes_.tolist() == ["101", "102", "103"]  # and none of them twice


def test_a_parquet_column_of_numbers_is_refused_where_no_number_is_a_label(tmp_path):
    """The file declares its type."""
    (tmp_path / "labels.txt").write_text("E10\nE11\n")
    assert reticent("init", tmp_path / "m", *BUDGET, "--encoder", "none", "--labels", tmp_path / "labels.txt").stdout
    for code in (Y, Y > 101, pd.Series(Y).astype("category")):
        pd.DataFrame(X, columns=["a", "b", "c"]).assign(code=code).to_parquet(tmp_path / "march.parquet")
        words = ["--model", tmp_path / "m", "--features", "a,b,c", "--label", "code", EACH]
        done = reticent("learn", tmp_path / "march.parquet", *words)
        assert "holds numbers, none of which can be one of them. Nothing was spent." in done.stderr
    assert rt.load(tmp_path / "m").statement().spends == ()


def test_a_column_of_numbers_is_refused_where_no_number_is_a_label(tmp_path):
    """By the type that the column declares, never by its cells; before the spend."""
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["E10", "E11"]), budget=rt.Budget(epsilon=1.0, delta=1e-5))
    columns = (Y, pd.Series(Y), pd.Series(Y).astype("Int64"), pd.Series(Y).astype("category"), Y > 101)
    for y in columns:
        with pytest.raises(rt.ReticentError, match="holds numbers, none of which can be one"):
            model.learn_task(X, y, name="march")
    assert model.statement().spends == ()
    model.learn_task(X, Y.tolist(), name="march")  # a list declares nothing: its rows are left out
    for y in columns:
        with pytest.raises(rt.ReticentError, match="holds numbers, none of which can be one"):
            model.private_score(X, y, epsilon=0.5, name="test")
    assert len(model.statement().spends) == 1
    truth = rt.ContinualClassifier(labels=rt.PublicLabels(["True", "False"]), budget=rt.Budget(epsilon=8.0, delta=1e-5))
    assert truth.learn_task(X[ROWS:], Y[ROWS:] > 102, name="march").predict(np.eye(3)[1:]).tolist() == ["False", "True"]
    placed = rt.PublicLabels(["E10"], remap={"101": "E10"})
    assert placed.resolve(101, {"E10"}) == "E10"


@given(st.one_of(st.integers(), st.floats(allow_nan=False).map(lambda x: x or 0.0), st.text(max_size=8), st.booleans()))
def test_a_number_and_its_text_are_one_label(label):
    name = canonical(label)
    assert spelled(label, {name}) == name
    text = str(name)
    if isinstance(name, int | float):
        assert spelled(label, {text}) == text
        assert spelled(text, {name}) == name
        assert spelled(str(label), {name}) == name or isinstance(label, bool)  # 7.0 is 7, and so is its text
        assert spelled(label, {str(label)}) == str(label)
        assert is_number_or_its_text(text)
        assert spelled(f"0{text}", {name}) == f"0{text}"
    assert spelled(label, set()) == name
    assert spelled(label, {name, text}) == name


@pytest.mark.parametrize("text", ["0101", "1_0", "٣", "1.00", "+1", " 1", "1e3", "0x1", "nan", "", "9" * 5000])
def test_texts_that_no_number_prints_are_no_numbers(text):
    known = {101, 10, 3, 1, 1000}
    assert spelled(text, known) == text
    assert not is_number_or_its_text(text)
    assert spelled(["a list"], known) is None


def test_names_of_labels_follow_the_same_rule():
    assert rt.ReleasedLabels(names={"101": "appendicitis"}).name(101) == "appendicitis"
