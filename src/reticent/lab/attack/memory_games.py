"""Attacks on a stream with memory: its law, how far one person moves all of its rows, and games on whole streams."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from reticent.gate.noise import NoiseSource
from reticent.gate.remembered import FINE, RememberedSums
from reticent.lab.attack import exact, memory_law, stream_games
from reticent.lab.attack.games import Result, judge
from reticent.lab.attack.memory_moves import Remembering, Stream, Task, largest_move
from reticent.privacy import accounting, events

MOVED = "one person in an epoch, over its noise"
GATHERED = "labels that gather evidence, over three tasks"
_TASKS = 4  # of a game: what one person moves later is hardly more


def plays(event: events.Remembered, delta: float, *, trials: int) -> Iterator[Callable[[], list[Result]]]:
    """Yields everything that is computed and played for an epoch.

    Args:
        event: Of the epoch.
        delta: At which epsilon is to be bounded.
        trials: Games with the canary, and as many without.
    """
    yield lambda: [exact.exact("the law of what is drawn", event, delta)]
    stream, n = Remembering(event, ("a", "b")), event.tasks_per_person
    yield lambda: [moved(MOVED, stream, event, delta, tasks=min(_TASKS, event.horizon), tasks_per_person=n)]
    if event.count_weight:
        yield lambda: [gathered(event, delta)]
    yield lambda: [play(event, delta, trials=trials)]


def moved(
    game: str, stream: Stream, claimed: events.Event, delta: float, *, tasks: int = 3, tasks_per_person: int = 1
) -> Result:
    """Compares how far a person moves the rows of a stream, in deviations of the noise it asks for, with a claim.

    Args:
        game: Its name.
        stream: From tasks and a source of noise to what is published, with the label "a" known.
        claimed: What is said to be spent by one person.
        delta: At which epsilon is to be bounded.
        tasks: How many there are.
        tasks_per_person: In how many of them the person is.
    """
    mu = largest_move(stream, tasks, tasks_per_person, getattr(claimed, "examples_per_person", 1))
    lost = exact.gaussian(mu) if math.isfinite(mu) else (lambda _: 1.0)
    return exact.of_curve(game, lost, delta, claimed=accounting.epsilon(claimed, delta))


def gathered(event: events.Remembered, delta: float, *, claimed: events.Event | None = None) -> Result:
    """Compares the law of a label that gathers evidence over three tasks with a claim: the worst of some neighbours."""
    often = math.ceil((event.deviations + 9) * event.noise / math.sqrt(event.count_weight)) + 1

    def lost(epsilon: float) -> float:
        pairs = [((0, 0, 0), 0), ((0, often, 0), 0), ((often, 0, 0), 1), ((0, 0, often), 1)]
        return max(max(memory_law.divergences(event, counts, s, epsilon)) for counts, s in pairs)

    return exact.of_curve(GATHERED, lost, delta, claimed=accounting.epsilon(claimed or event, delta))


def play(
    event: events.Remembered, delta: float, *, trials: int, mechanism: Callable[..., Any] = RememberedSums
) -> Result:
    """Plays on the rows of known labels, each label one game; the canary is in the first tasks of the epoch."""
    n = event.tasks_per_person
    tasks = min(_TASKS, event.horizon)
    names = tuple(f"label {i}" for i in range(2 * trials))
    joined = np.random.default_rng().permutation(np.arange(2 * trials) < trials)
    canaries: Task = {name: event.examples_per_person for name, there in zip(names, joined, strict=True) if there}
    stream = Remembering(event, names, mechanism)
    published = stream([canaries if t < n else {} for t in range(tasks)], NoiseSource.from_os())
    c = event.correlation.coefficients
    weights = [float(sum(c[t - s] for s in range(min(n, t + 1)))) for t in range(tasks)]
    seen = np.array([sum(w * published[t, name, t] for t, w in enumerate(weights, 1)) for name in names]) / FINE
    return judge(stream_games.KNOWN, seen[joined], seen[~joined], event=event, delta=delta)
