"""Many labels against 100: both learn the same tasks, in turn; the names are the only difference.

Public labels, and public labels that are added to released ones.
"""

import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from contests import Contest, Costs, Family, processor_time

FEW, MANY, ADDED = 100, 10_000_000, 100_000
TASKS, EACH, WIDTH = 10, 100, 384
PARTS = {
    "task": ("Time of a task", "s"),
    "size": ("Model on disk, without the names of labels", "MiB"),
    "predict": ("Predict 5,000 rows", "s"),
    "first": ("First prediction", "s"),
}


def families() -> list[Family]:
    """Returns the two families."""
    return [
        Family(
            name="label-spaces",
            title="Huge label spaces",
            words=f"""
{TASKS} tasks of ten classes with {EACH} examples each, {WIDTH} features, learned by two models in turn: one is told
{FEW} public labels, the other {MANY:,} of which the same {FEW} have examples. Naming, checking and writing the labels
is done once, before. The comparison is not even, on purpose: the small space publishes 100 blocks a task, the large
one 300 that noise alone made stand out and up to 1,000 that may be thin classes. They find classes of few examples in
each task among empty labels: CIFAR-100 among 100,000 labels, all classes in every task, has 52.6 % with them and the
estimator that came with them, 39.5 % before. The law is that of noise on all {MANY:,} labels.
""",
            contests=partial(_contests, "label-spaces", MANY, released=False),
        ),
        Family(
            name="added-labels",
            title="Public labels added to released ones",
            words=f"""
The same tasks, with `ReleasedLabels()`: {FEW} labels are added by `extend_labels`, or {ADDED:,}. Names as above.
""",
            contests=partial(_contests, "added-labels", ADDED, released=True),
        ),
    ]


def _contests(family: str, many: int, *, released: bool) -> list[Contest]:
    return [
        Contest(
            name=f"{family}/{part}",
            title=title,
            play=lambda rounds, part=part: _played(many, released)[part],  # type: ignore[misc]
            unit=unit,
        )
        for part, (title, unit) in PARTS.items()
    ]


@cache
def _played(many: int, released: bool) -> dict[str, Costs]:
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
        for n in (many, FEW):
            name = f"{n:,} labels"
            folders[name] = Path(root, str(n))
            known, budget = [f"label {i}" for i in range(n)], rt.Budget(epsilon=1.0, delta=1e-5)
            policy = rt.ReleasedLabels() if released else rt.PublicLabels(known)
            models[name] = rt.ContinualClassifier(labels=policy, budget=budget, path=folders[name])
            if released:
                models[name].extend_labels(known)
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
