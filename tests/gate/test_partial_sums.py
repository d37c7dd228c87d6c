"""Sums of parts: exact, in any order, and within a bound for labels that are not known."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from reticent import LabelSpace
from reticent.gate import kernel
from reticent.gate.label_sums import Block, LabelSums, PartialSums, sum_by_label
from reticent.labels import Label
from reticent.numerics.coded import Coded

ROWS, WIDTH = 3_000, 5
KNOWN = LabelSpace(tuple(f"label {i}" for i in range(40)))


def data() -> tuple[np.ndarray, list[object]]:
    draw = np.random.default_rng(11)
    x = draw.normal(size=(ROWS, WIDTH)).astype(np.float32)
    x[::19] = 0
    x[1::23, 0] = np.nan
    x[2::29] = np.eye(WIDTH)[0]  # exactly one unit: needs a second look beside a count
    labels: list[object] = [f"label {i}" for i in draw.integers(0, 90, ROWS).tolist()]
    labels[::31] = [None] * len(labels[::31])
    labels[1::37] = [7] * len(labels[1::37])
    return x, labels


def again(labels: object) -> np.ndarray:
    raise AssertionError("asked for a second pass")


def equal(one: LabelSums, other: LabelSums) -> bool:
    every = np.arange(len(other.unknown))
    return (
        np.array_equal(one.known, other.known)
        and one.unknown == other.unknown
        and np.array_equal(one.counts, other.counts)
        and np.array_equal(one.vectors[every], other.vectors[every])
    )


@pytest.mark.parametrize("parts", [1, 2, 9])
@pytest.mark.parametrize("seed", range(3))
def test_parts_add_up_to_the_whole(parts, seed):
    x, labels = data()
    expected = sum_by_label(x, labels, known=KNOWN, count_weight=0.1)
    assert len(expected.unknown) == 51
    order = np.random.default_rng(seed).permutation(ROWS)
    found = []
    for rows in np.array_split(order, parts):
        part = PartialSums(KNOWN, unknown=0.1, vectors=math.inf)
        for some in np.array_split(rows, 3):
            part.add(x, Coded.of([labels[i] for i in some]), some)
        found.append(part)
    first, *rest = found
    for part in rest:
        first.merge(part)
    assert equal(first.result(WIDTH, again), expected)
    assert first.result(WIDTH, again).count_weight == 0.1


@pytest.mark.parametrize(("room", "kept"), [(0, False), (50, False), (51, True), (500, True)])
def test_vectors_are_kept_within_their_bound(room, kept):
    x, labels = data()
    expected = sum_by_label(x, labels, known=KNOWN, count_weight=0.1)
    halves = [PartialSums(KNOWN, unknown=0.1, vectors=room) for _ in range(2)]
    for half, rows in zip(halves, (slice(0, 500), slice(500, ROWS)), strict=True):
        half.add(x[rows], Coded.of(labels[rows]))
    halves[0].merge(halves[1])
    asked: list[list[object]] = []

    def second(wanted: Sequence[Label]) -> np.ndarray:
        asked.append(list(wanted))
        return expected.vectors[np.array([expected.unknown.index(label) for label in wanted], np.int64)]

    assert equal(halves[0].result(WIDTH, second), expected)
    assert bool(asked) != kept
    assert halves[0]._of_others._sums.shape[0] == (0 if not kept else len(halves[0]._of_others.counts))


def test_only_labels_with_usable_examples_are_found():
    part = PartialSums(LabelSpace(("b", "a", "c")))
    part.add(np.array([[0.0, 2.0], [np.nan, 1.0], [3.0, 0.0]]), Coded.of(["a", "c", "b"]))
    rows, sums = part.found(2)
    assert (rows.tolist(), sums.tolist()) == ([0, 1], [[2**20, 0], [0, 2**20]])
    assert part.known(2).tolist() == [[2**20, 0], [0, 2**20], [0, 0]]
    sparse = part.result(2, again, dense=False)
    assert (sparse.known.tolist(), sparse.unknown, sparse.count_weight) == (sums.tolist(), (), 0.0)


def test_labels_count_for_what_their_name_says():
    part = PartialSums(LabelSpace(("a",)), weight=0.36, name=lambda label: "a" if label in ("x", "y") else None)
    part.add(np.eye(3), Coded.of(["x", "y", "z"]))
    part.add(np.eye(3), Coded.of(["z", "x", 5]), np.array([0, 2, 1]))
    side = int(0.8 * 2**20)
    assert part.known(3).tolist() == [[side, side, side]]


def test_blocks_move_recent_sums_when_they_are_merged():
    """Counts of both say when 32 bits are full: what is there already must have been moved before."""
    one, other = Block(), Block()
    rows = kernel.RECENT - 1
    x = np.full((2 * rows, 1), -3.0)
    for block in (one, other):
        place = np.full(rows, block.place("a"))
        block.add(x, np.arange(rows), place, 0.0)
    one.merge(other)
    assert not one._recent.any()
    assert one.sums(["a"], 1).tolist() == [[-2 * rows * 2**20]]
    one.add(x, np.arange(2 * rows), np.zeros(2 * rows, np.int64), 0.0)
    assert one.sums(["a"], 1).tolist() == [[-4 * rows * 2**20]]
    assert one.counts[0] == 4 * rows


def test_a_label_without_a_row_has_no_sum():
    block = Block()
    block.place("a")
    assert block.found == []
    assert block.sums(["a"], 2).tolist() == [[0, 0]]
    block.add(np.ones((1, 2)), np.array([0]), np.array([block.place("b")]), 0.0)
    block.place("c")
    assert block.found == ["b"]
    assert block.sums(["c", "b", "a"], 2)[[0, 2]].tolist() == [[0, 0], [0, 0]]
    merged = Block()
    merged.merge(block)
    assert merged.found == ["b"]
    assert repr(PartialSums(KNOWN)) == "PartialSums(<sensitive>)"


@pytest.mark.parametrize("weight", [0.0, 0.19])
def test_rows_of_a_second_look_do_not_let_sums_overflow(weight):
    """Beside rows that the loop adds up in 32 bits others are counted that it has not added: 64 bits must hold all."""
    unit = np.eye(2)[:1]
    extreme = unit * 1e-150  # its square is out of range: a second look
    known = LabelSpace(("a",)) if not weight else LabelSpace(())
    sums, whole = (PartialSums(known, unknown=weight or None, vectors=9) for _ in range(2))
    for _ in range(5):
        for rows in (np.repeat(unit, kernel.RECENT - 7, axis=0), np.repeat(extreme, 20, axis=0)):
            labels = Coded.of(["a"] * len(rows))
            sums.add(rows, labels)
            part = PartialSums(known, unknown=weight or None, vectors=9)
            part.add(rows, labels)
            whole.merge(part)
    one = sum_by_label(unit, ["a"], known=known, count_weight=weight)
    each = one.known if not weight else one.vectors[np.array([0])]
    for found in (sums, whole):
        result = found.result(2, again)
        total = result.known if not weight else result.vectors[np.array([0])]
        assert total.tolist() == (5 * (kernel.RECENT + 13) * each).tolist()


def test_sums_outlive_the_room_that_they_were_added_in():
    """Labels that come one after the other, each with examples of its own: arrays grow, and nothing is lost."""
    x = np.random.default_rng(5).normal(size=(600, WIDTH)).astype(np.float32)
    labels = [f"label {i // 2}" for i in range(len(x))]
    block = Block()
    for row, label in enumerate(labels):
        block.add(x, np.array([row]), np.array([block.place(label)]), 0.0)
    found, counts, sums = block.rows()
    known = LabelSpace(tuple(found))
    whole = sum_by_label(x, labels, known=known, count_weight=0.0)
    assert sums is not None
    assert len(found) == 300
    assert counts.tolist() == [2] * 300
    assert np.array_equal(sums, whole.known[[known.row(label) for label in found]])


@pytest.mark.parametrize(("labels", "counts"), [([], []), (["a"], [1]), (["a", "b", "a"], [2, 1])])
def test_blocks_made_without_sums_keep_none(labels, counts):
    block = Block.of(labels, np.ones(len(labels), np.int64), None)
    assert not block.keeps
    found, counted, sums = block.rows()
    assert (found, counted.tolist(), sums) == (list(dict.fromkeys(labels)), counts, None)


def test_labels_beyond_the_room_have_no_sum_yet():
    block = Block()
    block.add(np.ones((1, 2)), np.array([0]), np.array([block.place(0)]), 0.0)
    labels = list(range(200))
    for label in labels:
        block.place(label)
    assert not block.sums(labels[1:], 2).any()
    assert block.sums(labels, 2)[0].all()


@pytest.mark.parametrize("first", [True, False])
def test_sums_that_one_part_did_not_keep_are_not_kept(first):
    parts = [Block.of(["a"], np.ones(1, np.int64), sums) for sums in (np.ones((1, 2), np.int64), None)]
    block, other = parts if first else parts[::-1]
    block.merge(other)
    labels, counts, sums = block.rows()
    assert (labels, counts.tolist(), sums) == (["a"], [2], None)


def test_places_of_found_labels_are_whole_numbers_also_of_none():
    rows, sums = PartialSums(KNOWN).found(WIDTH)
    assert (rows.shape, rows.dtype, sums.shape) == ((0,), np.dtype(np.int64), (0, WIDTH))


def test_room_for_one_label_keeps_the_sum_of_one():
    part = PartialSums(LabelSpace(()), unknown=0.19, vectors=1)
    part.add(np.eye(2)[:1], Coded.of(["a"]))
    assert part.result(2, again).vectors[np.array([0])].tolist() == [[int(0.9 * 2**20), 0]]


def test_sums_of_unknown_labels_are_not_kept_unless_they_are_asked_for():
    part = PartialSums(LabelSpace(()), unknown=0.19)
    part.add(np.eye(2)[:1], Coded.of(["a"]))
    assert [block.keeps for block in part.blocks] == [True, False]


def test_features_without_columns_are_counted():
    part = PartialSums(LabelSpace(("a",)), unknown=0.19)
    part.add(np.zeros((3, 0)), Coded.of(["a", "b", "b"]))
    assert [block.rows()[1].tolist() for block in part.blocks] == [[1], [2]]


@pytest.mark.parametrize("cells", [1, 2, 5])
def test_a_second_look_at_fewer_cells_than_columns_takes_one_row_at_a_time(cells, monkeypatch):
    monkeypatch.setattr("reticent.gate.label_sums._CELLS_AT_ONCE", cells)
    part = PartialSums(LabelSpace(("a",)))
    part.add(np.array([[1e-150, 0.0], [0.0, -1e150], [0.0, 0.0]]), Coded.of(["a"] * 3))
    assert part.known(2).tolist() == [[2**20, -(2**20)]]
    assert part.blocks[0].rows()[1].tolist() == [3]


def test_plain_entries_are_looked_up_once_and_others_each_time():
    asked: list[object] = []

    def name(entry: object) -> Label:
        asked.append(entry)
        return "a"

    part = PartialSums(LabelSpace(("a",)), name=name)
    for labels in (["x", 5], [5, "x", 7], [2.5, True], [2.5, True]):
        part.add(np.ones((len(labels), 1)), Coded.of(labels))
    assert asked == ["x", 5, 7, 2.5, True, 2.5, True]
    assert part.blocks[0].rows()[1].tolist() == [9]


def test_no_label_has_no_sums_beside_labels_that_have_some():
    part = PartialSums(LabelSpace(("a", "b")))
    part.add(np.array([[np.nan, 1.0]]), Coded.of(["a"]))
    rows, sums = part.found(2)
    assert (rows.tolist(), sums.shape) == ([], (0, 2))
    assert Block.of(["a"], np.ones(1, np.int64), np.ones((1, 2), np.int64)).sums([], 2).shape == (0, 2)


@pytest.mark.parametrize("vectors", [0, 9])
def test_the_loop_has_room_for_what_it_adds(vectors, monkeypatch):
    """It does not check where it writes: sums and counts must be there also where nobody reads them."""
    loop, rooms = kernel.add_unit_rows, []

    def checked(*arrays):
        recent, sums, counts, features, _, targets, *_ = arrays
        rooms.append(min(len(recent), len(sums), len(counts)) - targets.max())
        assert recent.shape[1] == sums.shape[1] == features.shape[1]
        loop(*arrays)

    monkeypatch.setattr(kernel, "add_unit_rows", checked)
    part = PartialSums(LabelSpace(("known",)), unknown=0.19, vectors=vectors)
    part.add(np.ones((4, 3)), Coded.of(["a", "known", "b", "c"]))
    assert len(rooms) == 2
    assert min(rooms) >= 1
