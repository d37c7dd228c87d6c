"""Sums and counts by label. What one example can change is bounded, and the bound is part of the value."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate import grid
from reticent.labels import Label, LabelSpace, canonical
from reticent.numerics.rows import unit_rows

Ints = npt.NDArray[np.int64]
_CELLS_AT_ONCE = 1 << 19  # of rows that need a second look
_PLAIN = frozenset({str, int, float, bool})


@dataclass(frozen=True)
class LabelSums:
    """Sensitive: exact per-label sums of unit vectors, on the integer grid. Never leaves the gate.

    Args:
        known: One row per known label in public order, weight 1.
        unknown: The labels found that are not known, in the order of the data.
        counts: How many examples each unknown label has.
        vectors: From places of unknown labels to their sums, weight sqrt(1 - count_weight); an array, or what computes
            the rows that are asked for, so that labels which nobody will see need no memory.
        count_weight: c^2 of the unknown labels.
        sensitivity: Norm by which one example changes all of it together, in grid steps.
    """

    known: Ints
    unknown: tuple[Label, ...]
    counts: Ints
    vectors: "Vectors"
    count_weight: float
    sensitivity: int = grid.SCALE

    def __repr__(self) -> str:
        return "LabelSums(<sensitive>)"


class Vectors(Protocol):
    """One row for each unknown label."""

    def __getitem__(self, rows: Ints) -> Ints:
        """Returns some of the rows."""


def count_by_label(labels: Iterable[object]) -> dict[Label, int]:
    """Counts examples by label; what cannot be a label is dropped silently. One example changes one count by 1.

    >>> count_by_label(["a", None, "a", "b"])
    {'a': 2, 'b': 1}
    """
    return dict(Counter(name for name in map(canonical, labels) if name is not None))


def sum_by_label(
    features: npt.NDArray[np.floating], labels: Sequence[object], *, known: LabelSpace, count_weight: float
) -> LabelSums:
    """Sums unit-normalised features by label: known labels in public order, others with a count.

    Guarantees:
      - Adding or removing one example changes everything together by norm at most `sensitivity`, in integers.
                                                                 test_one_example_moves_sums_by_at_most_one_unit
      - With count_weight = 0 unknown labels are dropped; what cannot be a label always is, silently.
      - The number of unknown labels decides about no array of vectors.   test_unreleased_labels_need_no_vectors
    """
    if features.ndim != 2 or features.shape[0] != len(labels):
        raise errors.InvalidValue("Expected features of shape (n, K) and n labels.")
    width = features.shape[1]
    # one layout: the kernel adds up squares in another order where a row does not lie whole in memory
    kind = features.dtype if features.dtype in (np.float32, np.float64) else np.float64
    features = np.require(features, kind, ["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"])
    found: dict[Label, int] = {}

    def place(name: Label | None) -> int:
        """Returns the row of a label: known ones first, then unknown ones in the order of the data; -1 for none."""
        if name is None:
            return -1
        row = known.row(name)
        return len(known) + found.setdefault(name, len(found)) if row < 0 < count_weight else row

    slots = _Places(place).of(labels)
    known_sums = np.zeros((len(known), width), dtype=np.int64)
    mine = np.flatnonzero((slots >= 0) & (slots < len(known)))
    _accumulate(known_sums, features, mine, slots[mine], 0.0)
    mine = np.flatnonzero(slots >= len(known))
    targets = slots[mine] - len(known)
    nowhere = np.zeros((1, width), dtype=np.int64)  # which rows count is all that is needed now
    kept = _accumulate(nowhere, features, mine, np.zeros_like(mine), count_weight)
    counts = np.bincount(targets[kept], minlength=len(found))
    seen = counts > 0  # a label all of whose rows are unusable was not found
    unknown = tuple(label for label, kept in zip(found, seen, strict=True) if kept)
    vectors = _SumsOfSome(features, mine[kept], (np.cumsum(seen) - 1)[targets[kept]], count_weight)
    return LabelSums(known_sums, unknown, counts[seen], vectors, count_weight)


@dataclass(frozen=True)
class _SumsOfSome:
    """Sensitive: sums by label, computed for the labels that are asked for."""

    features: npt.NDArray[np.floating]
    rows: Ints
    targets: Ints
    count_weight: float

    def __repr__(self) -> str:
        return "_SumsOfSome(<sensitive>)"

    def __getitem__(self, wanted: Ints) -> Ints:
        """Returns the sums of some labels, by their places among the unknown ones."""
        sums = np.zeros((len(wanted), self.features.shape[1]), dtype=np.int64)
        order = np.argsort(wanted)
        at = np.searchsorted(wanted, self.targets, sorter=order).clip(max=max(0, len(wanted) - 1))
        mine = np.flatnonzero(wanted[order[at]] == self.targets) if len(wanted) else np.zeros(0, np.int64)
        _accumulate(sums, self.features, self.rows[mine], order[at[mine]], self.count_weight)
        return sums


def places(labels: Sequence[object], row: Callable[[Label], int]) -> Ints:
    """Returns the row of each label; what cannot be a label has row -1.

    >>> places(["a", None, "b"], {"a": 0, "b": 1}.__getitem__).tolist()
    [0, -1, 1]
    """
    return _Places(lambda name: -1 if name is None else row(name)).of(labels)


class _Places(dict[object, int]):
    """Maps labels of the data to rows; computed once for each label of a plain type."""

    def __init__(self, place: Callable[[Label | None], int]) -> None:
        super().__init__()
        self._place = place

    def __missing__(self, label: object) -> int:
        row = self[label] = self._place(canonical(label))
        return row

    def of(self, labels: Sequence[object]) -> Ints:
        """Returns the rows of labels; what cannot be a label has row -1.

        Only types whose equal values are one label are looked up: an equal object of another type (Decimal(1) and 1)
        must not decide the row of another example's label.
        """
        rows = (self[x] if type(x) in _PLAIN else self._place(canonical(x)) for x in labels)
        return np.fromiter(rows, dtype=np.int64, count=len(labels))


def _accumulate(
    sums: Ints, features: npt.NDArray[np.floating], rows: Ints, targets: Ints, count_weight: float
) -> npt.NDArray[np.bool_]:
    """Adds unit rows on the grid to the sums of their labels, and returns which rows count.

    Usual rows take one pass over memory. A row that needs a second look (zero, not finite, beyond the range of its
    squares, or slightly too long) is normalised and snapped by itself; which path it takes depends on the row alone.
    """
    from reticent.gate import kernel  # compiled by the gate, before it spends: predicting never needs it

    if len(sums) > len(rows):  # most labels have no row: their sums need not be read
        found, targets = np.unique(targets, return_inverse=True)
        part = np.zeros((len(found), sums.shape[1]), dtype=np.int64)
        used = _accumulate(part, features, rows, targets, count_weight)
        sums[found] += part
        return used
    kept = np.zeros(len(rows), dtype=np.bool_)
    exact = np.zeros(sums.shape)
    kernel.add_unit_rows(exact, features, rows, targets, kept, *grid.scale_and_room(count_weight))
    sums += exact.astype(np.int64)
    at_once = max(1, _CELLS_AT_ONCE // max(1, sums.shape[1]))
    for start in range(0, len(unusual := np.flatnonzero(~kept)), at_once):
        part = unusual[start : start + at_once]
        snapped = grid.snap(unit_rows(features[rows[part]]), count_weight=count_weight)
        np.add.at(sums, targets[part], snapped.values)
        kept[part] = snapped.kept
    return kept
