"""How long an encoder takes on this machine, from steps that are measured: what runs through it are expected to take.

A guess of hours helps nobody who pays for a GPU. So before a benchmark runs through an encoder, a few batches of its
public example are timed, forwards and backwards, on the device that the runs will use.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.encoders import Encoder, film
from reticent.gate import grid
from reticent.gate.noise import NoiseSource
from reticent.lab.bench import passes
from reticent.lab.bench.measures import Assigned
from reticent.lab.bench.run import FILM, Run
from reticent.lab.bench.workspace import Workspace, encoder_of
from reticent.lab.data.datasets import Data
from reticent.released.optimizers import Adam
from reticent.sensitive.gradients import AdapterGradients
from reticent.sensitive.training import Engine

_CLASSES = 10  # of the head; the encoder takes nearly all the time
_TIMES = 3
_SOME = 1 << 20  # parameters


@dataclass(frozen=True)
class Step:
    """What one example costs in seconds, and one parameter of a head.

    Args:
        forward: To encode it.
        gradient: To train through the encoder with it.
        update: To add noise to a parameter and move it, in one step: what a head of many thousand labels waits for.

    Example:
        >>> run = Run(data="split-cifar100", learner="peft-paper", adapter="film")
        >>> step = Step(forward=0.01, gradient=0.03)
        >>> step.seconds(run, learned=1_000, tested=100), round(step.tuning(100))
        (1210.0, 1680)
        >>> print(step)
        10.0 ms to encode an example, 30.0 ms to train with it
    """

    forward: float
    gradient: float
    update: float = 0.0

    def __str__(self) -> str:
        return f"{1_000 * self.forward:.1f} ms to encode an example, {1_000 * self.gradient:.1f} ms to train with it"

    def seconds(self, run: Run, *, learned: int, tested: int, tuned_on: int = 0, head: int = 0) -> float:
        """Returns how long a run takes that trains through the encoder, with settings that are there.

        Args:
            run: The run; how often it sees an example is in `passes`.
            learned: Examples to learn from.
            tested: Examples to test on: each task's adapter encodes them.
            tuned_on: Examples that its settings are tuned on: they say how large batches are, and so how many.
            head: Parameters of a task's head.
        """
        steps = passes.steps(run, tuned_on) * run.tasks
        trained = learned * passes.training(run) * self.gradient
        return trained + tested * run.tasks * self.forward + steps * head * self.update

    def tuning(self, tuned_on: int) -> float:
        """Returns how long it takes to tune through the encoder on so many examples; what trials add is little."""
        return passes.tuning(tuned_on) * self.gradient


def measured(encoder: Encoder) -> Step:
    """Times a batch of an encoder's public example: the best of three, after one that warms up."""
    backend = encoder.backend
    items = encoder.prepare([backend.probe])
    rows = 1 if items[0] is None else backend.rows(items[0])
    labels = np.zeros(rows, np.int64)
    gradients = AdapterGradients(backend, film, items * rows, labels, _CLASSES, Engine(rows=rows))
    everyone = np.arange(rows)
    forward = _best(lambda: encoder([backend.probe] * rows))
    gradient = _best(lambda: list(gradients.blocks(gradients.start, everyone)))
    return Step(forward / rows, gradient / rows, _best(_one_update) / _SOME)


def _one_update() -> None:
    """Draws noise for some parameters and moves them, as a step does with those of a head."""
    noise = NoiseSource.seeded(0).rounded_gaussian(float(grid.SCALE), (_SOME,))
    Adam(learning_rate=0.001).update(_SOME)(np.zeros(_SOME), noise / grid.SCALE)


@dataclass(frozen=True)
class Expected:
    """How long a run through an encoder is expected to take, and to tune for it, in seconds; 0 where nothing is."""

    run: Run
    seconds: float
    tuning: float
    step: Step


def expected(runs: Sequence[Run], place: Workspace) -> Iterator[Expected]:
    """Yields what to expect of runs that train through an encoder.

    Args:
        runs: Runs that are to be made; those on data that is not there are left out.
        place: Where data lies, and on which device encoders compute.
    """
    steps: dict[str, Step] = {}
    for run in (run for run in runs if run.adapter == FILM):
        with contextlib.suppress(Exception):  # its worker says what is wrong
            data: Data = place.load(run)
            name = data.encoder or ""
            encoder = encoder_of(data, place.speed)
            if name not in steps:
                steps[name] = measured(encoder)
            step, (train, test), some = steps[name], data.rows(run.seed), 0
            if run.learner in passes.TUNED:
                labels = np.concatenate([data.labels, data.unseen_labels])
                some = len(Assigned(run, data, labels[train]).to_tune(train))
            head = len(set(data.labels.tolist())) * _times(run.labels) * (encoder.width + 1)
            seconds = step.seconds(run, learned=len(train), tested=len(test), tuned_on=some, head=head)
            yield Expected(run, seconds, step.tuning(some), step)


def _times(labels: str) -> int:
    """Returns how many times the labels that occur a public label space has."""
    return int(labels.removeprefix("public-").removesuffix("x")) if labels.startswith("public-") else 1


def _best(call: Callable[[], Any]) -> float:
    call()
    taken = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return min(taken)
