"""Long streams: what the 1,000th task and the first prediction after it cost, beside a short stream."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from contests import Contest, Costs, Family, processor_time

TASKS, LABELS, EACH, WIDTH, SHORT = 1_000, 50, 20, 384, 10
LONG, FEW = f"{TASKS:,} tasks", f"{SHORT} tasks"


def families() -> list[Family]:
    """Returns the one family."""
    return [
        Family(
            name="streams",
            title="Long streams",
            words=f"""
{TASKS:,} tasks with all of {LABELS} public labels in each, {EACH} examples of each, {WIDTH} features, in a folder. The
last {SHORT} tasks are compared with the first {SHORT}, opening and first predicting after {TASKS:,} tasks with the same
after {SHORT}. A ratio of 1 means that a stream's length costs nothing.
""",
            contests=_contests,
        )
    ]


def _contests() -> list[Contest]:
    titles = {
        "learn": ("Time of a task", None),
        "load": ("Open a model from its folder", None),
        "first": ("First prediction of an opened model", 1.0),
    }
    return [
        Contest(
            name=f"streams/{part}",
            title=title,
            play=lambda rounds, part=part: _played()[part],  # type: ignore[misc]
            at_most=at_most,
        )
        for part, (title, at_most) in titles.items()
    ]


@cache
def _played() -> dict[str, Costs]:
    """Learns the stream once and returns the costs by part."""
    import reticent as rt

    draw = np.random.default_rng(0)
    centres = draw.normal(size=(LABELS, WIDTH))
    labels = [f"label {i}" for i in range(LABELS)]
    y = [label for label in labels for _ in range(EACH)]
    each: list[float] = []
    opened: dict[str, list[float]] = {LONG: [], FEW: []}
    first: dict[str, list[float]] = {LONG: [], FEW: []}
    with tempfile.TemporaryDirectory() as root:
        budget = rt.Budget(epsilon=8.0, delta=1e-5)
        model = rt.ContinualClassifier(labels=rt.PublicLabels(labels), budget=budget, path=Path(root, "model"))

        def look(name: str) -> None:
            for round_ in range(4):
                start = processor_time()
                found = rt.load(Path(root, "model"))
                there = processor_time()
                found.predict(centres[:1])
                if round_:
                    opened[name].append(there - start)
                    first[name].append(processor_time() - there)

        for task in range(TASKS):
            x = np.repeat(centres, EACH, axis=0) + draw.normal(size=(LABELS * EACH, WIDTH))
            start = processor_time()
            model.learn_task(x, y, name=f"task {task}")
            each.append(processor_time() - start)
            if task == SHORT:  # the very first compiles
                look(FEW)
        look(LONG)
    learn = {LONG: each[-SHORT:], FEW: each[1 : SHORT + 1]}
    return {"learn": learn, "load": opened, "first": first}
