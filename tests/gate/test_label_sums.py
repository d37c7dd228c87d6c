"""Sums of the labels that are asked for, and of no others."""

import itertools
import pickle

import numpy as np

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
    assert label_sums.places([], rows.__getitem__).dtype == np.int64


def test_partial_sums_come_back_from_another_process_without_their_look_ups():
    here, there = (label_sums.PartialSums(LabelSpace(("known",)), unknown=0.19, vectors=9) for _ in range(2))
    for part, rows in ((here, slice(0, 3)), (there, slice(3, None))):
        part.add(FEATURES[rows], Coded.of(LABELS[rows]))
    sent = pickle.loads(pickle.dumps(there))  # noqa: S301 (our own)
    assert (len(sent._space), sent._entries, sent._looked_up) == (0, None, {})
    assert len(there._space) == 1
    assert there._looked_up
    here.merge(sent)
    whole = label_sums.PartialSums(LabelSpace(("known",)), unknown=0.19, vectors=9)
    whole.add(FEATURES, Coded.of(LABELS))
    found, expected = here.result(2, lambda _: np.zeros(0, np.int64)), whole.result(2, lambda _: np.zeros(0, np.int64))
    assert found.known.tolist() == expected.known.tolist()
    assert (found.unknown, found.counts.tolist()) == (expected.unknown, expected.counts.tolist())
    assert np.asarray(found.vectors).tolist() == np.asarray(expected.vectors).tolist()
