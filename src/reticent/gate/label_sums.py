"""Sums and counts by label. What one example can change is bounded, and the bound is part of the value."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate import grid
from reticent.labels import Label, LabelSpace, canonical, in_public_order
from reticent.numerics.coded import Coded
from reticent.numerics.rows import unit_rows

Ints = npt.NDArray[np.int64]
Features = npt.NDArray[np.floating]
_CELLS_AT_ONCE = 1 << 19  # of rows that need a second look
_FIRST_ROOM = 64  # labels that a block has room for, doubled as they come


@dataclass(frozen=True)
class LabelSums:
    """Sensitive: exact per-label sums of unit vectors, on the integer grid. Never leaves the gate.

    Args:
        known: One row per known label in public order, weight 1.
        unknown: The labels found that are not known, in public order.
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


def count_by_label(labels: "Iterable[object] | Coded") -> dict[Label, int]:
    """Counts examples by label; what cannot be a label is dropped silently. One example changes one count by 1.

    >>> count_by_label(["a", None, "a", "b"])
    {'a': 2, 'b': 1}
    """
    coded = Coded.of(labels)
    counts: Counter[Label] = Counter()
    sizes = np.bincount(coded.codes[coded.codes >= 0], minlength=len(coded.entries))
    for entry, size in zip(coded.entries, sizes.tolist(), strict=True):
        name = canonical(entry)
        if name is not None and size:
            counts[name] += size
    return dict(counts)


def sum_by_label(
    features: Features, labels: "Sequence[object] | Coded", *, known: LabelSpace, count_weight: float
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
    column, width = Coded.of(labels), features.shape[1]
    partial = PartialSums(known, unknown=count_weight or None)
    partial.add(features, column)

    def again(wanted: Sequence[Label]) -> Ints:
        second = PartialSums(LabelSpace(tuple(wanted)), weight=count_weight)
        second.add(features, column)
        return second.known(width)

    return partial.result(width, again)


class PartialSums:
    """Sensitive: sums and counts of some of the examples; those of all do not depend on how they were parted.

    Guarantees:
      - Added up in any parts and any order, the same integers.             test_parts_add_up_to_the_whole
      - Vectors of unknown labels are kept for at most `vectors` of them; beyond, none are, and those that are asked for
        have to be summed in a second pass.                                 test_vectors_are_kept_within_their_bound

    Args:
        known: The labels that are known, in public order.
        weight: c^2 of known labels: their rows are scaled by sqrt(1 - c^2).
        unknown: c^2 of all other labels; None drops them.
        vectors: For how many unknown labels sums are kept.
        name: From what the data has to the label that it counts for; None drops it.
    """

    def __init__(
        self,
        known: LabelSpace,
        *,
        weight: float = 0.0,
        unknown: float | None = None,
        vectors: float = 0,
        name: Callable[[object], Label | None] = canonical,
    ) -> None:
        self._space, self._weight, self._unknown, self._name = known, weight, unknown, name
        self._of_known, self._of_others = Block(), Block(most=vectors)
        self._entries: Sequence[object] | None = None
        self._places = np.zeros(0, np.int64)
        self._looked_up: dict[object, int] = {}

    def __repr__(self) -> str:
        return "PartialSums(<sensitive>)"

    @classmethod
    def of(cls, known: "Block", others: "Block") -> "PartialSums":
        """Returns what can be merged into the sums of a task: what somebody else has added up."""
        partial = cls.__new__(cls)
        partial._of_known, partial._of_others = known, others
        return partial

    @property
    def blocks(self) -> "tuple[Block, Block]":
        """Sums of known labels, and of others."""
        return self._of_known, self._of_others

    def __getstate__(self) -> dict[str, Any]:
        """What is merged is all that a worker sends back."""
        return {"_of_known": self._of_known, "_of_others": self._of_others}

    def add(self, features: Features, labels: Coded, rows: Ints | None = None) -> None:
        """Adds examples; what cannot be a label is dropped silently.

        Args:
            features: Shape (n, K).
            labels: One for each row that is added.
            rows: Which rows; all by default. Nothing is copied.
        """
        # one layout: the kernel adds up squares in another order where a row does not lie whole in memory
        kind = features.dtype if features.dtype in (np.float32, np.float64) else np.float64
        features = np.require(features, kind, ["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"])
        rows = np.arange(len(features)) if rows is None else rows
        places = self._found(labels)
        mine = np.flatnonzero(places >= 0)
        self._of_known.add(features, rows[mine], places[mine], self._weight)
        others = np.flatnonzero(places < -1)
        if self._unknown is not None:
            self._of_others.add(features, rows[others], -2 - places[others], self._unknown)

    def merge(self, other: "PartialSums") -> None:
        """Adds what another part has found."""
        self._of_known.merge(other._of_known)
        self._of_others.merge(other._of_others)

    def known(self, width: int) -> Ints:
        """Returns one row for each known label, in public order."""
        dense = np.zeros((len(self._space), width), dtype=np.int64)
        labels = list(self._of_known.places)
        dense[[self._space.row(label) for label in labels]] = self._of_known.sums(labels, width)
        return dense

    def found(self, width: int) -> tuple[Ints, Ints]:
        """Returns the places of the known labels that have a usable example, ascending, and their sums."""
        labels = sorted(self._of_known.found, key=self._space.row)
        rows = np.array([self._space.row(label) for label in labels], dtype=np.int64)
        return rows, self._of_known.sums(labels, width)

    def result(self, width: int, again: Callable[[Sequence[Label]], Ints], *, dense: bool = True) -> LabelSums:
        """Returns the sums of all parts.

        Args:
            width: Of features.
            again: From some of the unknown labels to their sums, in a second pass; asked only where they were not kept.
            dense: Whether each known label has a row; else only those that were `found`.
        """
        unknown, block = in_public_order(self._of_others.found), self._of_others
        counts = block.counts[[block.places[label] for label in unknown]] if unknown else np.zeros(0, np.int64)
        vectors = block.sums(unknown, width) if block.keeps else _SumsOfSome(unknown, again)
        known = self.known(width) if dense else self.found(width)[1]
        return LabelSums(known, unknown, counts, vectors, self._unknown or 0.0)

    def _found(self, labels: Coded) -> Ints:
        """Returns where each label is added up: its place among known ones, -2 minus that among others, -1 nowhere."""
        if labels.entries is not self._entries:
            self._places = np.fromiter(map(self._place, labels.entries), np.int64, len(labels.entries))
            self._places, self._entries = np.append(self._places, -1), labels.entries
        found: Ints = self._places[labels.codes]
        return found

    def _place(self, entry: object) -> int:
        """Looks an entry up, once where equal entries of its type are one label."""
        plain = type(entry) is str or type(entry) is int
        place = self._looked_up.get(entry) if plain else None
        if place is None:
            name = self._name(entry)
            if name is None:
                place = -1
            elif self._space.row(name) >= 0:
                place = self._of_known.place(name)
            else:
                place = -1 if self._unknown is None else -2 - self._of_others.place(name)
            if plain:
                self._looked_up[entry] = place
        return place


class Block:
    """Sensitive: sums and counts of the labels that were met; all examples weigh the same.

    Args:
        most: For how many labels sums are kept; once there are more, none are, and examples are only counted.
    """

    def __init__(self, most: float = math.inf) -> None:
        self.places: dict[Label, int] = {}
        self.counts = np.zeros(0, np.int64)
        self.keeps, self._most = most > 0, most
        self._recent, self._sums = np.zeros((0, 0), np.int32), np.zeros((0, 0), np.int64)

    @classmethod
    def of(cls, labels: Sequence[Label], counts: Ints, sums: Ints | None) -> "Block":
        """Returns the block of labels, each of which may come more than once; without sums, it keeps none.

        Args:
            labels: One for each row.
            counts: Of their examples.
            sums: Shape (labels, K).
        """
        block = cls(most=0 if sums is None else math.inf)
        at = np.array([block.place(label) for label in labels], dtype=np.int64)
        block._make_room(0 if sums is None else sums.shape[1])
        np.add.at(block.counts, at, counts)
        if sums is not None:
            np.add.at(block._sums, at, sums)
        return block

    def rows(self) -> tuple[list[Label], Ints, Ints | None]:
        """Returns labels, counts and sums, as `of` takes them."""
        labels, size = list(self.places), len(self.places)
        counts = np.zeros(size, np.int64)
        counts[: len(self.counts)] = self.counts[:size]
        return labels, counts, self.sums(labels, self._sums.shape[1]) if self.keeps else None

    @property
    def found(self) -> list[Label]:
        """The labels with at least one usable example."""
        return [label for label, place in self.places.items() if place < len(self.counts) and self.counts[place]]

    def place(self, label: Label) -> int:
        """Returns the place of a label, a new one where it has none."""
        return self.places.setdefault(label, len(self.places))

    def sums(self, labels: Sequence[Label], width: int) -> Ints:
        """Returns the sums of some labels; zero for one without any example."""
        sums = np.zeros((len(labels), width), dtype=np.int64)
        if self._sums.size:
            at = np.array([self.places[label] for label in labels], dtype=np.int64)
            there = at < len(self._sums)
            sums[there] = self._sums[at[there]] + self._recent[at[there]]
        return sums

    def add(self, features: Features, rows: Ints, targets: Ints, count_weight: float) -> None:
        """Adds unit rows on the grid to the sums of their labels, and counts those that are usable.

        Usual rows take one pass over memory. A row that needs a second look (zero, not finite, beyond the range of its
        squares, or slightly too long) is normalised and snapped by itself; which path it takes depends on the row
        alone.
        """
        from reticent.gate import kernel  # compiled by the gate, before it spends: predicting never needs it

        self._make_room(features.shape[1])
        kept = np.zeros(len(rows), dtype=np.bool_)
        if self.keeps:
            counts, recent, sums, at = self.counts, self._recent, self._sums, targets
        else:  # which rows count is all that is needed
            counts, at = np.zeros(1, np.int64), np.zeros_like(targets)
            recent, sums = (np.zeros((1, features.shape[1]), kind) for kind in (np.int32, np.int64))
        kernel.add_unit_rows(recent, sums, counts, features, rows, at, kept, *grid.scale_and_room(count_weight))
        if not self.keeps:
            self.counts += np.bincount(targets[kept], minlength=len(self.counts))
        at_once = max(1, _CELLS_AT_ONCE // max(1, features.shape[1]))
        for start in range(0, len(unusual := np.flatnonzero(~kept)), at_once):
            part = unusual[start : start + at_once]
            snapped = grid.snap(unit_rows(features[rows[part]]), count_weight=count_weight)
            np.add.at(self.counts, targets[part], snapped.kept)
            np.add.at(sums, at[part], snapped.values)
            moved = np.unique(at[part])
            sums[moved] += recent[moved]
            recent[moved] = 0  # it begins anew: when it is emptied hangs on the counts, which have moved on

    def merge(self, other: "Block") -> None:
        """Adds the sums and counts of another block, label by label."""
        self.keeps = self.keeps and other.keeps
        at = np.array([self.place(label) for label in other.places], dtype=np.int64)
        self._make_room(max(self._sums.shape[1], other._sums.shape[1]))
        self._sums += self._recent
        self._recent[:] = 0  # it begins anew: where it ends hangs on the counts
        at = at[: len(other.counts)]
        self.counts[at] += other.counts[: len(at)]
        if self.keeps and other._sums.size:
            self._sums[at] += other._sums[: len(at)]
            self._sums[at] += other._recent[: len(at)]

    def _make_room(self, width: int) -> None:
        """Makes arrays long enough for the labels met so far, or gives them up where these are too many."""
        size = len(self.counts)
        if len(self.places) > size:
            size = max(2 * size, len(self.places), _FIRST_ROOM)
            self.counts = _longer(self.counts, (size,))
        self.keeps = self.keeps and len(self.places) <= self._most
        shape = (size, width) if self.keeps else (0, width)
        if self._sums.shape != shape:
            self._recent, self._sums = _longer(self._recent, shape), _longer(self._sums, shape)


def _longer(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Returns an array of another length, with its rows as far as there is room, and zeros."""
    made = np.zeros(shape, array.dtype)
    if array.size and made.size:
        made[: len(array)] = array
    return made


@dataclass(frozen=True)
class _SumsOfSome:
    """Sensitive: sums by label, computed for the labels that are asked for."""

    labels: tuple[Label, ...]
    again: Callable[[Sequence[Label]], Ints]

    def __repr__(self) -> str:
        return "_SumsOfSome(<sensitive>)"

    def __getitem__(self, wanted: Ints) -> Ints:
        """Returns the sums of some labels, by their places among the unknown ones."""
        return self.again([self.labels[i] for i in wanted.tolist()])


def places(labels: "Sequence[object] | Coded", row: Callable[[Label], int]) -> Ints:
    """Returns the row of each label; what cannot be a label has row -1.

    >>> places(["a", None, "b"], {"a": 0, "b": 1}.__getitem__).tolist()
    [0, -1, 1]
    """
    return Coded.of(labels).places(lambda entry: -1 if (name := canonical(entry)) is None else row(name))
