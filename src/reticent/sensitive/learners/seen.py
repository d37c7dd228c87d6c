"""Seen: the features of a task as its learner sees them, added up by label wherever the task's engine says."""

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.encoders.devices import one_thread
from reticent.gate.label_sums import LabelSums, PartialSums, count_by_label
from reticent.labels import Label, LabelSpace, canonical, in_public_order
from reticent.released.model import Encode
from reticent.released.release import Past
from reticent.sensitive.batch import Batch
from reticent.sensitive.engines import Part
from reticent.sensitive.learners.learner import encoded
from reticent.sensitive.task import Task

Ints = npt.NDArray[np.int64]
Change = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]

VECTOR_BYTES = 1 << 27
"""Sums of labels that are not known are kept up to this size, of a task that can be read again."""
_ENCODING = threading.Lock()  # an encoder has threads of its own, and a tokenizer serves one at a time


@dataclass(frozen=True, eq=False)
class Seen:
    """Sensitive: a task as features. What is in memory is encoded once; a stream when its batches are read.

    Args:
        task: One that the gate has admitted.
        width: Of features; public.
        encoder: What is still to be done to inputs; None where they are features.
        changes: What is done to features, row by row.
        name: From a label of the data to the label it counts for; None drops it.
    """

    task: Task
    width: int
    encoder: Encode | None = None
    changes: tuple[Change, ...] = ()
    name: Callable[[object], Label | None] = canonical

    def __repr__(self) -> str:
        return "Seen(<sensitive>)"

    def changed(self, change: Change) -> "Seen":
        """Returns the task with one more change of its features."""
        return replace(self, changes=(*self.changes, change))

    def named(self, name: Callable[[object], Label | None]) -> "Seen":
        """Returns the task with other labels for its examples."""
        return replace(self, name=name)

    def twice(self) -> "Seen":
        """Returns the task as one that can be read again: an iterator is kept in memory, as features."""
        if self.task.rereadable:
            return self
        batches = [replace(batch, whole=self._look.features(batch), rows=None) for batch in self.task.batches()]
        return replace(self, task=self.task.in_memory_of(batches, np.zeros((0, self.width))), encoder=None, changes=())

    def counts(self) -> dict[Label, int]:
        """Returns how many examples each label has, in public order."""
        total: dict[Label, int] = {}
        for counts in self.task.mapped(_count):
            for label, size in counts.items():
                total[label] = total.get(label, 0) + size
        return {label: total[label] for label in in_public_order(total)}

    def known_sums(self, known: LabelSpace, *, weight: float = 0.0) -> Ints:
        """Returns the sums of known labels, one row for each."""
        return self._added(known, weight=weight).known(self.width)

    def found_sums(self, known: LabelSpace) -> tuple[Ints, Ints]:
        """Returns the places of the known labels that have a usable example, and their sums."""
        return self._added(known).found(self.width)

    def sums(self, known: LabelSpace, count_weight: float) -> LabelSums:
        """Returns the sums of known labels, and of others with their counts.

        Vectors of labels that are not known are kept up to `VECTOR_BYTES`; beyond, those that are asked for are summed
        in a second pass. Of what is in memory none are kept, and of an iterator all are.
        """
        return self._all(known, count_weight).result(self.width, self._again(count_weight))

    def found_and_others(self, known: LabelSpace, count_weight: float) -> tuple[Ints, LabelSums]:
        """Returns as `sums`, of known labels only those that have a usable example: their places, and the sums."""
        added = self._all(known, count_weight)
        return added.found(self.width)[0], added.result(self.width, self._again(count_weight), dense=False)

    def _all(self, known: LabelSpace, count_weight: float) -> PartialSums:
        streamed = VECTOR_BYTES // (12 * max(1, self.width)) if self.task.rereadable else math.inf
        vectors = 0 if self.task.is_in_memory and self.encoder is None else streamed
        return self._added(known, unknown=count_weight or None, vectors=vectors)

    def _again(self, count_weight: float) -> Callable[[Sequence[Label]], Ints]:
        return lambda labels: self.known_sums(LabelSpace(tuple(labels)), weight=count_weight)

    def _added(
        self, known: LabelSpace, *, weight: float = 0.0, unknown: float | None = None, vectors: float = 0
    ) -> PartialSums:
        make = partial(PartialSums, known, weight=weight, unknown=unknown, vectors=vectors, name=self.name)
        total = make()
        for part in self.task.mapped(_AddUp(self._look, make), shown=self.encoder is None):
            total.merge(part)
        return total

    @property
    def _look(self) -> "_Look":
        return _Look(self.encoder, self.changes, elsewhere=not self.task.engine.shares_memory)


def seen(task: Task, encoder: Encode | None, past: Past) -> Seen:
    """Returns a task as features; what is in memory is encoded now, and a stream batch by batch after the spend.

    Where workers have a memory of their own, they encode: after the spend, too, and on one thread each.

    Refuses by shapes and types alone, before any row of a stream is read.

    Args:
        task: One that the gate has admitted.
        encoder: From inputs to features; None where inputs are features already.
        past: The releases before it.
    """
    elsewhere = not task.engine.shares_memory
    none = encoded(task.no_inputs, encoder, past)
    width = none.shape[1]
    if encoder is None or elsewhere or not task.is_in_memory:
        return Seen(task, width, encoder)
    (batch,) = task.whole()
    features = encoded(batch.inputs, encoder, past)
    return Seen(task.in_memory_of([replace(batch, whole=features, rows=None)], none), width)


@dataclass(frozen=True)
class _Look:
    """From a batch to features, and which of their rows count.

    Args:
        encoder: What is still to be done to inputs.
        changes: What is done to features.
        elsewhere: Whether workers encode that may have other numbers of threads than each other.
    """

    encoder: Encode | None
    changes: tuple[Change, ...]
    elsewhere: bool

    def __call__(self, batch: Batch) -> tuple[npt.NDArray[Any], Ints | None]:
        if self.encoder is None and not self.changes:
            return batch.whole, batch.rows  # nothing is copied
        return self.features(batch), None

    def features(self, batch: Batch) -> npt.NDArray[Any]:
        """Returns the features of the examples that count."""
        features: npt.NDArray[Any] = batch.inputs
        if self.encoder is not None:
            with _ENCODING, one_thread(self.encoder) if self.elsewhere else nullcontext():
                features = encoded(features, self.encoder, ())
        for change in self.changes:
            features = change(features)
        return features


@dataclass(frozen=True)
class _AddUp:
    """From a part of a task to its sums."""

    look: _Look
    make: Callable[[], PartialSums]

    def __call__(self, part: Part) -> PartialSums:
        total = self.make()
        for batch in part:
            features, rows = self.look(batch)
            total.add(features, batch.labels, rows)
        return total


def _count(part: Part) -> dict[Label, int]:
    total: dict[Label, int] = {}
    for batch in part:
        for label, size in count_by_label(batch.labels).items():
            total[label] = total.get(label, 0) + size
    return total
