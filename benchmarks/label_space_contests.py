"""10,000,000 public labels against 100: both learn the same tasks, in turn; the names are the only difference."""

import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from contests import Contest, Costs, Family, processor_time

FEW, MANY = 100, 10_000_000
TASKS, EACH, WIDTH, GOAL = 10, 100, 384, 1 / 1.3
PARTS = {
    "task": ("Time of a task", "s"),
    "size": ("Model on disk, without the names of labels", "MiB"),
    "predict": ("Predict 5,000 rows", "s"),
    "first": ("First prediction", "s"),
}


def families() -> list[Family]:
    """Returns the one family."""
    return [
        Family(
            name="label-spaces",
            title="Huge label spaces",
            words=f"""
{TASKS} tasks of ten classes with {EACH} examples each, {WIDTH} features, learned by two models in turn: one is told
{FEW} public labels, the other {MANY:,} of which the same {FEW} have examples. Naming, checking and writing the labels
is done once, before. The goal is that {MANY:,} labels cost at most 1.3 times as much, so a ratio of at least
{GOAL:.2f}.
""",
            contests=_contests,
        )
    ]


def _contests() -> list[Contest]:
    return [
        Contest(
            name=f"label-spaces/{part}",
            title=title,
            play=lambda rounds, part=part: _played()[part],  # type: ignore[misc]
            goals={f"{FEW} labels": GOAL},
            unit=unit,
        )
        for part, (title, unit) in PARTS.items()
    ]


@cache
def _played() -> dict[str, Costs]:
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
        for n in (MANY, FEW):
            name = f"{n:,} labels"
            folders[name] = Path(root, str(n))
            labels = rt.PublicLabels(f"label {i}" for i in range(n))
            budget = rt.Budget(epsilon=1.0, delta=1e-5)
            models[name] = rt.ContinualClassifier(labels=labels, budget=budget, path=folders[name])
            models[name].privacy_statement()  # makes the folder and writes the names
        for task in range(TASKS):
            x, y = examples(list(range(task, FEW, TASKS)), EACH)
            for name, model in models.items():
                learn = partial(model.learn_task, x, y, name=f"task {task}")
                costs["task"].setdefault(name, []).append(_seconds(learn))
        fresh, truth = examples(list(range(FEW)), 50)
        for name, model in models.items():
            costs["first"][name] = [_seconds(partial(model.predict, fresh[:1]))]
            costs["size"][name] = [_size(folders[name])]
        for _ in range(11):
            for name, model in models.items():
                costs["predict"].setdefault(name, []).append(_seconds(partial(model.predict, fresh)))
        right = [model.score(fresh, truth) for model in models.values()]
        assert abs(right[0] - right[1]) < 0.1, "the two models are not of one accuracy"
    return {part: costs[part] for part in PARTS}


def _seconds(run: Callable[[], object]) -> float:
    start = processor_time()
    run()
    return processor_time() - start


def _size(folder: Path) -> float:
    """Returns the MiB of a model without its names."""
    from reticent.released import store

    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and f.name != store.LABELS) / 2**20
