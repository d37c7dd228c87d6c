"""Rows and columns of an experiment's tables, and where the paper's printed numbers stand in them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reticent.lab.bench import catalogue
from reticent.lab.bench.paper_numbers import PaperValue, paper_values
from reticent.lab.bench.run import LABELS, NONE, Result, Run
from reticent.lab.bench.specs import Spec
from reticent.released.aggregate import AGGREGATES

LABEL_NAMES = {
    "oracle": "Label Oracle (reads the data)",
    "base": "Base Dataset",
    "public-10x": "Public Labels 10x",
    "public-100x": "Public Labels 100x",
    "public-1000x": "Public Labels 1000x",
    "released": "Release Labels",
    "remap-parent": "to the parent",
    "remap-unknown": "to unknown",
    "remap-drop": "dropped",
}

NAMES = {True: "with names", False: "without names"}
MEMORIES = {"none": "no memory", "vault": "memory", "recurring": "memory, recurring"}

_TASKS_SHOWN = 12  # columns of a table

Key = tuple[Any, ...]


def row(spec: Spec, run: Run) -> Key:
    """Returns what is the same along a row: epsilon, family and labels, without the one that goes across."""
    shown = {
        "epsilon": run.epsilon if spec.columns != "epsilon" else None,
        "family": _family(run),
        "labels": run.labels if spec.columns != "labels" else None,
    }
    return tuple(shown.values())


def beside(spec: Spec) -> Callable[[Run], tuple[str, ...]]:
    """Returns what else tells apart runs of one classifier: runs of one entry differ in seed and share alone."""
    seen: dict[tuple[str, ...], set[object]] = {}
    for run in spec.runs:
        for name in ("adapter", "ratio", "tasks", "names", "memory", "persons"):
            seen.setdefault((run.data, _family(run), name), set()).add(getattr(run, name))

    def said(run: Run) -> tuple[str, ...]:
        texts = {
            "adapter": run.adapter,
            "ratio": f"ratio {run.ratio:g}",
            "tasks": f"{run.tasks} tasks",
            "names": NAMES[run.names],
            "memory": MEMORIES[run.memory],
            "persons": f"persons in {run.persons} tasks",
        }
        several = (name for name in texts if len(seen[run.data, _family(run), name]) > 1)
        ours = catalogue.entry(run.learner).origin != catalogue.PAPER
        split = ("the paper's split",) if ours and run.share is not None else ()
        return (*(texts[name] for name in several if name != spec.columns), *split)

    return said


def named(result: Result) -> Result:
    """Returns a result whose run has the words of tables: those of its learner, labels, names and memory.

    >>> named({"run": {"data": "d", "learner": "cosine", "labels": "released", "names": True}})["run"]["learner"]
    'Cosine Classifier, ours here'
    """
    run = dict(result["run"])
    learner: str = run["learner"]
    words: dict[str, Mapping[Any, str]] = {"labels": LABEL_NAMES, "names": NAMES, "memory": MEMORIES}
    said = {field: by_value.get(run[field], run[field]) for field, by_value in words.items() if field in run}
    if catalogue.is_known(learner):
        entry = catalogue.entry(learner)
        said["learner"] = ", ".join([entry.title, entry.origin])
        said |= {"adapter": None} if entry.family == "cosine" else {}  # it trains none
    return {**result, "run": {**run, **said}}


def _family(run: Run) -> str:
    return catalogue.entry(run.learner).family


def row_names(spec: Spec) -> tuple[str, ...]:
    """Returns the headings of the columns that name a row."""
    several = len({run.labels for run in spec.runs}) > 1
    return tuple(
        name
        for name, wanted in (
            ("epsilon", spec.columns != "epsilon"),
            ("classifier", True),
            ("labels", spec.columns != "labels" and several),
        )
        if wanted
    )


def heading(spec: Spec, row: Key) -> tuple[str, ...]:
    """Returns what names a row, one entry for each of `row_names`."""
    epsilon, family, labels = row
    parts: dict[str, str] = {
        "epsilon": NONE if epsilon is None else f"{epsilon:g}",
        "classifier": catalogue.title(family),
        "labels": LABEL_NAMES.get(labels, ""),
    }
    return tuple(parts[name] for name in row_names(spec))


def columns_of(spec: Spec, run: Run) -> list[object]:
    """Returns the columns that a run has an entry in."""
    if spec.columns == "task":
        step = -(-run.tasks // _TASKS_SHOWN)
        return [1, *range(step, run.tasks + 1, step)] if step > 1 else list(range(1, run.tasks + 1))
    if spec.columns == "aggregation":
        return list(AGGREGATES)
    return [getattr(run, spec.columns)]


def columns(spec: Spec) -> list[object]:
    """Returns all columns, in the order of the table."""
    found = dict.fromkeys(column for run in spec.runs for column in columns_of(spec, run))
    if spec.columns == "labels":
        return sorted(found, key=lambda column: LABELS.index(str(column)))
    if spec.columns == "epsilon":
        return sorted(found, key=lambda column: math.inf if column is None else float(str(column)))
    return list(found)


def column_name(spec: Spec, column: object) -> str:
    """Returns the heading of a column."""
    if spec.columns == "labels":
        return LABEL_NAMES[str(column)]
    if spec.columns == "epsilon":
        return "no privacy" if column is None else f"epsilon {column:g}"
    if spec.columns == "persons":
        return "in one task" if column == 1 else f"in {column} tasks"
    return f"{spec.columns} {column:g}" if isinstance(column, float | int) else str(column)


def printed(spec: Spec, metric: str, row: Key, columns: Sequence[object]) -> dict[str, dict[object, str]]:
    """Returns what the paper prints for a row: source -> column -> text."""
    found: dict[str, dict[object, str]] = {}
    for value in (v for table in spec.paper for v in paper_values(table)):
        if value.metric == metric and _matches(spec, value, row):
            column = None if spec.columns in ("task", "aggregation") else getattr(value, spec.columns)
            adapter = f", {value.adapter}" if value.adapter is not None and row[1] != "cosine" else ""
            if column in columns:
                found.setdefault(f"paper, {value.data}{adapter}", {})[column] = _as_printed(spec, value, row)
    return found


def _matches(spec: Spec, value: PaperValue, row: Key) -> bool:
    epsilon, family, labels = row
    return (
        (value.learner in (None, family))
        and (spec.columns == "epsilon" or value.epsilon == epsilon or not _has_epsilon(spec, value))
        and (spec.columns == "labels" or value.labels in (None, labels))
    )


def _has_epsilon(spec: Spec, value: PaperValue) -> bool:
    """The paper's sweep of shares is at epsilon 1 for one data set and at 8 for the other; both are shown."""
    return not (spec.columns == "share" and value.share is not None)


def _as_printed(spec: Spec, value: PaperValue, row: Key) -> str:
    elsewhere = spec.columns != "epsilon" and value.epsilon is not None and value.epsilon != row[0]
    at = f" at epsilon {value.epsilon:g}" if elsewhere else ""
    middle, low, high, std = (_typed(n, value.metric) for n in (value.middle, value.low, value.high, value.std))
    if value.low is not None and value.high is not None:
        return f"{middle} ({low}, {high}){at}"
    return middle + (f" ± {std}" if value.std is not None else "") + at


def _typed(number: float | None, metric: str) -> str:
    """A number with the digits that the paper gives it, one at least."""
    text = "" if number is None else f"{number:g}"
    return text if "." in text or metric == "known" else f"{text}.0"
