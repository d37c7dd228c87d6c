"""A thousand tasks in one folder: loading, predicting and learning one more, against a folder of ten tasks."""

import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import reticent as rt
from tests.assurance.part import Part

_LABELS, _WIDTH, _EXAMPLES = 20, 384, 100
_REPEATS = 10
# Generous, for machines that do other things too; what was measured is in the table.
_SECONDS_TO_LOAD, _MEGABYTES, _RATIO = 2.0, 400, 3.0


def measure(tasks: int = 1_000) -> Part:
    """Learns many tasks into one folder and few into another, and compares."""
    with tempfile.TemporaryDirectory() as folder:
        few, many = (_measured(Path(folder, str(count)), count) for count in (10, tasks))
    rows = (
        ("tasks in the folder", "10", f"{tasks:,}"),
        ("load and first prediction, s", f"{few[0]:.2f}", f"{many[0]:.2f}"),
        ("memory of both at most, MB", f"{few[1]:.0f}", f"{many[1]:.0f}"),
        ("learn one more task, CPU ms", f"{few[2]:.1f}", f"{many[2]:.1f}"),
    )
    return Part(
        title="A thousand tasks in one folder",
        says=(
            f"{_LABELS} labels, {_WIDTH} features, every label in every task. Loading reads and verifies every release "
            f"and every row of the ledger. Held: at most {_SECONDS_TO_LOAD:g} s and {_MEGABYTES} MB, and at most "
            f"{_RATIO:g} times the time of a small folder to learn one more task."
        ),
        header=("", "few", "many"),
        rows=rows,
        passed=many[0] <= _SECONDS_TO_LOAD and many[1] <= _MEGABYTES and many[2] <= _RATIO * few[2],
    )


def _measured(path: Path, tasks: int) -> tuple[float, float, float]:
    """Seconds to load and predict, megabytes, CPU milliseconds of one more task."""
    draw = np.random.default_rng(0)
    labels = [f"label {i}" for i in range(_LABELS)]
    model = rt.ContinualClassifier(labels=rt.PublicLabels(labels), budget=rt.Budget(epsilon=1.0, delta=1e-5), path=path)

    def learn(name: str) -> None:
        places = draw.integers(0, _LABELS, _EXAMPLES)
        model.learn_task(draw.normal(size=(_EXAMPLES, _WIDTH)), [labels[i] for i in places], name=name)

    for task in range(tasks):
        learn(f"task {task}")
    one_more = min(_timed(partial(learn, f"one more {i}"), time.process_time) for i in range(_REPEATS))
    inputs = draw.normal(size=(10, _WIDTH))
    seconds = _timed(lambda: rt.load(path).predict(inputs), time.perf_counter)
    tracemalloc.start()
    rt.load(path).predict(inputs)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, most / 2**20, one_more * 1e3


def _timed(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start
