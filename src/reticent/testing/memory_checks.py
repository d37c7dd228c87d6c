"""The conformance suite for streams with memory: exact, by noise that is told and by what is then published."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.gate import grid
from reticent.gate.label_sums import LabelSums
from reticent.gate.noise import NoiseSource, keys
from reticent.gate.remembered import FINE, Entry, RememberedSums, StreamSums
from reticent.labels import Label, LabelSpace
from reticent.privacy import events, selection

Floats = npt.NDArray[np.float64]
# How many examples of each label a task has, all with the same feature; and what a stream of them publishes: numbers by
# the task that publishes them, their label, and the row they are of.
Task = Mapping[Label, int]
Published = dict[tuple[int, Label, int], float]
Stream = Callable[[Sequence[Task], "Spoken"], Published]
_KNOWN = grid.SCALE - 1  # grid steps of the feature of a known label
_DRAWS = 30  # of noise, for each pair of neighbours
_NEAR = 1e-6  # of a threshold, in deviations: there nothing is compared


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
    return LabelSums(mine[:, None] * _KNOWN, tuple(pending), counts, counts[:, None] * one, count_weight)


def check_memory(mechanism: Callable[..., Any] = RememberedSums, *, noise_multiplier: float = 4.0) -> None:
    """Checks that a mechanism with memory costs what its event says, exactly, on streams of three tasks.

    What it checks:
      - However a person's tasks lie in an epoch, what they move all rows by, over the noise, is within the claim; for
        one task per person and for two.
      - With and without the person the same numbers can be published: noise lies on the grid of the rows.
      - A label that is not known, with one example, crosses no threshold within z deviations of noise.
      - After equal noisy rows everything published is equal, unless a look at the label of one single example crossed
        its threshold, wherever that example lies: before, between or after the tasks that have the label.

    Args:
        mechanism: From event, known labels and those gathered in the epoch to the mechanism.
        noise_multiplier: sigma of the events that are tried.

    Example:
        >>> check_memory()
    """
    for n, eighths in itertools.product((1, 2), (1, 4)):
        event = events.Remembered(
            noise_multiplier=noise_multiplier, epoch=1, eighths=eighths, horizon=3, tasks_per_person=n
        )
        stream = Remembering(event, ("a", "b"), mechanism)
        found = largest_move(stream, 3, n)
        _require(found <= (1 + 1e-9) / noise_multiplier, f"A person in {n} task(s) moves {found:.3g} deviations.")
    gathering = events.Remembered(
        noise_multiplier=noise_multiplier, epoch=1, horizon=3, count_weight=0.2, deviations=1.0
    )
    _require(exposes_no_sooner(gathering, mechanism), "A label with one example becomes known within z deviations.")
    for one, s in itertools.product(((0, 0, 0), (0, 9, 0), (12, 0, 0), (5, 0, 20), (0, 0, 30)), range(3)):
        _require(
            is_coupled(gathering, one, s, mechanism),
            f"One example in task {s + 1} beside {one} shows after equal noisy rows.",
        )


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


def exposes_no_sooner(event: events.Remembered, mechanism: Callable[..., Any] = RememberedSums) -> bool:
    """Whether one example of a pending label crosses no threshold while the noise of its counts is within z deviations.

    In every direction of the rows' noise, those in which the two statistics grow fastest among them: each threshold is
    then a half-space at a distance of at least z, which Gaussian noise reaches with chance at most Q(z).
    """
    inverse = np.linalg.inv(_matrix(event, event.horizon))
    directions = np.concatenate([inverse, np.cumsum(inverse, axis=0), _normal(event.horizon)])
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    noise = np.rint(directions / lengths * event.deviations * (1 - _NEAR) * event.noise * FINE)
    stream, labels = Remembering(event, mechanism=mechanism), range(len(noise))
    told = _told(event, noise, keys.COUNT)
    places = range(event.horizon)
    return not any(stream([dict.fromkeys(labels, int(t == s)) for t in places], Spoken(told)) for s in places)


def is_coupled(
    event: events.Remembered, counts: Sequence[int], s: int, mechanism: Callable[..., Any] = RememberedSums
) -> bool:
    """Whether one example in task s shows after equal noisy rows only where its label crossed a threshold alone.

    Both runs get the same noisy counts and sums of a label, rows C x + Z: the noise of the one with the example is less
    by what it adds. Before the first task that has the label without it, a crossing is what p1 pays for. Many labels at
    once, each with other noise.
    """
    tasks, labels = len(counts), range(_DRAWS)
    noise = np.rint(_normal(tasks) * event.noise * FINE)
    stream = Remembering(event, mechanism=mechanism)
    before = stream([dict.fromkeys(labels, n) for n in counts], Spoken(_told(event, noise, keys.COUNT)))
    adds = _matrix(event, tasks)[:, s] * 256
    one = sums_of({"one": 1}, (), event.count_weight)
    # from the task after a label becomes known its examples weigh 1
    known = {label: min(t for t, other, _ in before if other == label) for _, label, _ in before}
    units = [_KNOWN if known.get(label, tasks) < s + 1 else int(one.vectors[np.arange(1)][0, 0]) for label in labels]
    told = _told(event, noise - adds * selection.count_step(event.count_weight), keys.COUNT)
    told |= _told(event, -np.outer(units, adds), keys.SUMS)
    after = stream([dict.fromkeys(labels, n + (t == s)) for t, n in enumerate(counts)], Spoken(told))
    excused = [label for label in labels if _may_cross(event, counts, s, noise[label] / FINE)]
    different = {label for _, label, _ in {place for place, _ in before.items() ^ after.items()}}
    return len(excused) < _DRAWS and different <= set(excused)


def _may_cross(event: events.Remembered, counts: Sequence[int], s: int, noise: Floats) -> bool:
    """Whether a look at a label crosses its threshold, or nearly, while nothing but one example in task s has it."""
    first = next((t for t, n in enumerate(counts) if n), len(counts))
    matrix, c = _matrix(event, len(counts)), math.sqrt(event.count_weight)
    inverse, rows = np.linalg.inv(matrix), noise + c * (matrix @ np.array(counts))
    looks = [look[t] for t in range(s, first) for look in (inverse, np.cumsum(inverse, axis=0))]
    spreads = [event.noise * float(np.linalg.norm(weights)) for weights in looks]
    beyond = [(w @ rows - c) / spread - event.deviations for w, spread in zip(looks, spreads, strict=True)]
    return any(deviations > -1e-3 for deviations in beyond)


def _normal(tasks: int) -> Floats:
    """Noise to tell, the same each time: what is exact needs no luck."""
    return NoiseSource.seeded(0).rounded_gaussian(2.0**40, (_DRAWS, tasks)) / 2.0**40


def _matrix(event: events.Remembered, tasks: int) -> Floats:
    lags = np.arange(tasks)[:, None] - np.arange(tasks)
    matrix: Floats = np.where(lags >= 0, event.correlation.coefficients[np.abs(lags)], 0) / 256
    return matrix


def _told(event: events.Remembered, noise: npt.NDArray[Any], part: bytes) -> dict[tuple[bytes, int], int]:
    """The noise of each label (row) in each task (column), by its key; `Spoken` gives tasks their keys in order."""
    told: dict[tuple[bytes, int], int] = {}
    for t, column in enumerate(noise.T.tolist()):
        fresh = np.arange(4 * t, 4 * t + 4, dtype=np.uint64).tobytes()
        if part == keys.COUNT:
            words = keys.words(fresh, event.epoch, keys.hashed(range(len(column))), part)
            mine = [word.tobytes() for word in words]
        else:
            mine = [keys.derived(fresh, event.epoch, label, part) for label in range(len(column))]
        told |= {(key, 0): int(value) for key, value in zip(mine, column, strict=True)}
    return told


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence)
