"""The conformance suite for streams with memory: exact, by noise that is told and by what is then published."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.gate.noise import NoiseSource, keys
from reticent.gate.remembered import FINE, RememberedSums
from reticent.lab.attack.memory_moves import KNOWN, Floats, Remembering, Spoken, largest_move, sums_of
from reticent.privacy import events, selection

_DRAWS = 30  # of noise, for each pair of neighbours
_NEAR = 1e-6  # of a threshold, in deviations: there nothing is compared


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
    units = [KNOWN if known.get(label, tasks) < s + 1 else int(one.vectors[np.arange(1)][0, 0]) for label in labels]
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
