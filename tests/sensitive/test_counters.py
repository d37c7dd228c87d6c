"""Persons are bounded batch by batch, and in several passes where they are too many, as if all rows were one column."""

import itertools
from decimal import Decimal

import numpy as np
import pytest

from reticent import errors
from reticent.gate import kernel
from reticent.numerics.coded import Coded
from reticent.person_ids import person_id
from reticent.readers import Columns, open_source
from reticent.sensitive import persons as bounding
from reticent.sensitive.columns import column_of
from reticent.sensitive.persons import Counters, Marks, first_of_each, kept_of_each
from reticent.sensitive.task import Task


def slowly(ids: list[object], most: int) -> list[int]:
    """The obvious way."""
    seen: dict[object, int] = {}
    kept = []
    for row, person in enumerate(ids):
        key = person_id(person)
        if key is not None:
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= most:
                kept.append(row)
    return kept


def drawn(kind: str) -> list[object]:
    numbers = np.random.default_rng(3).integers(0, 60, 400).tolist()
    made: dict[str, list[object]] = {
        "texts": [f"person {i}" for i in numbers],
        "numbers": [*numbers],
        "large numbers": [i + (1 << 63) for i in numbers],
        "blank texts": [" " * (i % 3) if i < 9 else f"ä {i}" for i in numbers],
        "mixed": [[i, float(i), str(i), None, Decimal(i), True, b"x", " "][i % 8] for i in numbers],
        "written in several ways": [
            [i, f"{i}.0", f" {i}", "NA"][i % 4 if row > 150 else 0] for row, i in enumerate(numbers)
        ],
        "nobody": [None] * 400,
    }
    return made[kind]


KINDS = ["texts", "numbers", "large numbers", "blank texts", "mixed", "written in several ways", "nobody"]


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_counters_carry_over_batches(kind, most):
    ids = drawn(kind)
    expected = slowly(ids, most)
    assert first_of_each(ids, most) == expected
    for size in (1, 7, 150, 1_000):
        counters = Counters(most)
        masks = [counters.kept(Coded.of(ids[start : start + size])) for start in range(0, len(ids), size)]
        assert np.flatnonzero(np.concatenate(masks)).tolist() == expected
        assert len(counters) == len({person_id(one) for one in ids} - {None})
    assert repr(Counters(1)) == "Counters(<sensitive>)"


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_entries_that_come_twice_are_one_person(kind, most):
    """Columns that are joined, and dictionaries of other programs, have equal entries; in the first batch, too."""
    ids = drawn(kind)
    twice = Coded.joined([Coded.of(ids[start : start + 40]) for start in range(0, len(ids), 40)])
    expected = slowly(ids, most)
    for cuts in ([0, 400], [0, 90, 250, 400]):
        counters = Counters(most)
        masks = [counters.kept(twice.taken(slice(a, b))) for a, b in itertools.pairwise(cuts)]
        assert np.flatnonzero(np.concatenate(masks)).tolist() == expected
    (marks,) = kept_of_each([[twice]], most)
    assert marks.rows(0, 400).tolist() == expected


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("far", [1, 1 << 40])
def test_arrays_of_ids_bound_persons_as_their_lists_do(most, far):
    """Ids that never become Python objects; batches of floats may follow, of the same persons."""
    array = np.random.default_rng(3).integers(-30, 30, 400) * far
    expected = slowly(array.tolist(), most)
    assert np.flatnonzero(Counters(most).kept(column_of("persons", array, array))).tolist() == expected
    counters = Counters(most)
    masks = [
        counters.kept(column_of("persons", part, part))
        for part in (array[:90], array[90:250].astype(float), array[250:].astype(np.int64))
    ]
    assert np.flatnonzero(np.concatenate(masks)).tolist() == expected
    for texts in (["x", "y", " ", "x "], ["x", "y", "", "x"], ["x", "NA", "x ", "z"], ["7", "8", "7.0", "9"]):
        many: list[object] = [*texts] * 20_000
        expected = slowly(many, most)
        for given in (many, np.array(many)):
            assert np.flatnonzero(Counters(most).kept(column_of("persons", given, many))).tolist() == expected


def test_an_id_in_quotes_is_the_same_person(tmp_path):
    """Lines with quotes are read one by one, and others together: their columns are joined."""
    lines = ["f,g,label,who", "1,0,a,x", '0,1,a,"x"', "1,1,a,y", '1,2,a,"y"', "1,3,a,x"]
    (tmp_path / "task.csv").write_text("\n".join(lines) + "\n")
    source = open_source(tmp_path / "task.csv", Columns(features=("f", "g"), label="label", person="who"))
    (batch,) = Task.streamed(source)._capped(1).batches()
    assert batch.inputs.tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_passes_by_hash_keep_the_same_rows(kind, most):
    """Parts and batches of any sizes; with room for all persons, for a few and for one."""
    ids = drawn(kind)
    expected = slowly(ids, most)
    cuts = [0, 3, 3, 150, 399, 400]
    parts = [ids[a:b] for a, b in itertools.pairwise(cuts)]
    columns = [[Coded.of(part[:11]), Coded.of(part[11:])] for part in parts]
    for room in (1_000, 20, 1):
        marks = kept_of_each(columns, most, most=room)
        assert [len(mark) for mark in marks] == [len(part) for part in parts]
        found = [row + start for mark, start in zip(marks, cuts, strict=False) for row in mark.rows(0, len(mark))]
        assert found == expected
    assert kept_of_each([], most) == []


def test_ids_of_one_hash_end_in_one_pass(monkeypatch):
    """Equal hashes cannot be told apart by hashing: such persons are looked at together, however many they are."""
    monkeypatch.setattr(bounding, "_falls_into", lambda modulus, rest, key: 5 % modulus == rest)
    ids: list[object] = [*range(6)] * 2
    (marks,) = kept_of_each([[Coded.of(ids)]], 1, most=2)
    assert slowly(ids, 1) == [*range(6)]
    assert marks.rows(0, 12).tolist() == [*range(6)]


def test_rows_are_counted_in_their_order():
    seen, kept = np.array([0, 1, 5]), np.zeros(7, np.bool_)
    kernel.count_rows(np.array([0, -1, 1, 0, 0, 2, 1]), seen, 2, kept)
    assert kept.tolist() == [True, False, True, True, False, False, False]
    assert seen.tolist() == [3, 3, 6]


def test_marks_are_bits_of_any_range():
    mask = np.random.default_rng(1).random(77) < 0.5
    for cuts in ([0, 77], [0, 8, 77], [0, 3, 3, 30, 77], list(range(78))):
        marks = Marks.joined([Marks.of(mask[a:b]) for a, b in itertools.pairwise(cuts)])
        assert len(marks) == 77
        assert len(marks.bits) == 10
        for start in range(78):
            for stop in range(start, 78):
                assert marks.mask(start, stop).tolist() == mask[start:stop].tolist()
    assert len(Marks.joined([])) == 0
    assert repr(Marks.of(mask)) == "Marks(<sensitive>)"


def test_marks_of_two_passes_are_united():
    one, other = (Marks.of(np.array(bits, np.bool_)) for bits in ([1, 0, 0], [0, 0, 1]))
    assert one.union(other).mask(0, 3).tolist() == [True, False, True]
    with pytest.raises(errors.InvalidValue, match="same rows whenever it is read"):
        one.union(Marks.of(np.array([True])))
