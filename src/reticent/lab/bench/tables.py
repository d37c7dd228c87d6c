"""Tables of an experiment: the paper's number, the paper's method here, ours here; and how long a run takes.

A cell that was not run says so, with an estimate; it is never filled in another way.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.lab.attack.label_attack import ALPHA
from reticent.lab.bench.estimates import WITHOUT_DATA, Estimates, duration
from reticent.lab.bench.experiments import LABELS, NONE, Cell, Spec
from reticent.lab.bench.paper_numbers import PaperValue, paper_values
from reticent.lab.bench.typeset import Table

FAMILIES = {
    "cosine": "Cosine Classifier",
    "peft": "PEFT Ensemble",
    "naive": "Naive",
    "desai": "Desai et al.",
    "noncl": "Non-CL, all data at once",
}
LABEL_NAMES = {
    "oracle": "Label Oracle (reads the data)",
    "base": "Base Dataset",
    "public-10x": "Public Labels 10x",
    "public-1000x": "Public Labels 1000x",
    "released": "Release Labels",
    "remap-parent": "to the parent",
    "remap-unknown": "to unknown",
    "remap-drop": "dropped",
}
METRICS = {
    "accuracy": "average accuracy after the last task, %",
    "forgetting": "forgetting, %",
    "known": "number of labels released",
    "public": "accuracy on labels that are public, %",
    "parent": "share of answers whose parent is right, %",
    "seconds": "seconds to learn all tasks, by the clock",
}
COUNTS = ("known", "seconds")  # everything else is in percent
STATISTICS = {
    "median": "median (second worst, second best seed; of three or fewer the worst and the best)",
    "minmax": "median (minimum, maximum)",
    "mean": "mean ± standard deviation",
}

Run = Mapping[str, Any]
Key = tuple[Any, ...]
Line = tuple[str, str, tuple[str, ...]]


# --- tables


def tables(spec: Spec, runs: Mapping[str, Run], *, extra: Callable[[str], Any] = lambda name: None) -> list[Table]:
    """Returns the tables of a spec, one per metric, from whatever has been run.

    Args:
        spec: What to show.
        runs: Results by the digests of their cells.
        extra: Returns what another file of the results folder holds, by its name, or None.
    """
    if spec.kind == "attack":
        return [_attack(spec, extra("attack.json"))]
    if spec.kind == "drop":
        return [_drop(spec, extra("drop.json"))]
    made = [_grid(spec, metric, runs) for metric in spec.metrics]
    return [*made, *_panel(spec, extra("streams.json"))] if spec.columns == "ratio" else made


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone, or in a share of which the best is shown.

    Args:
        spec: What they belong to.
        metric: What is shown.
        cells: What should be there.
        runs: Results by digest.
    """

    spec: Spec
    metric: str
    cells: tuple[Cell, ...]
    runs: Mapping[str, Run]

    def values(self, column: object) -> list[float]:
        """Returns what was measured for one column: of the best share, where several were tried."""
        by_share: dict[float | None, list[tuple[float, float]]] = {}
        for cell in self.cells:
            result = self.runs.get(cell.digest)
            if result is None or result["status"] != "done":
                continue
            value = _value(result, self.spec, self.metric, column)
            if value is not None:
                by_share.setdefault(cell.share, []).append((result["accuracy"], value))
        best = max(by_share.values(), key=lambda pairs: statistics.median(pair[0] for pair in pairs), default=[])
        return [value for _, value in best]

    def text(self, column: object, estimates: Estimates) -> str:
        """Returns the entry of one column."""
        values = self.values(column)
        seeds = len({cell.seed for cell in self.cells})
        results = [self.runs.get(cell.digest) for cell in self.cells]
        bad = sum(result is not None and result["status"] == "failed" for result in results)
        if values:
            short = "" if len(values) >= seeds else f" [{len(values)} of {seeds} seeds]"
            return spread(values, self.spec.statistic, self.metric) + short + (f" [{bad} failed]" if bad else "")
        if bad:
            return "*failed*"
        if any(results):
            return "-"
        return f"*not run here* (about {duration(estimates.seconds(self.cells))})"


def groups(spec: Spec, metric: str, runs: Mapping[str, Run]) -> dict[Key, dict[Line, dict[object, Group]]]:
    """Returns row -> (data, learner, what else differs) -> column -> group."""
    found: dict[Key, dict[Line, dict[object, list[Cell]]]] = {}
    beside = _beside(spec)
    for cell in spec.cells:
        line = found.setdefault(_row(spec, cell), {}).setdefault((cell.data, cell.learner, beside(cell)), {})
        for column in _columns_of(spec, cell):
            line.setdefault(column, []).append(cell)
    return {
        row: {
            line: {column: Group(spec, metric, tuple(cells), runs) for column, cells in by_column.items()}
            for line, by_column in lines.items()
        }
        for row, lines in found.items()
    }


def _grid(spec: Spec, metric: str, runs: Mapping[str, Run]) -> Table:
    made, estimates = groups(spec, metric, runs), Estimates(runs)
    columns = _columns(spec)
    rows: list[tuple[str, ...]] = []
    for row, lines in made.items():
        heading = _heading(spec, row)
        for source, values in _printed(spec, metric, row, columns).items():
            rows.append((*heading, source, *(values.get(column, "") for column in columns)))
        for (data, learner, beside), by_column in lines.items():
            entries = (by_column[c].text(c, estimates) if c in by_column else "" for c in columns)
            rows.append((*heading, ", ".join([_mode(learner), data, *beside]), *entries))
    shown = METRICS[metric].replace("the last", "each") if spec.columns == "task" else METRICS[metric]
    return Table(
        title=spec.title if len(spec.metrics) == 1 else f"{spec.title}: {shown}",
        caption=f"{shown.capitalize()}; {STATISTICS[spec.statistic]}; delta 1e-5.",
        columns=(*_row_names(spec), "source", *(_column_name(spec, column) for column in columns)),
        rows=tuple(rows),
        notes=tuple(_notes(spec, metric, made)),
    )


def _value(result: Run, spec: Spec, metric: str, column: object) -> float | None:
    if spec.columns == "task":
        value = result["curve"][int(str(column)) - 1]
    elif spec.columns == "rule":
        value = result["rules"].get(str(column))
    elif metric == "seconds":
        value = result["seconds"]["learn"]
    else:
        value = result.get(metric)
    return None if value is None else float(value) * (1 if metric in COUNTS else 100)


def spread(values: Sequence[float], statistic: str, metric: str = "accuracy") -> str:
    """Returns numbers over seeds as the paper prints them.

    >>> spread([1.0, 2.0, 3.0, 4.0, 5.0], "median"), spread([1.0, 2.0, 3.0], "minmax"), spread([1.0, 3.0], "mean")
    ('3.0 (2.0, 4.0)', '2.0 (1.0, 3.0)', '2.0 ± 1.4')
    """
    digits = 0 if metric in COUNTS else 1
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    if statistic == "mean":
        return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"
    inner = sorted(values)[1:-1] if statistic == "median" and len(values) > 3 else values
    return f"{statistics.median(values):.{digits}f} ({min(inner):.{digits}f}, {max(inner):.{digits}f})"


# --- rows and columns


def _row(spec: Spec, cell: Cell) -> Key:
    """What is the same along a row: everything that varies and is no column."""
    shown = {
        "epsilon": cell.epsilon if spec.columns != "epsilon" else None,
        "family": cell.family,
        "labels": cell.labels if spec.columns != "labels" else None,
    }
    return tuple(shown.values())


def _beside(spec: Spec) -> Callable[[Cell], tuple[str, ...]]:
    """Returns what else tells apart cells of one classifier: runs of one entry differ in seed and share alone."""
    seen: dict[tuple[str, ...], set[object]] = {}
    for cell in spec.cells:
        for name in ("adapter", "ratio", "tasks"):
            seen.setdefault((cell.data, cell.family, name), set()).add(getattr(cell, name))

    def said(cell: Cell) -> tuple[str, ...]:
        texts = {"adapter": cell.adapter, "ratio": f"ratio {cell.ratio:g}", "tasks": f"{cell.tasks} tasks"}
        several = (name for name in texts if len(seen[cell.data, cell.family, name]) > 1)
        split = ("the paper's split",) if cell.share is not None and not cell.learner.endswith("-paper") else ()
        return (*(texts[name] for name in several if name != spec.columns), *split)

    return said


def _row_names(spec: Spec) -> tuple[str, ...]:
    several = len({cell.labels for cell in spec.cells}) > 1
    return tuple(
        name
        for name, wanted in (
            ("epsilon", spec.columns != "epsilon"),
            ("classifier", True),
            ("labels", spec.columns != "labels" and several),
        )
        if wanted
    )


def _heading(spec: Spec, row: Key) -> tuple[str, ...]:
    epsilon, family, labels = row
    parts: dict[str, str] = {
        "epsilon": NONE if epsilon is None else f"{epsilon:g}",
        "classifier": str(FAMILIES.get(family, family)),
        "labels": LABEL_NAMES.get(labels, ""),
    }
    return tuple(parts[name] for name in _row_names(spec))


def _columns_of(spec: Spec, cell: Cell) -> list[object]:
    if spec.columns == "task":
        return list(range(1, cell.tasks + 1))
    if spec.columns == "rule":
        return ["argmax", "median", "entropy"]
    return [getattr(cell, spec.columns)]


def _columns(spec: Spec) -> list[object]:
    columns = dict.fromkeys(column for cell in spec.cells for column in _columns_of(spec, cell))
    if spec.columns == "labels":
        return sorted(columns, key=lambda column: LABELS.index(str(column)))
    if spec.columns == "epsilon":
        return sorted(columns, key=lambda column: math.inf if column is None else float(str(column)))
    return list(columns)


def _column_name(spec: Spec, column: object) -> str:
    if spec.columns == "labels":
        return LABEL_NAMES[str(column)]
    if spec.columns == "epsilon":
        return "no privacy" if column is None else f"epsilon {column:g}"
    return f"{spec.columns} {column:g}" if isinstance(column, float | int) else str(column)


def _mode(learner: str) -> str:
    if ":" in learner:
        return "yours"
    if learner.endswith("-paper"):
        return "the paper's method here"
    return "ours here" if learner in ("cosine", "peft") else "baseline here"


def _printed(spec: Spec, metric: str, row: Key, columns: Sequence[object]) -> dict[str, dict[object, str]]:
    """Returns what the paper prints for a row: source -> column -> text."""
    found: dict[str, dict[object, str]] = {}
    for value in (v for table in spec.paper for v in paper_values(table)):
        if value.metric == metric and _matches(spec, value, row):
            column = None if spec.columns in ("task", "rule") else getattr(value, spec.columns)
            adapter = f", {value.adapter}" if value.adapter is not None and row[1] != "cosine" else ""
            if column in columns:
                found.setdefault(f"paper, {value.data}{adapter}", {})[column] = _as_printed(value)
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


def _as_printed(value: PaperValue) -> str:
    at = f" at epsilon {value.epsilon:g}" if value.share is not None and value.epsilon not in (None, 1) else ""
    middle, low, high, std = (_typed(n, value.metric) for n in (value.middle, value.low, value.high, value.std))
    if value.low is not None and value.high is not None:
        return f"{middle} ({low}, {high}){at}"
    return middle + (f" ± {std}" if value.std is not None else "") + at


def _typed(number: float | None, metric: str) -> str:
    """A number with the digits that the paper gives it, one at least."""
    text = "" if number is None else f"{number:g}"
    return text if "." in text or metric == "known" else f"{text}.0"


# --- notes


def _notes(spec: Spec, metric: str, made: Mapping[Key, Any]) -> list[str]:
    notes = []
    if spec.columns in ("task", "rule"):
        notes.append("The paper shows this in a figure, without numbers.")
    runs = {cell.digest: group.runs.get(cell.digest, {}) for group in _all(made) for cell in group.cells}
    origins = Counter(run["origin"] for run in runs.values() if "origin" in run)
    notes += [f"{count} run(s): {origin}" for origin, count in origins.items()]
    if spec.columns != "share" and any(len({c.share for c in g.cells}) > 1 for g in _all(made)):
        notes.append("In the paper's split, the best of the shares tried is shown, as the paper chose it.")
    if metric in ("accuracy", "forgetting") and spec.columns != "share":
        notes += behind(spec, metric, made)
    return notes


def behind(spec: Spec, metric: str, made: Mapping[Key, Any]) -> list[str]:
    """Returns one line for each place where our default did worse than the paper's method, by the middle value."""
    middle: Callable[[Sequence[float]], float] = statistics.mean if spec.statistic == "mean" else statistics.median
    sign = -1 if metric == "forgetting" else 1
    lines = []
    for row, by_line in made.items():
        for (data, learner, beside), columns in by_line.items():
            theirs = by_line.get((data, f"{learner}-paper", beside))
            if theirs is None:
                continue
            for column, group in columns.items():
                ours, paper = group.values(column), theirs[column].values(column) if column in theirs else []
                if ours and paper and sign * (middle(ours) - middle(paper)) < -0.05:
                    what = [metric] if metric != "accuracy" else []
                    heading = [f"epsilon {row[0]:g}", *_heading(spec, row)[1:]] if row[0] else _heading(spec, row)
                    where = ", ".join([*heading, _column_name(spec, column), data, *beside, *what])
                    lines.append(
                        f"Ours is behind: {where}: {middle(ours):.1f}, the paper's method {middle(paper):.1f}."
                    )
    return lines


def _all(made: Mapping[Key, Any]) -> Iterable[Group]:
    return (group for lines in made.values() for columns in lines.values() for group in columns.values())


# --- experiments without data


def _attack(spec: Spec, found: Mapping[str, Any] | None) -> Table:
    columns = ("published by", "the target is", "epsilon", "accuracy of the attacker", "limits", "bound", "")
    caption = "One person with a rare label is in the data or not; the attacker sees what is published."
    if found is None:
        return Table(spec.title, caption, columns, ((_later(spec), *[""] * 6),))
    games = sorted({point["trials"] for point in found["points"]})
    caption += f" {' or '.join(f'{n:,}' for n in games)} games; limits are exact, at confidence {1 - ALPHA:g}. "
    caption += "A leak is found where even the lower limit is above the bound of differential privacy."
    rows = tuple(
        (
            point["target"],
            point["game"],
            f"{point['epsilon']:g}",
            f"{point['accuracy']:.3f}",
            f"{point['interval'][0]:.3f} to {point['interval'][1]:.3f}",
            f"{point['bound']:.3f}",
            "leaks" if point["broken"] else "no leak found",
        )
        for point in found["points"]
    )
    return Table(spec.title, caption, columns, rows)


def _drop(spec: Spec, found: Mapping[str, Any] | None) -> Table:
    if found is None:
        return Table(spec.title, "", ("mechanism",), ((_later(spec),),))
    sizes = found["curves"][0]["sizes"]
    rows = tuple(
        (f"{curve['epsilon']:g}", curve["mechanism"], *(f"{p:.3f}" for p in curve["probability"]))
        for curve in found["curves"]
    )
    caption = f"Chance that a new label is dropped, by the size of its class; delta {found['delta']:g}, exact."
    return Table(spec.title, caption, ("epsilon", "mechanism", *map(str, sizes)), rows)


def _later(spec: Spec) -> str:
    return f"*not run here* (about {duration(WITHOUT_DATA[spec.kind])})"


def _panel(spec: Spec, found: Mapping[str, Any] | None) -> list[Table]:
    """How examples of a blurry class are spread: the panel beside the paper's figure."""
    mine = {cell.data for cell in spec.cells}
    rows = [
        (data, f"{ratio}", f"{by_task[0]:.1f}", f"{statistics.mean(by_task[1:]):.1f}")
        for data, by_ratio in (found or {}).items()
        for ratio, by_task in by_ratio.items()
        if data in mine and len(by_task) > 1
    ]
    title, caption = (
        "Examples of a blurry class and task",
        "Mean over the blurry classes, half of all, of the first seed.",
    )
    columns = ("data", "ratio", "in its home task", "in each other task")
    return [Table(title, caption, columns, tuple(rows))] if rows else []
