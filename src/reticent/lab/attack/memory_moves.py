"""How far one person moves all rows of an epoch: exact, by noise that is told and by what is then published."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.gate import grid
from reticent.gate.label_sums import LabelSums
from reticent.gate.noise import NoiseSource
from reticent.gate.remembered import FINE, Entry, RememberedSums, StreamSums
from reticent.labels import Label, LabelSpace
from reticent.privacy import events

Floats = npt.NDArray[np.float64]
# How many examples of each label a task has, all with the same feature; and what a stream of them publishes: numbers by
# the task that publishes them, their label, and the row they are of.
Task = Mapping[Label, int]
Published = dict[tuple[int, Label, int], float]
Stream = Callable[[Sequence[Task], "Spoken"], Published]
KNOWN = grid.SCALE - 1  # grid steps of the feature of a known label


class Spoken(NoiseSource):
    """Says the noise that it is told, by the key of a row and the coordinate, and notes which deviation was asked for.

    The noise of a count has its word instead of a key. Fresh keys count up, so that two streams of as many tasks have
    the same keys.
    """

    def __init__(self, told: Mapping[tuple[bytes, int], int] | None = None) -> None:
        super().__init__(seed=0)
        self._told, self._drawn = dict(told or {}), 0
        self.asked: dict[tuple[bytes, int], float] = {}

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        """Returns words that no call before has returned."""
        self._drawn += n
        return np.arange(self._drawn - n, self._drawn, dtype=np.uint64)

    def rounded_gaussians(self, keys: Sequence[bytes], sigma: float, width: int) -> npt.NDArray[np.int64]:
        """Returns what it was told of each key, else zero."""
        self.asked |= {(key, j): sigma for key in keys for j in range(width)}
        rows = [[self._told.get((key, j), 0) for j in range(width)] for key in keys]
        return np.array(rows, dtype=np.int64).reshape(len(keys), width)

    def rounded_words(
        self, words: npt.NDArray[np.uint64], sigma: float, more: Callable[[int], bytes]
    ) -> npt.NDArray[np.int64]:
        """Returns what it was told of each word, else zero."""
        return self.rounded_gaussians([word.tobytes() for word in words], sigma, 1)[:, 0]


@dataclass(frozen=True)
class Remembering:
    """A stream as the gate would run it: each task published, its entry kept, labels known from then on.

    Args:
        event: Of the epoch.
        public: Labels that are known from the beginning.
        mechanism: From event, known labels and those gathered in the epoch to the mechanism.
    """

    event: events.Remembered
    public: tuple[Label, ...] = ()
    mechanism: Callable[..., Any] = RememberedSums

    def __call__(self, tasks: Sequence[Task], rng: NoiseSource) -> Published:
        """Returns all that is published."""
        known, gathered, past = self.public, frozenset[Label](), list[Entry]()
        published: Published = {}
        for place, task in enumerate(tasks, start=1):
            value = StreamSums(sums_of(task, known, self.event.count_weight), tuple(past), place)
            drawn = self.mechanism(self.event, LabelSpace(known), gathered)(value, rng=rng)
            published |= {(place, label, place): row[0] for label, row in zip(known, drawn.known, strict=True)}
            for label, last, rows in zip(drawn.released, drawn.vectors, drawn.earlier, strict=True):
                published |= {(place, label, t): row[0] for t, row in enumerate([*rows, last], place - len(rows))}
            past.append(drawn.entry)
            known, gathered = known + drawn.released, gathered | set(drawn.released)
        return published


def sums_of(task: Task, known: Sequence[Label], count_weight: float) -> LabelSums:
    """Returns the exact sums of a task whose examples all have one feature, of nearly unit length.

    It is an odd number of grid steps: a multiple of 256 of them lies on grids that a feature of others does not meet.
    """
    public = set(known)
    pending = [label for label in task if label not in public and task[label] and count_weight]
    one = int(grid.snap(np.ones((1, 1)), count_weight=count_weight).values[0, 0])
    one -= one % 2 == 0
    counts = np.array([task[label] for label in pending], dtype=np.int64)
    mine = np.array([task.get(label, 0) for label in known], dtype=np.int64)
    return LabelSums(mine[:, None] * KNOWN, tuple(pending), counts, counts[:, None] * one, count_weight)


def largest_move(stream: Stream, tasks: int, tasks_per_person: int, examples: int = 1) -> float:
    """Returns the most that a person in so many of the tasks moves what is published, in deviations of its noise."""
    empty: list[Task] = [{} for _ in range(tasks)]
    placements = itertools.combinations(range(tasks), tasks_per_person)
    return max(
        move(stream, empty, [{"a": examples} if t in chosen else {} for t in range(tasks)]) for chosen in placements
    )


def move(stream: Stream, one: Sequence[Task], other: Sequence[Task]) -> float:
    """Returns the distance of two streams of known labels, in deviations of the noise; infinite if they can be told.

    What is published is d + B z with integers z, each Gaussian with the deviation that was asked for. Streams that
    publish other numbers of values, values without noise that differ, or values on grids that do not meet are told
    apart for certain.
    """
    source = Spoken()
    base, moved = stream(one, source), stream(other, Spoken())
    if base.keys() != moved.keys():
        return math.inf
    step = FINE * grid.SCALE  # so large that a mechanism which rounds its noise to a coarser grid keeps all of it
    columns = []
    for name in source.asked:
        seen = stream(one, Spoken({name: step}))
        columns.append([(seen[place] - base[place]) / step for place in base])
    d = np.array([moved[place] - base[place] for place in base], dtype=np.float64)
    by_noise = np.array(columns, dtype=np.float64).reshape(len(columns), len(d)).T
    deviations = np.array(list(source.asked.values()))
    needed, *_ = np.linalg.lstsq(by_noise * deviations, d, rcond=None)
    reached = by_noise * deviations @ needed
    if not np.allclose(reached, d, rtol=1e-9, atol=1e-3):
        return math.inf
    steps = needed * deviations  # the noise that turns one stream into the other
    unit = _smallest_steps(stream, one, source)
    on_grid = np.abs(steps / unit - np.rint(steps / unit)) * unit < 1e-3
    return float(np.linalg.norm(needed)) if on_grid.all() else math.inf


def _smallest_steps(stream: Stream, one: Sequence[Task], source: Spoken) -> Floats:
    """How far apart the values of each noise are that can be told apart: 1 unless it is rounded again."""
    base = stream(one, Spoken())
    found = []
    for name in source.asked:
        steps = (1 << k for k in range(40))
        found.append(next(step for step in steps if stream(one, Spoken({name: step})) != base))
    return np.array(found, dtype=np.float64)
