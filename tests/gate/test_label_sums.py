"""Sums of the labels that are asked for, and of no others."""

import itertools
import pickle

import numpy as np
import pytest

from reticent import LabelSpace
from reticent.gate import label_sums
from reticent.numerics.coded import Coded

FEATURES = np.array([[1.0, 0], [0, 1.0], [0, -1.0], [-1.0, 0], [1.0, 0], [np.nan, 1.0], [0.6, 0.8]])
LABELS = ["d", "b", "a", "c", "d", "lost", "known"]
UNIT = 2**20


def sums() -> label_sums.LabelSums:
    return label_sums.sum_by_label(FEATURES, LABELS, known=LabelSpace(("known", "quiet")), count_weight=0.19)


def test_sums_are_computed_for_the_labels_that_are_asked_for():
    found = sums()
    side = int(0.81**0.5 * UNIT)
    whole = {"d": [2 * side, 0], "b": [0, side], "a": [0, -side], "c": [-side, 0]}
    assert found.unknown == ("a", "b", "c", "d")
    assert found.counts.tolist() == [1, 1, 1, 2]
    for size in range(5):
        for places in itertools.permutations(range(4), size):
            rows = found.vectors[np.array(places, dtype=np.int64)]
            assert rows.tolist() == [whole[str(found.unknown[place])] for place in places]
            assert (rows.shape, rows.dtype) == ((size, 2), np.dtype(np.int64))


def test_known_labels_have_weight_one():
    assert sums().known.tolist() == [[int(0.6 * UNIT), int(0.8 * UNIT)], [0, 0]]


def test_without_a_weight_for_counts_unknown_labels_are_dropped():
    found = label_sums.sum_by_label(FEATURES, LABELS, known=LabelSpace(("b",)), count_weight=0.0)
    assert (found.unknown, found.counts.tolist()) == ((), [])
    assert found.known.tolist() == [[0, UNIT]]
    assert found.vectors[np.zeros(0, np.int64)].shape == (0, 2)


def test_places_of_labels_of_any_type():
    rows = {1: 4, "a": 2, "1": 7}
    assert label_sums.places(["a", 1, True, None, "1", 1.0], rows.__getitem__).tolist()[:2] == [2, 4]
    assert label_sums.places([None, float("nan")], rows.__getitem__).tolist() == [-1, -1]
    assert label_sums.places([object(), b"\xff", ("a", float("nan"))], rows.__getitem__).tolist() == [-1, -1, -1]
    assert label_sums.places([], rows.__getitem__).dtype == np.int64


def parted(*, vectors: float) -> list[label_sums.PartialSums]:
    """Sums of the first rows, of the others, and of all."""
    made = [label_sums.PartialSums(LabelSpace(("known",)), unknown=0.19, vectors=vectors) for _ in range(3)]
    for part, rows in zip(made, (slice(0, 3), slice(3, None), slice(None)), strict=True):
        part.add(FEATURES[rows], Coded.of(LABELS[rows]))
    return made


def shown(sums: label_sums.PartialSums) -> list[object]:
    result = sums.result(2, lambda _: np.zeros((0, 2), np.int64))
    vectors = np.asarray(result.vectors).tolist() if isinstance(result.vectors, np.ndarray) else "asked for"
    return [result.known.tolist(), result.unknown, result.counts.tolist(), vectors]


def test_partial_sums_come_back_from_another_process():
    first, rest, whole = parted(vectors=9)
    first.merge(pickle.loads(pickle.dumps(rest)))  # noqa: S301 (our own)
    assert shown(first) == shown(whole)


@pytest.mark.parametrize("vectors", [0, 9])
def test_blocks_are_made_of_their_rows(vectors):
    first, rest, whole = parted(vectors=vectors)
    blocks = [label_sums.Block.of(*block.rows()) for block in rest.blocks]
    assert [block.keeps for block in blocks] == [True, vectors > 0]
    first.merge(label_sums.PartialSums.of(*blocks))
    assert shown(first) == shown(whole)
    assert (shown(first)[3] == "asked for") is (vectors == 0)


def test_rows_of_a_block_hold_every_label_once():
    labels, counts, sums = label_sums.Block.of(
        ["a", "b", "a"], np.array([1, 2, 3]), np.array([[1, 2], [3, 4], [5, 6]])
    ).rows()
    assert (labels, counts.tolist()) == (["a", "b"], [4, 2])
    assert sums is not None
    assert sums.tolist() == [[6, 8], [3, 4]]
    assert label_sums.Block.of(["a", "b", "a"], np.array([1, 2, 3]), None).rows()[2] is None
    labels, counts, sums = label_sums.Block().rows()
    assert (labels, counts.tolist()) == ([], [])


def test_entries_without_rows_and_entries_that_are_no_labels_are_not_counted():
    """A file may list labels that none of its rows has: they are not in the data."""
    column = Coded(np.array([0, 2, 0, -1, 3]), ["a", "in no row", "b", object()])
    assert label_sums.count_by_label(column) == {"a": 2, "b": 1}


def test_the_last_entry_may_be_in_no_row():
    assert label_sums.count_by_label(Coded(np.array([0, 0]), ["a", "in no row"])) == {"a": 2}
    assert label_sums.count_by_label(Coded(np.array([-1]), ["in no row"])) == {}
