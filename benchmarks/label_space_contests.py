"""Many labels against 100: both learn the same tasks, in turn; the names are the only difference.

Public labels, public labels that are added to released ones, and labels that were all released by their counts.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from contests import Contest, Costs, Family, processor_time

FEW, MANY, ADDED, RELEASED = 100, 10_000_000, 100_000, 100_000
TASKS, EACH, WIDTH = 10, 100, 384
EACH_BEFORE = 12  # examples of a label in the task that releases it
PARTS = {
    "task": ("Time of a task", "s"),
    "size": ("Model on disk, without the names of labels", "MiB"),
    "a-task": ("One of these tasks on disk", "MiB"),
    "predict": ("Predict 5,000 rows", "s"),
    "first": ("First prediction", "s"),
}
Known = Literal["public", "added", "released"]


@dataclass(frozen=True)
class Spaces:
    """How many labels one of the two models knows before the tasks, how it came to know them, and its epsilon."""

    many: int
    known: Known
    epsilon: float = 1.0


def families() -> list[Family]:
    """Returns the families."""
    return [
        Family(
            name="label-spaces",
            title="Huge label spaces",
            words=f"""
{TASKS} tasks of ten classes with {EACH} examples each, {WIDTH} features, learned by two models in turn: one is told
{FEW} public labels, the other {MANY:,} of which the same {FEW} have examples. Naming, checking and writing the labels
is done once, before. The comparison is not even, on purpose: the small space publishes 100 blocks a task, the large
one 300 that noise alone made stand out and up to 1,000 that may be thin classes, so that classes of few examples in
each task are found among empty labels. Some hundreds of these may win, so that a prediction compares with eight times
as many labels. The law is that of noise on all {MANY:,} labels.
""",
            contests=partial(_contests, "label-spaces", Spaces(MANY, "public")),
        ),
        Family(
            name="added-labels",
            title="Public labels added to released ones",
            words=f"""
The same tasks, with `ReleasedLabels()`: {FEW} labels are added by `extend_labels`, or {ADDED:,}. Names as above.
""",
            contests=partial(_contests, "added-labels", Spaces(ADDED, "added")),
        ),
        Family(
            name="released-labels",
            title="Labels that were all released",
            words=f"""
The same tasks at epsilon 8, after a first task with {EACH_BEFORE} examples of each label, whose counts released all of
its {FEW} labels, or {RELEASED:,}. Times and sizes are those of the {TASKS} tasks after it, but for the model on disk.
""",
            contests=partial(_contests, "released-labels", Spaces(RELEASED, "released", epsilon=8.0)),
        ),
    ]


def _contests(family: str, spaces: Spaces) -> list[Contest]:
    return [
        Contest(
            name=f"{family}/{part}",
            title=title,
            play=lambda rounds, part=part: _played(spaces)[part],  # type: ignore[misc]
            unit=unit,
        )
        for part, (title, unit) in PARTS.items()
    ]


@cache
def _played(spaces: Spaces) -> dict[str, Costs]:
    """Learns both streams once and returns the costs by part."""
    import reticent as rt

    draw = np.random.default_rng(0)
    centres = draw.normal(size=(FEW, WIDTH))

    def examples(classes: list[int], each: int) -> tuple[npt.NDArray[np.float64], list[str]]:
        x = np.repeat(centres[classes], each, axis=0)
        return x + draw.normal(size=x.shape), [f"label {c}" for c in classes for _ in range(each)]

    with tempfile.TemporaryDirectory() as root:
        models, folders = {}, {}
        costs: dict[str, dict[str, list[float]]] = {part: {} for part in PARTS}
        for n in (spaces.many, FEW):
            name = f"{n:,} labels"
            folders[name] = Path(root, str(n))
            known, budget = [f"label {i}" for i in range(n)], rt.Budget(epsilon=spaces.epsilon, delta=1e-5)
            policy = rt.PublicLabels(known) if spaces.known == "public" else rt.ReleasedLabels()
            models[name] = rt.ContinualClassifier(labels=policy, budget=budget, path=folders[name])
            if spaces.known == "added":
                models[name].extend_labels(known)
            elif spaces.known == "released":
                models[name].learn_task(*_all_of_them(centres, n), name="all", each_row_is_a_person=True)
                found = len(models[name].releases[-1].labels)
                assert found > 0.99 * n, f"{found} of {n} labels were released"
            models[name].privacy_statement()  # makes the folder and writes the names
        before = {name: _size(folder) for name, folder in folders.items()}
        for task in range(TASKS):
            x, y = examples(list(range(task, FEW, TASKS)), EACH)
            for name, model in models.items():
                learn = partial(model.learn_task, x, y, name=f"task {task}")
                costs["task"].setdefault(name, []).append(_seconds(learn))
        fresh, truth = examples(list(range(FEW)), 50)
        for name, model in models.items():
            costs["first"][name] = [_seconds(partial(model.predict, fresh[:1]))]
            costs["size"][name] = [_size(folders[name])]
            costs["a-task"][name] = [(_size(folders[name]) - before[name]) / TASKS]
        for _ in range(11):
            for name, model in models.items():
                costs["predict"].setdefault(name, []).append(_seconds(partial(model.predict, fresh)))
        right = [model.score(fresh, truth) for model in models.values()]
        assert abs(right[0] - right[1]) < 0.1, f"the two models are not of one accuracy: {right}"
    return {part: costs[part] for part in PARTS}


def _all_of_them(centres: npt.NDArray[np.float64], n: int) -> tuple[npt.NDArray[np.float32], list[str]]:
    """Returns a few examples of each of n labels; the first have the given centres."""
    draw = np.random.default_rng(1)
    all_centres = draw.standard_normal((n, WIDTH), dtype=np.float32)
    all_centres[: len(centres)] = centres
    x = np.repeat(all_centres, EACH_BEFORE, axis=0)
    for start in range(0, len(x), 100_000):
        part = x[start : start + 100_000]
        part += draw.standard_normal(part.shape, dtype=np.float32)
    return x, [f"label {i}" for i in range(n) for _ in range(EACH_BEFORE)]


def _seconds(run: Callable[[], object]) -> float:
    start = processor_time()
    run()
    return processor_time() - start


def _size(folder: Path) -> float:
    """Returns the MiB of a model without its names."""
    from reticent.released import store

    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and f.name != store.LABELS) / 2**20
