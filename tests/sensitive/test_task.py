import copy
import pickle
from datetime import date
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

from reticent import errors
from reticent.sensitive.task import Task


def test_task_shows_nothing():
    task = Task(np.ones((3, 2)), ["secret", "b", "c"], units=[1, 1, 2])
    assert repr(task) == str(task) == repr(Task([], []))
    with pytest.raises(TypeError):
        len(task)  # type: ignore[arg-type]
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="sensitive"):
            attempt(task)
    assert not hasattr(task, "__dict__")


def test_capping_keeps_the_first_of_each_unit():
    task = Task(np.arange(10).reshape(5, 2), list("abcde"), units=["x", "y", "x", "x", "z"])
    capped = task.capped(2)
    assert capped.labels == ["a", "b", "c", "e"]
    assert isinstance(capped.inputs, np.ndarray)
    assert capped.inputs[:, 0].tolist() == [0, 2, 4, 8]
    assert Task(["t"] * 3, "abc").capped(1).labels == ["a", "b", "c"]


def test_capping_one_unit_does_not_depend_on_others():
    mine = [("x", "a"), ("x", "b"), ("x", "c")]
    others = [("y", "p"), ("z", "q"), ("y", "r")]
    mixed = [others[0], mine[0], others[1], mine[1], mine[2], others[2]]
    alone = Task(["t"] * 3, [label for _, label in mine], [unit for unit, _ in mine]).capped(2).labels
    among = Task(["t"] * 6, [label for _, label in mixed], [unit for unit, _ in mixed]).capped(2).labels
    assert alone == [label for label in among if label in {"a", "b", "c"}] == ["a", "b"]


def test_examples_without_an_owner_are_left_out():
    """Missing ids are all different to a dict (NaN) or all the same (None): neither bounds a person."""
    units = [float("nan"), float("nan"), None, np.float32("nan"), 1, 1.0, np.int64(1), "x"]
    assert Task(["t"] * 8, list("abcdefgh"), units).capped(2).labels == ["e", "f", "h"]


@pytest.mark.parametrize(
    "units",
    [
        ["", " ", "p7"],
        [None, float("nan"), "p7"],
        [pd.NA, pd.NaT, pd.Timestamp("2020-01-01")],
        np.array(["NaT", "NaT", "2020-01-01"], dtype="datetime64[ns]"),
        pd.array([None, None, 7], dtype="Int64"),
        pd.array([None, None, "p7"], dtype="string"),
        [Decimal("NaN"), Decimal("sNaN"), Decimal(7)],
        [object(), {"a": 1}, UUID(int=7)],
    ],
    ids=["blank", "none", "pandas", "numpy", "Int64", "string", "decimal", "objects"],
)
def test_missing_ids_are_nobodys(units):
    """If they were one person's, adding one example could push another one out."""
    assert Task(["t"] * 3, list("abc"), units).capped(1).labels == ["c"]


def test_ids_of_any_usual_type_tell_persons_apart():
    days = [date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 1)]
    for units in (days, [b"x", b"y", b"x"], [UUID(int=1), UUID(int=2), UUID(int=1)], [(1, "a"), (1, "b"), (1, "a")]):
        assert Task(["t"] * 3, list("abc"), units).capped(1).labels == ["a", "b"]


@pytest.mark.parametrize(
    ("labels", "units"), [(["a"], None), (np.zeros((2, 2)), None), (["a", "b"], [1]), (["a", "b"], np.zeros((2, 1)))]
)
def test_shapes_are_refused_by_metadata(labels, units):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        Task(np.zeros((2, 3)), labels, units)
