import dataclasses
import enum
import json
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent import UNKNOWN, LabelSpace, errors
from reticent.labels import canonical, in_public_order, labels_from_json, labels_to_json
from reticent.numerics.reading import json_of
from reticent.privacy import events

spaces = st.lists(st.text(max_size=3) | st.integers(), unique=True, max_size=8).map(lambda xs: LabelSpace(tuple(xs)))


@given(spaces, spaces)
def test_union_is_idempotent(a, b):
    both = a.union(b)
    assert both.union(b) == both
    assert both.union(a) == both
    assert both.labels[: len(a)] == a.labels
    assert set(both.labels) == set(a.labels) | set(b.labels)


@given(st.lists(st.text(max_size=3) | st.integers() | st.floats(allow_nan=False), unique=True))
def test_public_order_does_not_depend_on_the_given_order(labels):
    assert in_public_order(labels) == in_public_order(labels[::-1])
    assert set(in_public_order(labels)) == set(labels)


def test_equal_numbers_are_one_label():
    """Else the first row would decide how a released label looks."""
    assert [canonical(x) for x in (1, 1.0, True, np.int64(1), np.float32(1))] == [1] * 5
    assert {type(canonical(x)) for x in (1, 1.0, True, np.int64(1), np.bool_(True))} == {int}
    assert type(canonical(np.str_("a"))) is str
    assert canonical(("a", 1.0)) == ("a", 1)
    assert canonical(10**500) == 10**500
    assert canonical(10**5000) is canonical(("rare", -(10**5000))) is None  # no Python writes it down
    deep: object = "a"
    for _ in range(3_000):
        deep = (deep,)
    assert canonical(deep) is None


@given(
    st.lists(st.floats() | st.integers() | st.text() | st.booleans() | st.none() | st.binary() | st.tuples(st.text()))
)
def test_no_label_raises(labels):
    kept = {canonical(label) for label in labels} - {None}
    assert len(in_public_order(kept)) == len(kept)
    LabelSpace(in_public_order(kept))


def test_large_integers_keep_a_public_order():
    big = [2**53 + 1, 2**53, 10**400, -1]
    assert in_public_order(big) == in_public_order(big[::-1]) == (-1, 2**53, 2**53 + 1, 10**400)


def test_label_space_is_a_value():
    space = LabelSpace(("E10", 7, ("a", 1)))
    assert len(space) == 3
    assert 7 in space
    assert UNKNOWN not in space
    with pytest.raises(dataclasses.FrozenInstanceError):
        space.labels = ()  # type: ignore[misc]


def test_union_composes_what_was_spent():
    first = LabelSpace(("a",), events.Gaussian(noise_multiplier=1.0))
    second = LabelSpace(("b",), events.Gaussian(noise_multiplier=2.0))
    assert first.union(second).event == events.compose(first.event, second.event)
    assert first.union(LabelSpace(("c",))).event == first.event
    assert LabelSpace(("a",)).union(LabelSpace(("c",))).event == events.Public()


@pytest.mark.parametrize("labels", [["a"], ("a", "a"), ("a", None), (float("nan"),), ("a", ["b"])])
def test_bad_label_spaces_are_refused(labels):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        LabelSpace(labels)
    with pytest.raises(errors.InvalidValue, match="Expected an event"):
        LabelSpace(("a",), event="free")  # type: ignore[arg-type]


def test_label_space_finds_rows():
    space = LabelSpace(("E10", 7, ("a", 1)))
    assert [space.row(label) for label in ("E10", 7, 7.0, ("a", 1), "E11")] == [0, 1, 1, 2, -1]
    assert ["list"] not in space
    assert space.union(LabelSpace(("E10",))) is space


@pytest.mark.parametrize(
    "labels",
    [("a", "b", "c"), ("c", "a"), ("a", "é"), (1, "1"), tuple(map(str, range(500)))],
    ids=lambda labels: str(labels[:3]),
)
def test_loading_makes_no_index_of_labels(labels):
    space = LabelSpace(labels)
    assert "_rows" not in vars(space)
    assert space.union(LabelSpace(())) is space
    assert "_rows" not in vars(space)
    assert [space.row(label) for label in labels] == list(range(len(labels)))


@pytest.mark.parametrize(
    "labels",
    [("a", "a"), ("a", "b", "a"), ("b", "a", "b"), (1, 1.0), (True, 1), ("a", None), ("\ud800",), ("a", float("nan"))],
    ids=ascii,
)
def test_labels_that_are_none_or_there_twice_are_refused(labels):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        LabelSpace(labels)


class Colour(str, enum.Enum):  # noqa: UP042 (its str() is another text)
    RED = "red"


class Odd(str):
    def __str__(self) -> str:
        raise RuntimeError("secret")


def test_labels_of_subclasses_are_what_they_equal():
    assert canonical(Colour.RED) == canonical(Odd("red")) == "red"
    assert type(canonical(Colour.RED)) is str


def test_dates_of_any_unit_are_no_labels():
    assert {canonical(np.datetime64(5, unit)) for unit in ("ns", "us", "s", "D")} == {None}
    assert canonical(np.timedelta64(5, "ns")) is None


def test_tuples_of_many_parts_are_no_labels():
    """A few tuples inside each other may have more parts than memory holds: a single row would stop everything."""
    nested: tuple[object, ...] = ("a",) * 60
    for _ in range(6):
        nested = (nested,) * 60
    start = time.monotonic()
    assert canonical(nested) is None
    assert canonical(("a",) * 1_001) is None
    assert canonical((("a", 1.0),) * 300) == (("a", 1),) * 300
    assert time.monotonic() - start < 5


simple = st.text() | st.integers(-(2**1_999), 2**1_999) | st.floats(allow_nan=False)


@given(st.lists(simple | st.recursive(simple, lambda parts: st.lists(parts, max_size=3).map(tuple), max_leaves=6)))
def test_labels_are_read_back_as_they_were_written(given_labels):
    labels = [label for label in map(canonical, given_labels) if label is not None]
    assert list(labels_from_json(json_of(json.dumps(labels_to_json(labels))))) == labels


def test_labels_of_any_allowed_depth_are_read_back():
    """One that is released and cannot be read would make the whole model unreadable."""
    label: object = "a"
    for _ in range(8):
        label = (label,)
        assert canonical(label) == label
        assert labels_from_json(labels_to_json([label])) == (label,)
    assert canonical((label,)) is None
    with pytest.raises(errors.InvalidValue, match="less nesting"):
        labels_from_json(labels_to_json([(label,)]))


class Lying(tuple[object, ...]):
    def __len__(self) -> int:
        raise RuntimeError("secret")

    def __iter__(self) -> Any:
        raise RuntimeError("secret")


class Failing:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("secret")

    @__class__.setter
    def __class__(self, kind: Any) -> None: ...


def test_code_of_a_label_is_not_believed():
    """Where a row holds an object of a program, that one row must not end the learning."""
    assert canonical(Lying(("a", 1.0))) == canonical((Lying(("a", 1.0)),))[0] == ("a", 1)  # type: ignore[index]
    assert type(canonical(Lying(("a",)))) is tuple
    assert canonical(Failing()) is canonical((Failing(),)) is None
