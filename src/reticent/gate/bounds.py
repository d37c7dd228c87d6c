"""Bound what one example can change, and say by how much: values travel with their sensitivity."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from reticent import errors
from reticent.gate import grid
from reticent.labels import Label, LabelSpace, canonical

Ints = npt.NDArray[np.int64]
_ROWS_AT_ONCE = 1024
_BYTES_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class LabelSums:
    """Sensitive: exact per-label sums of unit vectors, on the integer grid. Never leaves the gate.

    Args:
        known: One row per known label in public order, weight 1.
        unknown: The labels found that are not known, in the order of the data.
        counts: How many examples each unknown label has.
        vectors: Their sums, weight sqrt(1 - count_weight).
        count_weight: c^2 of the unknown labels.
        sensitivity: Norm by which one example changes all of it together, in grid steps.
    """

    known: Ints
    unknown: tuple[Label, ...]
    counts: Ints
    vectors: Ints
    count_weight: float
    sensitivity: int = grid.SCALE

    def __repr__(self) -> str:
        return "LabelSums(<sensitive>)"


def unit_rows(features: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Returns rows scaled to norm 1; zero rows stay zero, rows with NaN or infinity stay unusable.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    rows = np.array(features, dtype=np.float64, order="C")  # a row's bits must not depend on the layout
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
        odd = np.flatnonzero(~((squares > 1e-200) & (squares < 1e200)))
        if len(odd):  # so that squares neither overflow nor vanish
            largest = np.max(np.abs(rows[odd]), axis=1, keepdims=True, initial=0.0)
            rows[odd] = np.where(largest > 0, rows[odd] / largest, rows[odd])
            squares[odd] = np.einsum("ij,ij->i", rows[odd], rows[odd])
        norms = np.sqrt(squares)
        rows /= np.where(norms > 0, norms, 1.0)[:, None]
    return rows


def count_by_label(labels: Iterable[object]) -> dict[Label, int]:
    """Counts examples by label; what cannot be a label is dropped silently. One example changes one count by 1.

    >>> count_by_label(["a", None, "a", "b"])
    {'a': 2, 'b': 1}
    """
    return dict(Counter(name for name in map(canonical, labels) if name is not None))


def sum_by_label(
    features: npt.NDArray[np.floating], labels: Sequence[object], *, known: LabelSpace, count_weight: float
) -> LabelSums:
    """Sums unit-normalised features by label: known labels in public order, others beside a count.

    Guarantees:
      - Adding or removing one example changes the whole by norm at most `sensitivity`, in exact integers.
                                                                 test_one_example_moves_sums_by_at_most_one_unit
      - With count_weight = 0 unknown labels are dropped; what cannot be a label always is, silently.
    """
    if features.ndim != 2 or features.shape[0] != len(labels):
        raise errors.InvalidValue("Expected features of shape (n, K) and n labels.")
    width = features.shape[1]
    names = [canonical(label) for label in labels]
    slots = np.fromiter((-1 if name is None else known.row(name) for name in names), dtype=np.int64, count=len(names))
    found: dict[Label, int] = {}
    owners = np.full(len(names), -1, dtype=np.int64)
    if count_weight > 0:
        for i in np.flatnonzero(slots < 0):
            name = names[i]
            if name is not None:
                owners[i] = found.setdefault(name, len(found))
    known_sums = np.zeros((len(known), width), dtype=np.int64)
    vectors = np.zeros((len(found), width), dtype=np.int64)
    counts = np.zeros(len(found), dtype=np.int64)
    for weight, places, sums in ((0.0, slots, known_sums), (count_weight, owners, vectors)):
        mine = np.flatnonzero(places >= 0)
        for start in range(0, len(mine), _ROWS_AT_ONCE):
            part = mine[start : start + _ROWS_AT_ONCE]
            snapped = _snapped(features, part, weight)
            _add(sums, snapped.values, places[part])
            if sums is vectors:
                counts += np.bincount(places[part][snapped.kept], minlength=len(found))
    seen = counts > 0  # a label all of whose rows are unusable was not found
    unknown = tuple(label for label, kept in zip(found, seen, strict=True) if kept)
    return LabelSums(known_sums, unknown, counts[seen], vectors[seen], count_weight)


def _snapped(features: npt.NDArray[np.floating], rows: Ints, count_weight: float) -> grid.Rows:
    """Normalises and snaps rows a few at a time: temporaries that fit the cache need no fresh memory pages."""
    few = max(1, _BYTES_AT_ONCE // (8 * max(features.shape[1], 1)))
    values = np.empty((len(rows), features.shape[1]), dtype=np.int64)
    kept = np.empty(len(rows), dtype=np.bool_)
    for start in range(0, len(rows), few):
        part = slice(start, start + few)
        snapped = grid.snap(unit_rows(features[rows[part]]), count_weight=count_weight)
        values[part], kept[part] = snapped.values, snapped.kept
    return grid.Rows(values, kept)


def _add(sums: Ints, rows: Ints, owners: Ints) -> None:
    """Adds each row to the sum of its owner, as a product with a sparse matrix of ones: exact in int64."""
    if len(rows):
        ones = np.ones(len(rows), dtype=np.int64)
        sums += sparse.csr_array((ones, (owners, np.arange(len(rows)))), shape=(len(sums), len(rows))) @ rows
