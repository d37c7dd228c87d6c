"""10,000,000 public labels against 100: time of a task, model size, time to predict, as ratios measured in one run.

Both learn the same tasks, in turn; the names are the only difference. Run `python benchmarks/label_spaces.py`, and with
`--equal` for tasks that hold all classes instead of ten each, with `--released` for labels that are added to released
ones.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import reticent as rt
from reticent.released import store

FEW, MANY = 100, 10_000_000
TASKS, EACH, WIDTH, GOAL = 10, 100, 384, 1.3
DRAW = np.random.default_rng(0)
CENTRES = DRAW.normal(size=(FEW, WIDTH))


def examples(classes: list[int], each: int) -> tuple[np.ndarray, list[str]]:
    """Returns examples around the centres of classes, and their labels."""
    x = np.repeat(CENTRES[classes], each, axis=0)
    return x + DRAW.normal(size=x.shape), [f"label {c}" for c in classes for _ in range(each)]


def seconds(run: Callable[[], object]) -> float:
    """Returns the time of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def size(folder: Path) -> int:
    """Returns the bytes of a model without its names."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and f.name != store.LABELS)


def rate(times: dict[int, list[float]]) -> tuple[float, float, float]:
    """Returns the median for few labels, for many, and of the rounds' ratios."""
    ratios = [many / few for few, many in zip(times[FEW], times[MANY], strict=True)]
    return statistics.median(times[FEW]), statistics.median(times[MANY]), statistics.median(ratios)


def named(n: int, path: Path, released: bool) -> rt.ContinualClassifier:
    """Returns a model that knows so many labels, in a folder that is there."""
    labels, budget = [f"label {i}" for i in range(n)], rt.Budget(epsilon=1.0, delta=1e-5)
    policy = rt.ReleasedLabels() if released else rt.PublicLabels(labels)
    model = rt.ContinualClassifier(labels=policy, budget=budget, path=path)
    if released:
        model.extend_labels(labels)
    model.privacy_statement()  # makes the folder and writes the names
    return model


def main(root: Path, disjoint: bool, released: bool) -> None:
    """Plays one stream against the other and prints a table."""
    models, folders = {}, {}
    for n in (FEW, MANY):
        folders[n] = root / str(n)
        start = time.perf_counter()
        models[n] = named(n, folders[n], released)
        print(f"{n:,} labels: {time.perf_counter() - start:.1f} s to name them, check them and write them, once")
    learn: dict[int, list[float]] = {FEW: [], MANY: []}
    predict: dict[int, list[float]] = {FEW: [], MANY: []}
    for task in range(TASKS):
        x, y = examples(list(range(task, FEW, TASKS)) if disjoint else list(range(FEW)), EACH)
        for n, model in models.items():
            learn[n].append(seconds(partial(model.learn_task, x, y, name=f"task {task}")))
    fresh, truth = examples(list(range(FEW)), 50)
    first = {n: [seconds(partial(model.predict, fresh[:1]))] for n, model in models.items()}
    for _ in range(11):
        for n, model in models.items():
            predict[n].append(seconds(partial(model.predict, fresh)))
    sizes = {n: [float(size(folder))] for n, folder in folders.items()}
    table = Table(
        title=f"{MANY:,} labels against {FEW}: {TASKS} {'disjoint' if disjoint else 'equal'} tasks, K = {WIDTH}"
    )
    for heading in ("", f"{FEW}", f"{MANY:,}", "ratio", f"goal {GOAL}"):
        table.add_column(heading)
    for name, times, unit in (
        ("task, ms", learn, 1e3),
        ("model, MB without names", sizes, 1e-6),
        ("predict 5,000, ms", predict, 1e3),
        ("first prediction, ms", first, 1e3),
    ):
        few, many, ratio = rate(times)
        table.add_row(
            name, f"{few * unit:.1f}", f"{many * unit:.1f}", f"{ratio:.2f}", "met" if ratio <= GOAL else "MISSED"
        )
    accuracy = [f"{100 * model.score(fresh, truth):.1f}" for model in models.values()]
    table.add_row("accuracy, %", *accuracy, "", "")
    Console(width=120).print(table)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder), disjoint="--equal" not in sys.argv, released="--released" in sys.argv)
