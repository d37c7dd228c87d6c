import copy
import dataclasses
import pickle
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import reticent as rt
from reticent import encoders, errors
from reticent.sensitive.engines import Local
from reticent.sensitive.task import Task


def test_task_repr_hides_its_contents():
    task = Task(np.ones((3, 2)), ["secret", "b", "c"], persons=[1, 1, 2])
    assert repr(task) == str(task) == repr(Task([], []))
    with pytest.raises(TypeError):
        len(task)  # type: ignore[arg-type]
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="sensitive"):
            attempt(task)
    assert not hasattr(task, "__dict__")


def test_persons_are_bounded_before_reading():
    """A learner that forgets to bound persons fails instead of learning from all of one person's examples."""
    task = Task(np.ones((3, 2)), ["a", "b", "c"], [1, 1, 2], name="march")
    assert task.name == "march"
    for part in ("inputs", "labels"):
        with pytest.raises(errors.InvalidValue, match=r"^Expected a task admitted by the gate: gate\.admit\(task\)"):
            getattr(task, part)
    capped = task._capped(1)
    assert (np.asarray(capped.inputs).tolist(), capped.labels, capped.name) == ([[1, 1]] * 2, ["a", "c"], "march")


def test_capping_keeps_the_first_of_each_person():
    task = Task(np.arange(10).reshape(5, 2), list("abcde"), persons=["x", "y", "x", "x", "z"])
    capped = task._capped(2)
    assert capped.labels == ["a", "b", "c", "e"]
    assert isinstance(capped.inputs, np.ndarray)
    assert capped.inputs[:, 0].tolist() == [0, 2, 4, 8]
    assert Task(["t"] * 3, list("abc"))._capped(1).labels == ["a", "b", "c"]


def test_capping_one_person_does_not_depend_on_others():
    mine = [("x", "a"), ("x", "b"), ("x", "c")]
    others = [("y", "p"), ("z", "q"), ("y", "r")]
    mixed = [others[0], mine[0], others[1], mine[1], mine[2], others[2]]
    alone = Task(["t"] * 3, [label for _, label in mine], [person for person, _ in mine])._capped(2).labels
    among = Task(["t"] * 6, [label for _, label in mixed], [person for person, _ in mixed])._capped(2).labels
    assert alone == [label for label in among if label in {"a", "b", "c"}] == ["a", "b"]


@pytest.mark.parametrize(
    ("labels", "persons"), [(["a"], None), (np.zeros((2, 2)), None), (["a", "b"], [1]), (["a", "b"], np.zeros((2, 1)))]
)
def test_tasks_are_refused_by_metadata(labels, persons):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        Task(np.zeros((2, 3)), labels, persons)


# --- columns of any library


def not_utf8() -> pa.Array:
    return pa.Array.from_buffers(pa.string(), 3, pa.array([b"ab", b"\xff Mrs Smith", b"cd"]).buffers())


def far(kind: pa.DataType) -> pa.Array:
    days = pa.array([1, 2**31 - 1, 2], pa.int32() if kind == pa.date32() else pa.int64())
    return pa.Array.from_buffers(kind, 3, days.buffers())


COLUMNS: dict[str, Callable[[], Any]] = {
    "pyarrow": not_utf8,
    "chunked": lambda: pa.chunked_array([not_utf8()]),
    "pandas of pyarrow": lambda: pd.Series(not_utf8(), dtype=pd.ArrowDtype(pa.string())),
    "days": lambda: far(pa.date32()),
    "pandas days": lambda: pd.Series(far(pa.date32()), dtype=pd.ArrowDtype(pa.date32())),
    "polars days": lambda: pl.Series([1, 2**31 - 1, 2], dtype=pl.Int32).cast(pl.Date),
    "polars instants": lambda: pl.Series([1, 2**62, 2]).cast(pl.Datetime("ms")),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_no_cell_of_a_column_raises(kind, capfd):
    """Its neighbours are read as if it were not there."""
    column = COLUMNS[kind]()
    assert len(Task(column, [1, 2, 3]).labels) == 3
    assert Task(["t"] * 3, [1, 2, 3], column)._capped(1).labels in ([1, 3], [1, 2, 3])
    if "days" not in kind and "polars" not in kind:
        assert Task(["t"] * 3, column).labels == ["ab", None, "cd"]
        assert Task(column, [1, 2, 3]).inputs == ["ab", None, "cd"]
    assert capfd.readouterr() == ("", "")


UNUSABLE: dict[str, Callable[[], Any]] = {
    "bytes": lambda: np.array([b"a", b"b", b"c"]),
    "dates": lambda: np.array([1, 2, 3], "datetime64[D]"),
    "durations": lambda: np.array([1, 2, 3], "timedelta64[D]"),
    "complex": lambda: np.array([1j, 2j, 3j]),
    "records": lambda: np.zeros(3, [("a", int)]),
    "pandas dates": lambda: pd.Series(pd.to_datetime(["2020-01-01"] * 3)),
    "pandas dates with a zone": lambda: pd.Series(pd.to_datetime(["2020-01-01"] * 3, utc=True)),
    "pandas categories of dates": lambda: pd.Series(pd.to_datetime(["2020-01-01"] * 3)).astype("category"),
    "polars lists": lambda: pl.Series([[1], [2], [3]]),
    "polars bytes": lambda: pl.Series([b"a", b"b", b"c"]),
    "pyarrow bytes": lambda: pa.array([b"a", b"b", b"c"]),
    "pyarrow records": lambda: pa.array([{"a": 1}] * 3),
    **{name: COLUMNS[name] for name in COLUMNS if "days" in name or "instants" in name},
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_types_that_are_no_labels_are_refused(kind):
    """Every row would be left out, at full price; a type is public."""
    with pytest.raises(errors.InvalidValue, match="labels of another type"):
        Task(["t"] * 3, UNUSABLE[kind]())


@pytest.mark.parametrize("kind", ["durations", "complex", "records", "polars lists", "pyarrow records"])
def test_types_that_are_no_ids_are_refused(kind):
    with pytest.raises(errors.InvalidValue, match="persons of another type"):
        Task(["t"] * 3, ["a"] * 3, UNUSABLE[kind]())


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", "b", "a"]),
        np.array([1, 2, 1], np.int8),
        np.array([True, False, True]),
        np.array([0.5, 1, 2]),
        np.array(["a", 1, None], dtype=object),
        pd.Series(["a", "b", "a"], dtype="category"),
        pd.Series(["a", "b", "a"], dtype="string"),
        pd.Series([1, None, 2], dtype="Int64"),
        pl.Series(["a", "b", "a"], dtype=pl.Categorical),
        pl.Series([1, 2, 3]),
        pa.array(["a", "b", None]),
        pa.array(["a", "b", "a"]).dictionary_encode(),
    ],
)
def test_types_of_labels_are_accepted(labels):
    assert len(Task(["t"] * 3, labels).labels) == 3


@pytest.mark.parametrize("kind", ["bytes", "dates", "complex", "numbers", "pandas numbers", "pandas dates"])
def test_arrays_that_no_encoder_reads_are_refused_before_the_spend(kind):
    """As a list every row would be left out, at full price."""
    numbers: dict[str, Callable[[], Any]] = {
        "numbers": lambda: np.arange(3.0),
        "pandas numbers": lambda: pd.Series([1, 2, 3]),
    }
    column = {**UNUSABLE, **numbers}[kind]()
    reads = encoders.wrap(lambda texts: np.ones((len(texts), 2)), width=2, name="ones")
    model = rt.ContinualClassifier(
        encoder=dataclasses.replace(reads, kinds="OUT"),
        labels=rt.PublicLabels(["a"]),
        budget=rt.Budget(epsilon=1.0, delta=1e-5),
    )
    with pytest.raises(errors.InvalidValue, match="that ones can encode"):
        model.learn_task(column, ["a"] * 3)
    assert not model.statement().spends


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"a": [1.0], "b": pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date)}),
        pl.Series([[date(2020, 1, 1)] * 2], dtype=pl.Array(pl.Date, 2)),
    ],
)
def test_frames_of_dates_are_refused(frame, capfd):
    with pytest.raises(errors.InvalidValue, match="Expected features"):
        Task(frame, ["a"])
    assert capfd.readouterr() == ("", "")


def test_columns_of_arrays_are_features():
    task = Task(pl.Series([[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float64, 2)), ["a", "b"])
    assert np.asarray(task.inputs).shape == (2, 2)


@pytest.mark.parametrize(
    "frame",
    [
        lambda x: pl.DataFrame({"a": pl.Series(x, dtype=pl.Int16)}),
        lambda x: pl.DataFrame({"a": pl.Series(x, dtype=pl.Int16).cast(pl.Boolean)}),
        lambda x: pl.Series([[v] for v in x], dtype=pl.Array(pl.Int64, 1)),
        lambda x: pd.DataFrame({"a": pd.array(x, dtype="Int64")}),
        lambda x: pd.DataFrame({"a": pd.array(x, dtype="boolean"), "b": 1.0}),
        lambda x: pd.DataFrame({"a": pd.array(x, dtype="int64[pyarrow]"), "b": [1, 2, 3]}),
    ],
    ids=["polars", "polars truth", "polars arrays", "pandas", "pandas truth", "pandas of pyarrow"],
)
def test_frames_have_one_type_whatever_is_missing(frame):
    """Else one missing number would change what an encoder makes of all others."""
    whole, holed = (np.asarray(Task(frame(x), list("abc")).inputs) for x in ([1, 0, 1], [1, None, 1]))
    assert whole.dtype == holed.dtype == np.float64
    assert (whole[[0, 2]] == holed[[0, 2]]).all()
    assert np.isnan(holed[1, 0])


class Lines:
    """A sequence as torch knows it: its end is an IndexError, and so is a line without a semicolon."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, place: int) -> str:
        return self.lines[place].split(";")[1]


def test_a_sequence_that_ends_early_is_read_to_its_end():
    assert Task(Lines(["1;a", "bad", "3;c"]), Lines(["1;x", "2;y", "bad"])).inputs == ["a", None, "c"]
    assert Task(Lines(["1;a", "bad", "3;c"]), Lines(["1;x", "2;y", "bad"])).labels == ["x", "y", None]


class Uncounted:
    """A column that remembers whether it was read."""

    was_read = False

    def __len__(self) -> int:
        return 3

    def __getitem__(self, place: int) -> str:
        self.was_read = True
        raise IndexError


def test_columns_of_another_length_are_not_read():
    labels = Uncounted()
    with pytest.raises(errors.InvalidValue, match="as many labels as inputs"):
        Task(["a", "b"], labels)
    assert not labels.was_read


def test_what_cannot_be_read_twice_is_refused_without_its_cause():
    assert Task((text for text in "ab"), map(str, range(2))).labels == ["0", "1"]
    with pytest.raises(errors.InvalidValue, match=r"^Expected a column that can be read cell by cell") as refusal:
        Task((1 / number for number in (1, 0)), ["a", "b"])
    assert refusal.value.__context__ is refusal.value.__cause__ is None
    for other in (None, 3, pl.LazyFrame({"a": [1.0]}), pa.table({"a": [1.0]})):
        with pytest.raises(errors.InvalidValue, match=r"^Expected"):
            Task(other, ["a"])


@pytest.mark.parametrize("engine", ["ray", Local, 3])
def test_what_is_no_engine_is_refused(engine):
    with pytest.raises(errors.InvalidValue, match="Expected an engine"):
        Task([[1.0]], ["a"], engine=engine)
