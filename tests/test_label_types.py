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
from reticent.lab import compare
from reticent.labels import LabelSpace, canonical, is_number_or_its_text, spelled
from tests.cli.command import BUDGET, EACH, reticent
from tests.test_person_ids import CONTAINERS, features, learned

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


@pytest.mark.parametrize("text", ["0101", "1_0", "٣", "1.00", "1.", "+1", " 1", "1e3", "0x1", "nan", "9" * 5000])
def test_texts_that_no_number_prints_are_no_numbers(text):
    known = {101, 10, 3, 1, 1000}
    assert spelled(text, known) == text
    assert not is_number_or_its_text(text)
    assert spelled(["a list"], known) is None


def test_names_of_labels_follow_the_same_rule():
    assert rt.ReleasedLabels(names={"101": "appendicitis"}).name(101) == "appendicitis"


CELLS: dict[str, tuple[list[Any], list[list[Any]]]] = {  # and ways in which their labels may be known
    "whole numbers": ([7, 8, 8, 7, 7, 8], [[7, 8], ["7", "8"]]),
    "whole numbers, one missing": ([7, None, 8, 8, 7, 7], [[7, 8], ["7", "8"]]),
    "floats": ([3.0, 0.5, 3.0, 0.5, 3.0, 3.0], [[3, 0.5], ["3", "0.5"], ["3.0", "0.5"]]),
    "truths": ([True, False, False, True, True, False], [[True, False], ["True", "False"], ["1", "0"]]),
    "texts, some empty": (["a", "", "b", None, " ", "a"], [["a", "b"]]),
    "texts that mean missing elsewhere": (["NA", "None", "None", "NA", "nan", "nan"], [["NA", "None", "nan"]]),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", CELLS)
def test_a_table_has_the_same_labels_through_every_container(kind, container, tmp_path):
    """True of Parquet was no True of CSV: all rows were dropped. An empty cell was a label in CSV alone."""
    cells, spellings = CELLS[kind]
    kept = [row for row, cell in enumerate(cells) if cell is not None and str(cell).strip()]
    x, order = features(len(cells)), list(dict.fromkeys(cells[row] for row in kept))
    for i, known in enumerate(spellings):
        (folder := tmp_path / str(i)).mkdir()
        policy = rt.PublicLabels(known)
        expected = learned(policy, X=x[kept], y=[policy.labels[order.index(cells[row])] for row in kept])
        assert learned(policy, **CONTAINERS[container](x, list(range(len(cells))), cells, folder)) == expected


@pytest.mark.filterwarnings("ignore:X has")  # names of columns in one month, and none in the other
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", ["whole numbers", "floats", "truths", "texts, some empty"])
def test_a_label_that_was_released_is_not_released_again_in_another_spelling(kind, container, tmp_path):
    """Four labels where there are two: True, False and their texts. The first release says how a label is spelled."""
    cells = [*CELLS[kind][0]] * 40
    x, ids = features(len(cells)), list(range(len(cells)))
    given = CONTAINERS[container](x, ids, cells, tmp_path)
    given.pop("engine", None)
    here, there = {"X": x, "y": cells, "persons": ids}, {"y": None, "persons": None, **given}
    counts = set()
    for months in ([here, there], [there, here]):
        if months[0] is there and "reader" in container:
            continue  # read once
        model = rt.ContinualClassifier(budget=rt.Budget(epsilon=8.0, delta=1e-5))
        for number, month in enumerate(months):
            model.learn_task(name=f"month {number}", **month)
        counts.add(len(model.classes_))
    assert counts == {2}


def test_empty_labels_are_none():
    assert [canonical(text) for text in ("", " ", "\t\u2003")] == [None] * 3
    assert [spelled(text, {"", " "}) for text in ("", " ")] == [None] * 2
    policy = rt.PublicLabels(["a", "rest"], remap=lambda label: "rest")
    assert [policy.resolve(cell, {"a", "rest"}) for cell in ("", None, float("nan"), "z")] == [None] * 3 + ["rest"]
    assert LabelSpace(("", 7)).labels == ("", 7)  # of an older model, which answers as it did


FRAMES = [pd.DataFrame({"y": Y}), pl.DataFrame({"y": Y}), pa.table({"y": Y})]


@pytest.mark.parametrize("y", [Y[:, None], *FRAMES, Y.astype("S"), Y.astype("M8[D]"), Y[:5]])
def test_score_refuses_the_labels_that_learn_task_refuses(y):
    """Labels as a column, and bytes, were never right: accuracy 0."""
    model = rt.ContinualClassifier(labels=rt.PublicLabels(NUMBERS), budget=rt.Budget(epsilon=8.0, delta=1e-5))
    model.learn_task(X, Y, name="march")
    sentences = set()
    for call in (lambda: model.score(X, y), lambda: model.learn_task(X, y, name="april")):
        with pytest.raises(rt.ReticentError, match=r"Expected .*labels") as refusal:
            call()
        sentences.add(str(refusal.value))
    assert len(sentences) == 1


def test_hidden_cells_are_missing():
    """-999 under a mask was a number: of features, of labels and of ids; where it is learned and where it is asked."""
    hidden = np.zeros(X.shape, bool)
    hidden[5], hidden[7, 1] = True, True
    x = np.ma.array(np.where(hidden, -999, X), mask=hidden)
    kept = np.array([row not in (5, 7) for row in range(len(X))])
    policy = rt.PublicLabels(NUMBERS)
    assert learned(policy, X=x, y=Y) == learned(policy, X=X[kept], y=Y[kept])
    y = np.ma.array(np.where(kept, Y, 102), mask=~kept)
    ids = np.ma.array(np.where(kept, np.arange(len(Y)), 0), mask=~kept)
    assert learned(policy, X=X, y=y) == learned(policy, X=X, y=Y, persons=ids) == learned(policy, X=X[kept], y=Y[kept])
    for kind in (np.float32, np.int64):  # of one type, whether or not a cell is hidden
        whole = np.ma.array(X.astype(kind), mask=np.zeros(X.shape, bool))
        assert learned(policy, X=whole, y=Y) == learned(policy, X=X, y=Y)
    compared = compare._prepared(x, None, {"cosine": rt.Cosine()}, 1)[0]["cosine"]
    assert np.array_equal(np.isnan(compared), hidden)
    model = rt.ContinualClassifier(labels=policy, budget=rt.Budget(epsilon=8.0, delta=1e-5)).learn_task(X, Y)
    assert model.predict(x[4:8]).tolist() == [101, rt.UNKNOWN, 101, rt.UNKNOWN]
    assert model.score(X[:7], np.ma.array(Y[:7], mask=~kept[:7])) == 1.0  # a row without a label does not count
