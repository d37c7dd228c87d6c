"""Broken twins of memory between tasks: streams and mechanisms with one mistake each."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from reticent.gate import grid
from reticent.gate.noise import NoiseSource
from reticent.gate.remembered import Entry, RememberedSums, StreamSums
from reticent.lab.attack.memory_moves import Published, Remembering, Task, sums_of
from reticent.labels import Label, LabelSpace
from reticent.privacy import events


@dataclass(frozen=True)
class BurnedTwice(Remembering):
    """Publishes the row of its second place, forgets it, and publishes the place again with the data of the next."""

    def __call__(self, tasks: Sequence[Task], rng: NoiseSource) -> Published:
        published: Published = {}
        past: tuple[Entry, ...] = ()
        for t, task in enumerate(tasks):
            value = StreamSums(sums_of(task, self.public, self.event.count_weight), past, t + 1)
            drawn = RememberedSums(self.event, LabelSpace(self.public))(value, rng=rng)
            published |= {(t, label, t): row[0] for label, row in zip(self.public, drawn.known, strict=True)}
            past = (*past, drawn.entry) if t != 1 else past
        return published


@dataclass(frozen=True)
class OneKey(RememberedSums):
    """Uses the key of its first task in all of them."""

    def _entry(self, task: Any, row: int, key: bytes) -> Entry:
        return super()._entry(task, row, bytes(32))


@dataclass(frozen=True)
class InverseSide(RememberedSums):
    """Publishes x + C^-1 Z with Z on the grid of x: each x has a lattice of its own."""

    def _rows(self, labels: Sequence[Label], entries: Sequence[Entry], rng: NoiseSource) -> Any:
        c = self.event.correlation.coefficients[: len(entries)] / 256
        inverse = np.linalg.inv([[c[t - s] if t >= s else 0.0 for s in range(len(c))] for t in range(len(c))])[-1]
        coarse = self.event.noise * grid.SCALE
        rows = sum(
            weight * rng.rounded_gaussians(self._keys(labels, entry), coarse, entry.width)
            for weight, entry in zip(inverse, entries, strict=True)
        )
        last = entries[-1]
        for i, label in enumerate(labels):
            if label in last.labels:
                rows[i] += last.vectors[np.array([last.labels.index(label)])][0]
        return rows * 256

    def _keys(self, labels: Sequence[Label], entry: Entry) -> list[bytes]:
        return [entry.key[:31] + repr(label).encode()[1:2] for label in labels]


@dataclass(frozen=True)
class CoarseNoise(RememberedSums):
    """Rounds its noise to the grid of single sums: the low bits of a row are those of the tasks before."""

    def _noise(self, labels: Sequence[Label], entry: Entry, rng: NoiseSource) -> Any:
        return super()._noise(labels, entry, rng) // 256 * 256


@dataclass(frozen=True)
class Louder:
    """An event whose noise is not what it says."""

    inner: events.Remembered
    noise: float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def without_gamma(event: events.Remembered, *others: Any) -> RememberedSums:
    """Adds noise for what one example moves in one row, as if the other rows did not have it too."""
    return RememberedSums(Louder(event, event.noise_multiplier), *others)  # type: ignore[arg-type]


def of_single_columns(event: events.Remembered, *others: Any) -> RememberedSums:
    """Takes n columns for independent: sqrt(n) gamma_1 instead of gamma_n."""
    gamma = math.sqrt(event.tasks_per_person) * event.correlation.gamma()
    return RememberedSums(Louder(event, event.noise_multiplier * gamma), *others)  # type: ignore[arg-type]


def without_union(event: events.Remembered, chance: float) -> tuple[events.Remembered, events.Event]:
    """Takes as many deviations as one look needs: returns the event that is drawn, and what is claimed of it."""
    fields = {**vars(event), "deviations": -float(ndtri(chance))}
    said = events.compose(
        events.Gaussian(noise_multiplier=event.noise_multiplier), events.Exposure(chance=chance * (1 + 1e-9))
    )
    return events.Remembered(**fields), said


@dataclass(frozen=True)
class PresentOnly(RememberedSums):
    """Looks at pending labels only in tasks that have an example of them."""

    def _standing_out(self, labels: Sequence[Label], entries: Sequence[Entry], rng: NoiseSource) -> Iterator[Label]:
        return super()._standing_out([label for label in labels if label in entries[-1].labels], entries, rng)


@dataclass(frozen=True)
class SinceFirst(RememberedSums):
    """Looks at a pending label with statistics that begin with its first example."""

    def _standing_out(self, labels: Sequence[Label], entries: Sequence[Entry], rng: NoiseSource) -> Iterator[Label]:
        for label in labels:
            first = next(t for t, entry in enumerate(entries) if label in entry.labels)
            yield from super()._standing_out([label], entries[first:], rng)
