"""Sums of a stream with memory: noise of one task cancels noise of others, and labels gather evidence over tasks.

Everything is a whole number: sums on the grid of 2^-20, coefficients in 256ths, rows and noise on the grid of 2^-28.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate import grid
from reticent.gate.label_sums import LabelSums, Vectors
from reticent.gate.noise import NoiseSource, keys
from reticent.labels import Label, LabelSpace, in_public_order
from reticent.privacy import correlation, events, selection

Ints = npt.NDArray[np.int64]
FINE = grid.SCALE * correlation.ONE  # grid steps per unit of a row
_NUMBERS = 1 << 20  # noisy counts that are held at a time


@dataclass(frozen=True, eq=False)
class Entry:
    """Sensitive: what memory keeps of one task, for as long as its epoch lasts. The vault stores it, nobody else.

    Args:
        row: The row of the ledger that paid for it.
        key: 32 secret bytes that its noise is derived from.
        labels: The labels that have examples in the task.
        counts: Their count slots in grid steps of 2^-20; 0 for known ones.
        vectors: From places of labels to their exact sums in grid steps; an array, or what a vault reads when it is
            asked: of labels that nobody knows the counts are all that is looked at.
        width: Coordinates of a sum.
        known: Which of the labels were known, and so have no count slot and weight 1.
    """

    row: int
    key: bytes
    labels: tuple[Label, ...]
    counts: Ints
    vectors: Vectors
    width: int
    known: tuple[bool, ...]

    def __post_init__(self) -> None:
        whole = self.counts.ndim == 1 and self.counts.dtype == np.int64 and self.width >= 0
        if not whole or len(self.key) != 32 or not len(self.labels) == len(self.counts) == len(self.known):
            raise errors.InvalidValue("Expected a key of 32 bytes, and a count and a flag for each label.")

    def __repr__(self) -> str:
        return "Entry(<sensitive>)"


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

    Guarantees (one label per example, add or remove one person):
      - All rows of the epoch together move by at most gamma, on a grid that all data share.
                                                  test_memory_costs_what_its_event_says, test_two_rows_on_a_small_grid
      - A pending label with one example becomes known with chance at most p1, whatever lies before and after it; after
        equal noisy rows nothing else depends on it.
                            test_pending_labels_cost_at_most_their_claim, test_broken_memory_fails
      - Where all labels are public, no other becomes known, whatever sums hold.
                                                       test_without_a_count_weight_no_label_becomes_known
      - When a label becomes known follows its law.                        test_labels_become_known_by_their_law
      - Looks are decided as in whole numbers of any size.                 test_looks_are_those_of_whole_numbers
      - An empty task runs the same code and draws for every known label.  test_an_empty_task_is_a_row_like_any_other
      - One declared public while it was pending is published like one that never had an example.
                                                   test_labels_that_become_public_are_published_like_absent_ones
      - Rows are exact for up to 2^33 examples; beyond 2^35, not.         test_rows_are_exact_for_many_examples

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
        task, place = value.task, len(value.past) + 1
        if task.count_weight != self.event.count_weight or task.sensitivity > grid.SCALE:
            raise errors.InvalidValue("Expected sums with the count weight of the mechanism, of sensitivity one.")
        if place > self.event.horizon:
            raise errors.InvalidValue("This epoch has no place left. Begin a new one: reticent vault rotate.")
        entries = (*value.past, self._entry(task, value.row, rng.words(4).tobytes()))
        known = self._rows(self.known.labels, entries, rng)
        # without a count weight no label can gather evidence: its statistics would be noise beside a threshold of zero
        labels = (label for entry in entries for label in entry.labels if self.event.count_weight)
        pending = dict.fromkeys(label for label in labels if self.known.row(label) < 0)
        released = in_public_order(self._standing_out(tuple(pending), entries, rng))
        mine = [_only(released, entry) for entry in entries]
        found = np.stack([self._rows(released, mine[:t], rng) for t in range(1, place + 1)], axis=1)
        return RememberedRows(place, known, released, found[:, -1], found[:, :-1], entries[-1])

    def _entry(self, task: LabelSums, row: int, key: bytes) -> Entry:
        """What memory keeps of the task; labels whose sums are zero have none."""
        mine, width = np.flatnonzero(task.known.any(axis=1)), task.known.shape[1]
        labels = (*(self.known.labels[i] for i in mine), *task.unknown)
        counts = np.zeros(len(labels), dtype=np.int64)
        counts[len(mine) :] = task.counts * selection.count_step(task.count_weight)
        vectors = np.concatenate([task.known[mine], task.vectors[np.arange(len(task.unknown))]])
        return Entry(row, key, labels, counts, vectors, width, (True,) * len(mine) + (False,) * len(task.unknown))

    def _rows(self, labels: Sequence[Label], entries: Sequence[Entry], rng: NoiseSource) -> Ints:
        """The rows of labels at the place of the last entry: their parts of C x, with the noise of that place."""
        rows = self._noise(labels, entries[-1], rng)
        at = {label: i for i, label in enumerate(labels)}
        for weight, entry in zip(self.event.correlation.row(len(entries)), entries, strict=True):
            mine = [j for j, label in enumerate(entry.labels) if label in at and self._counts(label, entry.known[j])]
            if mine:
                rows[[at[entry.labels[j]] for j in mine]] += weight * entry.vectors[np.array(mine)]
        return rows

    def _counts(self, label: Label, was_known: bool) -> bool:
        """Whether examples count: not those of a pending label that was declared public since."""
        return was_known or label in self.gathered or label not in self.known

    def _standing_out(self, labels: Sequence[Label], entries: Sequence[Entry], rng: NoiseSource) -> Iterator[Label]:
        """Yields the labels for which one of the two statistics of their noisy counts exceeds its threshold."""
        counts = np.zeros((len(labels), len(entries)), dtype=np.int64)
        at = {label: i for i, label in enumerate(labels)}
        for t, entry in enumerate(entries):
            place = np.array([at.get(label, -1) for label in entry.labels], dtype=np.int64)
            counts[place[place >= 0], t] = entry.counts[place >= 0]
        step = max(1, _NUMBERS // len(entries))
        for start in range(0, len(labels), step):
            part = slice(start, start + step)
            exceeds = self._exceed(counts[part], self._count_noise(labels[part], entries, rng))
            yield from (labels[start + i] for i in np.flatnonzero(exceeds).tolist())

    def _exceed(self, counts: Ints, noise: Ints) -> npt.NDArray[np.bool_]:
        """Which labels (rows) exceed a threshold: in float64, and in whole numbers of any size where that is close.

        Args:
            counts: Count slots, by label and task.
            noise: Of the rows of these counts.
        """
        matrix, places = self.event.correlation, counts.shape[1]
        lags = np.arange(places)[:, None] - np.arange(places)
        mixing = np.where(lags >= 0, matrix.coefficients[lags], 0)
        found = np.zeros(len(counts), dtype=np.bool_)
        added = counts @ mixing.T.astype(np.float64)  # counts and coefficients are not negative
        for look in (matrix.inverse_prefix(places), matrix.inverse_row(places)):
            most, weights = self._most(look), np.array(look.weights, dtype=np.float64)
            statistic = (noise + added) @ weights
            error = ((np.abs(noise) + added) @ np.abs(weights) + most) * (4 * places + 16) * 2.0**-52
            above = statistic - most
            found |= above > error
            for i in np.flatnonzero(np.abs(above) <= error).tolist():
                rows = noise[i].astype(object) + mixing.astype(object) @ counts[i].astype(object)
                found[i] |= bool(rows @ np.array(look.weights, dtype=object) > most)
        return found

    def _count_noise(self, labels: Sequence[Label], entries: Sequence[Entry], rng: NoiseSource) -> Ints:
        """The noise of all tasks on the counts of labels: a function of their keys, the epoch and the label alone."""
        hashes, epoch = keys.hashed(labels), self.event.epoch
        noise = np.empty((len(labels), len(entries)), dtype=np.int64)
        for t, entry in enumerate(entries):
            words = keys.words(entry.key, epoch, hashes, keys.COUNT)
            more = partial(_key_of_count, entry.key, epoch, labels)
            noise[:, t] = rng.rounded_words(words, self.event.noise * FINE, more)
        return noise

    def _noise(self, labels: Sequence[Label], entry: Entry, rng: NoiseSource) -> Ints:
        """The noise of one task on sums of labels: a function of its key, the epoch and the label alone."""
        mine = [keys.derived(entry.key, self.event.epoch, label, keys.SUMS) for label in labels]
        return rng.rounded_gaussians(mine, self.event.noise * FINE, entry.width)

    def _most(self, look: correlation.Look) -> int:
        """What one example adds to a statistic, and z deviations of its noise; never below the real threshold."""
        deviation = self.event.noise * FINE * look.deviation * correlation.LOOK_ONE
        slack = math.ceil(self.event.deviations * deviation * (1 + 2.0**-48) + look.rounding)
        return look.most * selection.count_step(self.event.count_weight) + slack


def _only(labels: Sequence[Label], entry: Entry) -> Entry:
    """Returns what an entry has of some labels, their sums read once."""
    wanted = set(labels)
    mine = np.array([j for j, label in enumerate(entry.labels) if label in wanted], dtype=np.int64)
    return replace(
        entry,
        labels=tuple(entry.labels[j] for j in mine),
        counts=entry.counts[mine],
        vectors=entry.vectors[mine],
        known=tuple(entry.known[j] for j in mine),
    )


def _key_of_count(key: bytes, epoch: int, labels: Sequence[Label], place: int) -> bytes:
    return keys.derived(key, epoch, labels[place], keys.COUNT)
