"""Tables of an experiment: the paper's number, the paper's method here, ours here; and how long a run takes.

An entry that was not run says so, with an estimate; it is never filled in another way.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reticent.lab.bench import catalogue, layout, spread, without_data
from reticent.lab.bench.estimates import Estimates, duration
from reticent.lab.bench.layout import Key
from reticent.lab.bench.run import Result, Results, Run
from reticent.lab.bench.specs import Spec
from reticent.lab.bench.typeset import Table
from reticent.report.seeds import IN_WORDS
from reticent.report.seeds import spread as in_one

METRICS = {
    "accuracy": "average accuracy after the last task, %",
    "forgetting": "forgetting, %",
    "known": "number of labels released",
    "public": "accuracy on labels that are public, %",
    "parent": "share of answers whose parent is right, %",
    "seconds": "wall-clock seconds to learn all tasks",
}
COUNTS = ("known", "seconds")  # everything else is in percent
_SHORT = 10  # seconds below it have a digit after the point

Line = tuple[str, str, tuple[str, ...]]


# --- tables


def tables(spec: Spec, results: Results, *, extra: Callable[[str], Any] = lambda name: None) -> list[Table]:
    """Returns the tables of a spec, one per metric, from whatever has been run.

    Args:
        spec: What to show.
        results: Results by the digests of their runs.
        extra: Returns what another file of the results folder holds, by its name, or None.
    """
    if spec.kind != "grid":
        return [without_data.table(spec, extra(f"{spec.kind}.json"))]
    made = [_grid(spec, metric, results) for metric in spec.metrics]
    return [*made, *spread.panel(extra(spread.FILE))] if spec.columns == "ratio" else made


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone, or in a share of which the best is shown.

    Args:
        spec: What they belong to.
        metric: What is shown.
        runs: What should be there.
        results: Results by digest.
    """

    spec: Spec
    metric: str
    runs: tuple[Run, ...]
    results: Results

    def by_seed(self, column: object) -> list[list[float]]:
        """Returns what each seed has for one column, by order of its tasks: of the best share of several."""
        by_share: dict[float | None, list[tuple[float, list[float]]]] = {}
        for run in self.runs:
            result = self._result(run)
            if result is None or result["status"] != "done":
                continue
            values = _values(result, self.spec, self.metric, column)
            if values:
                by_share.setdefault(run.share, []).append((result["accuracy"], values))
        best = max(by_share.values(), key=lambda pairs: statistics.median(pair[0] for pair in pairs), default=[])
        even = len({len(values) for _, values in best}) < 2  # rows of older files have the mean over orders alone
        return [values if even else [statistics.mean(values)] for _, values in best]

    @property
    def shows_every_order(self) -> bool:
        """Whether one training told how every order of the tasks would have gone."""
        return any("orders" in (self._result(run) or {}) for run in self.runs)

    def _result(self, run: Run) -> Result | None:
        return self.results.get(catalogue.stand_in(run).digest)

    @property
    def seeds(self) -> int:
        """How many seeds should be there."""
        return len({run.seed for run in self.runs})

    def text(self, column: object, estimates: Estimates, usual: int) -> str:
        """Returns the entry of one column, in a line whose entries are of this many seeds unless said."""
        by_seed = self.by_seed(column)
        values = [value for values in by_seed for value in values]
        results = [self._result(run) for run in self.runs]
        bad = sum(result is not None and result["status"] == "failed" for result in results)
        if values:
            short = f" [{_seeds(self.seeds)}]" if self.seeds != usual else ""
            short = f" [{len(by_seed)} of {self.seeds} seeds]" if len(by_seed) < self.seeds else short
            whole = self.metric in COUNTS and max(values) >= _SHORT
            shown = in_one(values, self.spec.statistic, digits=0 if whole or self.metric == "known" else 1).text
            return shown + short + (f" [{bad} failed]" if bad else "")
        if bad:
            return "*failed*"
        if any(results):
            return "-"
        return f"*not run here* (about {duration(estimates.seconds(self.runs))})"


def groups(spec: Spec, metric: str, results: Results) -> dict[Key, dict[Line, dict[object, Group]]]:
    """Returns row -> (data, learner, what else differs) -> column -> group."""
    found: dict[Key, dict[Line, dict[object, list[Run]]]] = {}
    beside = layout.beside(spec)
    for run in spec.runs:
        line = found.setdefault(layout.row(spec, run), {}).setdefault((run.data, run.learner, beside(run)), {})
        for column in layout.columns_of(spec, run):
            line.setdefault(column, []).append(run)
    return {
        row: {
            line: {column: Group(spec, metric, tuple(runs), results) for column, runs in by_column.items()}
            for line, by_column in lines.items()
        }
        for row, lines in found.items()
    }


def _grid(spec: Spec, metric: str, results: Results) -> Table:
    made, estimates = groups(spec, metric, results), Estimates(results)
    columns = layout.columns(spec)
    rows: list[tuple[str, ...]] = []
    numbers = {max(g.seeds for g in by_column.values()) for lines in made.values() for by_column in lines.values()}
    one = len(numbers) == 1
    seeds = f", {_seeds(*numbers)}" if one else ""
    for row, lines in made.items():
        heading = layout.heading(spec, row)
        for source, values in layout.printed(spec, metric, row, columns).items():
            rows.append((*heading, source, *(values.get(column, "") for column in columns)))
        for (data, learner, beside), by_column in lines.items():
            usual = max(group.seeds for group in by_column.values())
            entries = (by_column[c].text(c, estimates, usual) if c in by_column else "" for c in columns)
            words = [catalogue.entry(learner).origin, data, *beside, *([] if one else [_seeds(usual)])]
            rows.append((*heading, ", ".join(words), *entries))
    shown = METRICS[metric].replace("the last", "each") if spec.columns == "task" else METRICS[metric]
    return Table(
        title=spec.title if len(spec.metrics) == 1 else f"{spec.title}: {shown}",
        caption=f"{shown.capitalize()}; {IN_WORDS[spec.statistic]}{seeds}; delta 1e-5.",
        columns=(*layout.row_names(spec), "source", *(layout.column_name(spec, column) for column in columns)),
        rows=tuple(rows),
        notes=tuple(_notes(spec, metric, made)),
    )


def _seeds(number: int) -> str:
    return f"{number} seed{'s'[: number != 1]}"


def _values(result: Result, spec: Spec, metric: str, column: object) -> list[float]:
    """Returns what a run has for one column: one number, or one for each order of the tasks; none where there is none.

    Accuracy after the last task is the same in every order. Curves are kept in the mean over orders alone.
    """
    if spec.columns == "task":
        everywhere = result["run"].get("blurry") == 100  # then no task has labels of its own
        curve = "forgetting_curve" if metric == "forgetting" else "overall" if everywhere else "curve"
        values = result.get(curve)  # forgetting came later
        found = [None if values is None else values[int(str(column)) - 1]]
    elif spec.columns == "aggregation":
        found = [result["aggregations"].get(str(column))]
    elif metric == "seconds":
        found = [result["seconds"]["learn"]]
    elif metric == "forgetting" and "orders" in result:
        found = result["orders"]["forgetting"]
    else:
        found = [result.get(metric)]
    return [float(value) * (1 if metric in COUNTS else 100) for value in found if value is not None]


# --- notes


def _notes(spec: Spec, metric: str, made: Mapping[Key, Any]) -> list[str]:
    notes = []
    if metric in spec.figure:
        notes.append("The paper shows this in a figure, without numbers.")
    if any(catalogue.stand_in(run) != run for group in _all(made) for run in group.runs):
        notes.append(
            "With ten times as many public labels and more, the paper's Cosine is measured on the disjoint stream of "
            "ten tasks for all ratios: its total does not depend on the tasks that examples are in. Streams of five "
            "tasks are measured at each."
        )
    if spec.columns != "share" and any(len({run.share for run in group.runs}) > 1 for group in _all(made)):
        notes.append("In the paper's split, the best of the shares tried is shown, as the paper chose it.")
    if any(group.shows_every_order for group in _all(made)):
        if spec.columns == "task":
            notes.append(
                "Where what is released of a task does not depend on the tasks before it, a seed has the mean over all "
                "orders of the tasks; minimum and maximum are over seeds, in the paper over orders, too."
            )
        elif metric == "forgetting":
            notes.append(
                "Where what is released of a task does not depend on the tasks before it, forgetting is over all seeds "
                "and all orders of the tasks."
            )
    return notes


def _all(made: Mapping[Key, Any]) -> Iterable[Group]:
    return (group for lines in made.values() for columns in lines.values() for group in columns.values())
