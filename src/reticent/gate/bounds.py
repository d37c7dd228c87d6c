"""Bound what one example can change, and say by how much: values travel with their sensitivity."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate import grid
from reticent.labels import Label, LabelSpace, usable

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LabelSums:
    """Sensitive: exact per-label sums of unit vectors, on the integer grid. Never leaves the gate.

    Args:
        known: One row per known label in public order, weight 1.
        unknown: The labels found that are not known, in public order.
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
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        rows = features.astype(np.float64)
        largest = np.max(np.abs(rows), axis=1, keepdims=True, initial=0.0)
        rows = np.where(largest > 0, rows / largest, rows)  # so that squares neither overflow nor vanish
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
        return np.where(norms > 0, rows / norms, rows)


def count_by_label(labels: Iterable[object]) -> dict[Label, int]:
    """Counts examples by label; what cannot be a label is dropped silently. One example changes one count by 1.

    >>> count_by_label(["a", None, "a", "b"])
    {'a': 2, 'b': 1}
    """
    return dict(Counter(label for label in labels if usable(label)))


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
    known_slots = {label: i for i, label in enumerate(known.labels)}
    names: list[Label] = [label if usable(label) else None for label in labels]
    slots = np.fromiter((known_slots.get(name, -1) for name in names), dtype=np.int64, count=len(names))
    rows = unit_rows(features)
    known_sums = np.zeros((len(known), width), dtype=np.int64)
    np.add.at(known_sums, slots[slots >= 0], grid.snap(rows[slots >= 0]).values)
    if count_weight == 0:
        return LabelSums(known_sums, (), np.zeros(0, np.int64), np.zeros((0, width), np.int64), 0.0)
    others = grid.snap(rows[slots < 0], count_weight=count_weight)
    found: dict[Label, int] = {}
    owner = np.full(len(others.kept), -1, dtype=np.int64)
    for i, index in enumerate(np.flatnonzero(slots < 0)):
        if others.kept[i] and names[index] is not None:
            owner[i] = found.setdefault(names[index], len(found))
    counts = np.bincount(owner[owner >= 0], minlength=len(found)).astype(np.int64)
    vectors = np.zeros((len(found), width), dtype=np.int64)
    np.add.at(vectors, owner[owner >= 0], others.values[owner >= 0])
    return LabelSums(known_sums, tuple(found), counts, vectors, count_weight)
