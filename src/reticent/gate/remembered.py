"""Sums of a stream with memory: noise of one task cancels noise of others, and labels gather evidence over tasks.

Everything is a whole number: sums on the grid of 2^-20, coefficients in 256ths, rows and noise on the grid of 2^-28.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate import grid
from reticent.gate.label_sums import LabelSums
from reticent.gate.noise import NoiseSource, keys
from reticent.labels import Label, LabelSpace, in_public_order
from reticent.privacy import correlation, events, selection

Ints = npt.NDArray[np.int64]
FINE = grid.SCALE * correlation.ONE  # grid steps per unit of a row


@dataclass(frozen=True, eq=False)
class Entry:
    """Sensitive: what memory keeps of one task, for as long as its epoch lasts. The vault stores it, nobody else.

    Args:
        row: The row of the ledger that paid for it.
        key: 32 secret bytes that its noise is derived from.
        labels: The labels that have examples in the task.
        sums: Their exact sums in grid steps of 2^-20, shape (labels, 1 + width); first the count slot, 0 if known.
        known: Which of the labels were known, and so have no count slot and weight 1.
    """

    row: int
    key: bytes
    labels: tuple[Label, ...]
    sums: Ints
    known: tuple[bool, ...]

    def __post_init__(self) -> None:
        whole = self.sums.ndim == 2 and self.sums.dtype == np.int64 and self.sums.shape[1] > 0
        if not whole or len(self.key) != 32 or not len(self.labels) == len(self.sums) == len(self.known):
            raise errors.InvalidValue("Expected a key of 32 bytes, and sums and a flag for each label.")

    def __repr__(self) -> str:
        return "Entry(<sensitive>)"

    @cached_property
    def at(self) -> dict[Label, int]:
        """From a label to its row of the sums."""
        return {label: i for i, label in enumerate(self.labels)}


@dataclass(frozen=True, eq=False)
class StreamSums:
    """Sensitive: the exact sums of a task, and what memory keeps of the tasks before it in its epoch.

    Args:
        task: The sums of the task.
        past: Entries of the published tasks of the epoch, in order; a task that was never published has none.
        row: The row of the ledger that pays for the task.
    """

    task: LabelSums
    past: Sequence[Entry]
    row: int

    def __repr__(self) -> str:
        return "StreamSums(<sensitive>)"


@dataclass(frozen=True, eq=False)
class RememberedRows:
    """What a task with memory publishes, in grid steps of 2^-28, and the entry that must be kept before.

    Args:
        place: The place of the task in its epoch, from 1.
        known: Rows of the known labels, in their public order.
        released: Labels that became known now, in public order.
        vectors: Their rows of this place.
        earlier: Their rows of the places before, shape (released, place - 1, width).
        entry: Sensitive: for the vault.
    """

    place: int
    known: Ints
    released: tuple[Label, ...]
    vectors: Ints
    earlier: Ints
    entry: Entry = field(repr=False)


@dataclass(frozen=True)
class RememberedSums:
    """Releases a task as one row of its epoch: sum_s C_ts x_s + Z_t for known labels, and labels with enough evidence.

    A label that is not known, and that had an example in any task of the epoch, is pending. Every pending label is
    looked at in every task, with statistics of all its noisy counts since row 1 of the epoch: the sum of all tasks so
    far, and this task alone. If one of them exceeds what one example adds by z of its deviations, the label becomes
    known, and its rows are published from row 1 on. The noise of a row and label is a function of the task's key, so
    that what was looked at is what is published.

    Args:
        event: What the whole epoch costs.
        known: The labels that are known, in public order.
        gathered: Those of them that a release of this epoch made known: of these the examples before count, too. One
            that was declared public while it was pending is published like one that never had an example.
    """

    event: events.Remembered
    known: LabelSpace
    gathered: frozenset[Label] = frozenset()

    def __call__(self, value: StreamSums, *, rng: NoiseSource) -> RememberedRows:
        """Returns the rows of one task; an empty one runs the same code."""
        task, event = value.task, self.event
        if task.count_weight != event.count_weight or task.sensitivity > grid.SCALE:
            raise errors.InvalidValue("Expected sums with the count weight of the mechanism, of sensitivity one.")
        place = len(value.past) + 1
        if place > event.horizon:
            raise errors.InvalidValue("This epoch has no place left. Begin a new one with `reticent vault rotate`.")
        entry = self._entry(task, value.row, rng.words(4).tobytes())
        entries = (*value.past, entry)
        width = task.known.shape[1]
        rows = np.empty((len(self.known), width), dtype=np.int64)
        for i, label in enumerate(self.known.labels):
            rows[i] = self._row(label, entries, rng)
        released = in_public_order(label for label in self._pending(entries) if self._stands_out(label, entries, rng))
        found = np.zeros((len(released), place, width), dtype=np.int64)
        for i, label in enumerate(released):
            for t in range(place):
                found[i, t] = self._row(label, entries[: t + 1], rng)
        return RememberedRows(place, rows, released, found[:, -1], found[:, :-1], entry)

    def _entry(self, task: LabelSums, row: int, key: bytes) -> Entry:
        mine = np.flatnonzero(task.known.any(axis=1))
        labels = (*(self.known.labels[i] for i in mine), *task.unknown)
        sums = np.zeros((len(labels), 1 + task.known.shape[1]), dtype=np.int64)
        sums[: len(mine), 1:] = task.known[mine]
        sums[len(mine) :, 0] = task.counts * selection.count_step(task.count_weight)
        sums[len(mine) :, 1:] = task.vectors[np.arange(len(task.unknown))]
        return Entry(row, key, labels, sums, (True,) * len(mine) + (False,) * len(task.unknown))

    def _pending(self, entries: Sequence[Entry]) -> Iterable[Label]:
        """All labels with an example in any task of the epoch that are not known."""
        return dict.fromkeys(label for entry in entries for label in entry.labels if label not in self.known)

    def _row(self, label: Label, entries: Sequence[Entry], rng: NoiseSource) -> Ints:
        """The row of a label at the place of the last entry: its part of C x, with the noise of that place."""
        weights = self.event.correlation.row(len(entries))
        key = keys.derived(entries[-1].key, self.event.epoch, label, keys.SUMS)
        row = rng.keyed(key).rounded_gaussian(self.event.noise * FINE, entries[-1].sums.shape[1] - 1)
        left_out = label in self.known and label not in self.gathered  # what it had while it was pending
        for weight, entry in zip(weights, entries, strict=True):
            at = entry.at.get(label)
            if at is not None and not (left_out and not entry.known[at]):
                row += weight * entry.sums[at, 1:]
        return row

    def _stands_out(self, label: Label, entries: Sequence[Entry], rng: NoiseSource) -> bool:
        """Whether one of the two statistics of the noisy counts of a label exceeds its threshold."""
        counts = [int(entry.sums[entry.at[label], 0]) if label in entry.at else 0 for entry in entries]
        sigma, matrix = self.event.noise * FINE, self.event.correlation
        noisy = []
        for t, entry in enumerate(entries, start=1):
            key = keys.derived(entry.key, self.event.epoch, label, keys.COUNT)
            noise = int(rng.keyed(key).rounded_gaussian(sigma, 1)[0])
            noisy.append(sum(c * x for c, x in zip(matrix.row(t).tolist(), counts, strict=False)) + noise)
        looks = matrix.inverse_prefix(len(entries)), matrix.inverse_row(len(entries))
        return any(sum(w * y for w, y in zip(look.weights, noisy, strict=True)) > self._most(look) for look in looks)

    def _most(self, look: correlation.Look) -> int:
        """What one example adds to a statistic, and z deviations of its noise; never below the real threshold."""
        deviation = self.event.noise * FINE * look.deviation * correlation.LOOK_ONE
        slack = math.ceil(self.event.deviations * deviation * (1 + 2.0**-48) + look.rounding)
        return look.most * selection.count_step(self.event.count_weight) + slack
