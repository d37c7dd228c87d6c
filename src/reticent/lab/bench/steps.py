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
from reticent.lab.bench import catalogue
from reticent.lab.bench.run import FILM, Run
from reticent.lab.bench.workspace import Workspace, encoder_of
from reticent.lab.data.datasets import Data
from reticent.sensitive.gradients import AdapterGradients
from reticent.sensitive.training import Engine

_CLASSES = 10  # of the head; the encoder takes nearly all the time
_TIMES = 3


@dataclass(frozen=True)
class Step:
    """What one example costs in seconds.

    Args:
        forward: To encode it.
        gradient: To train through the encoder with it.

    Example:
        >>> run = Run(data="split-cifar100", learner="peft", adapter="film")
        >>> Step(forward=0.01, gradient=0.03).seconds(run, learned=1_000, tested=100)
        250.0
        >>> print(Step(forward=0.01, gradient=0.03))
        10.0 ms to encode an example, 30.0 ms to train with it
    """

    forward: float
    gradient: float

    def __str__(self) -> str:
        return f"{1_000 * self.forward:.1f} ms to encode an example, {1_000 * self.gradient:.1f} ms to train with it"

    def seconds(self, run: Run, *, learned: int, tested: int) -> float:
        """Returns how long a run takes that trains through the encoder.

        Args:
            run: The run; how often it sees an example is in the catalogue of learners.
            learned: Examples to learn from.
            tested: Examples to test on: each task's adapter encodes them.
        """
        passes = catalogue.entry(run.learner).film_passes
        return learned * passes * self.gradient + tested * run.tasks * self.forward


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
    return Step(forward / rows, gradient / rows)


def expected(runs: Sequence[Run], place: Workspace) -> Iterator[tuple[Run, float, Step]]:
    """Yields runs that train through an encoder, how long each is expected to take, and the step that says so.

    Args:
        runs: Runs that are to be made; those on data that is not there are left out.
        place: Where data lies, and on which device encoders compute.
    """
    steps: dict[str, Step] = {}
    for run in (run for run in runs if run.adapter == FILM):
        with contextlib.suppress(Exception):  # its worker says what is wrong
            data: Data = place.load(run)
            name = data.encoder or ""
            if name not in steps:
                steps[name] = measured(encoder_of(data, place.speed))
            learned, tested = (len(rows) for rows in data.rows(run.seed))
            yield run, steps[name].seconds(run, learned=learned, tested=tested), steps[name]


def _best(call: Callable[[], Any]) -> float:
    call()
    taken = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return min(taken)
