"""Runs of a benchmark put together: seeds into groups, groups into series, series into plots."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.report import seeds
from reticent.report.seeds import Spread
from reticent.report.svg import MOST_SERIES

# What tells series apart, in the order in which it is said.
SAID = ("learner", "adapter", "labels", "names", "memory", "share", "epsilon", "ratio", "tasks", "persons")
# What gets plots of its own first, where one plot would hold too many series; learners are compared in one plot.
SPLIT = ("ratio", "epsilon", "labels")
# What need not be said of a series that has one value of it.
IMPLIED = ("tasks", "share", "adapter", "names", "memory", "blurry", "persons")
NO_PRIVACY = "no privacy"
BEST = "best"


def over_seeds(values: Iterable[float | None], *, scale: float = 1.0, digits: int = 1) -> Spread | None:
    """Returns a number over seeds, without those that did not measure it; None where none did.

    >>> print(over_seeds([0.5, None, 0.25], scale=100))
    37.5 (25.0, 50.0)
    """
    found = [scale * value for value in values if value is not None and math.isfinite(value)]
    return seeds.spread(found, digits=digits) if found else None


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone."""

    settings: Mapping[str, Any]
    runs: Sequence[Mapping[str, Any]]

    def spread(self, key: str, *, scale: float = 1.0, digits: int = 1) -> Spread | None:
        """Returns a number of the runs over seeds."""
        return over_seeds((run.get(key) for run in self.runs), scale=scale, digits=digits)

    def spreads(self, rows: Iterable[Sequence[float | None]], *, scale: float = 1.0) -> list[Spread | None]:
        """Returns what several rows, one of each seed, say at each place."""
        kept = [row for row in rows if row]
        longest = max((len(row) for row in kept), default=0)
        return [over_seeds((row[i] for row in kept if i < len(row)), scale=scale) for i in range(longest)]


def groups(runs: Iterable[Mapping[str, Any]]) -> list[Group]:
    """Puts finished runs together that differ in their seed alone, in a fixed order.

    >>> settings = {"data": "clinc150", "learner": "cosine", "labels": "oracle", "epsilon": 1}
    >>> [len(g.runs) for g in groups({"status": "done", "run": {**settings, "seed": s}} for s in range(5))]
    [5]
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        if run["status"] == "done":
            settings = {field: value for field, value in run["run"].items() if field != "seed"}
            found.setdefault(json.dumps(settings, sort_keys=True), []).append(run)
    return sorted((Group(json.loads(settings), same) for settings, same in found.items()), key=_place)


def _place(group: Group) -> list[tuple[int, float, str]]:
    return [order(group.settings.get(field)) for field in ("data", *SAID)]


def order(value: object) -> tuple[int, float, str]:
    """Sorts numbers by size, then words; nothing comes last.

    >>> sorted([None, "b", 8, 0.5], key=order)
    [0.5, 8, 'b', None]
    """
    if isinstance(value, int | float):
        return 0, float(value), ""
    return (2, 0.0, "") if value is None else (1, 0.0, str(value))


def say(field: str, value: object) -> str:
    """Returns one fact of a settings in words, "" where there is nothing to say.

    >>> say("epsilon", None), say("share", 10), say("share", None)
    ('no privacy', 'share 10', '')
    """
    if field == "epsilon":
        return NO_PRIVACY if value is None else f"epsilon {_short(value)}"
    if value is None:
        return ""
    if field in ("share", "ratio"):
        return f"{value} {field}" if value == BEST else f"{field} {_short(value)}"
    if field == "tasks":
        return "1 task" if value == 1 else f"{value} tasks"
    if field == "persons":
        return "" if value == 1 else f"persons in {value} tasks"
    return str(value) if field in ("data", *SAID) else f"{field} {value}"


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def name(settings: Mapping[str, Any], fields: Iterable[str]) -> str:
    """Returns several facts of a settings in words."""
    return " · ".join(words for words in (say(field, settings.get(field)) for field in fields) if words)


def varying(found: Sequence[Group]) -> list[str]:
    """Returns the fields in which groups differ, other than their data."""
    fields = dict.fromkeys([*SAID, *(field for group in found for field in sorted(group.settings))])
    return [f for f in fields if f != "data" and len({order(g.settings.get(f)) for g in found}) > 1]


def part_by(found: Iterable[Group], fields: Sequence[str]) -> list[list[Group]]:
    """Parts groups by some fields, in the order of their values.

    >>> some = [Group({"epsilon": e, "learner": n}, ()) for e in (8, 1) for n in ("cosine", "peft")]
    >>> [[g.settings["epsilon"] for g in part] for part in part_by(some, ["epsilon"])]
    [[1, 1], [8, 8]]
    """
    parts: dict[tuple[Any, ...], list[Group]] = {}
    for group in found:
        parts.setdefault(tuple(order(group.settings.get(field)) for field in fields), []).append(group)
    return [parts[key] for key in sorted(parts)]


def chosen(found: Sequence[Group]) -> list[Group]:
    """Keeps the group with the best share of the budget where several were tried; all other groups stay.

    >>> tried = [(5, 0.7), (9, 0.8)]
    >>> runs = [{"status": "done", "accuracy": a, "run": {"learner": "cosine", "share": s}} for s, a in tried]
    >>> [(g.settings["share"], g.runs[0]["accuracy"]) for g in chosen(groups(runs))]
    [('best', 0.8)]
    """
    kept: list[Group] = []
    for line in part_by(found, ["data", "learner", "adapter", "labels"]):
        if len({g.settings.get("share") for g in line} - {None}) < 2:
            kept += line
            continue
        for tries in part_by(line, [f for f in varying(line) if f != "share"]):
            best = max(tries, key=accuracy)
            kept.append(Group({**best.settings, "share": BEST}, best.runs))
    return sorted(kept, key=_place)


def swept(found: Sequence[Group], field: str, *, least: int) -> list[Group]:
    """Keeps groups that have at least `least` values of this field, with all else the same.

    >>> some = [Group({"learner": n, "ratio": r}, ()) for n, r in [("cosine", 0), ("cosine", 50), ("peft", 0)]]
    >>> [g.settings["learner"] for g in swept(some, "ratio", least=2)]
    ['cosine', 'cosine']
    """
    others = [f for f in ("data", *varying(found)) if f != field]
    lines = part_by([g for g in found if g.settings.get(field) is not None], others)
    return [group for line in lines if len(line) >= least for group in line]


def least_blurry(found: Sequence[Group]) -> tuple[list[Group], list[Group]]:
    """Returns the groups with the smallest ratio of each data set, and all others."""
    clear: list[Group] = []
    others: list[Group] = []
    for own in part_by(found, ["data"]):
        first, *rest = part_by(own, ["ratio"])
        clear += first
        others += [group for part in rest for group in part]
    return clear, others


def accuracy(group: Group) -> float:
    """Returns the median accuracy, -1 where it was not measured."""
    found = group.spread("accuracy")
    return -1.0 if found is None else found.middle


@dataclass(frozen=True)
class Facet:
    """What one plot shows: its words, what filters look at, and each series with its style and its groups."""

    title: str
    facts: Mapping[str, str]
    series: Sequence[tuple[str, int, list[Group]]]


def facets(found: Sequence[Group], *, along: str | None, by: Sequence[str]) -> Iterator[list[Facet]]:
    """Yields the plots of each data set: `along` an axis, apart `by` some fields, at most seven series in each.

    Args:
        found: Groups of any data sets.
        along: The field on the horizontal axis; None where that is not a field.
        by: Fields that always get plots of their own.

    Example:
        >>> several = [{"data": "icd10cm", "learner": n, "epsilon": e} for n in ("cosine", "peft") for e in (1, 8)]
        >>> (plots,) = facets([Group(settings, ()) for settings in several], along=None, by=["epsilon"])
        >>> [(plot.title, [name for name, _, _ in plot.series]) for plot in plots]
        [('icd10cm · epsilon 1', ['cosine', 'peft']), ('icd10cm · epsilon 8', ['cosine', 'peft'])]
    """
    for own in part_by(found, ["data"]):
        free = [f for f in varying(own) if f != along]
        plots = [cut for part in part_by(own, by) for cut in _cut(part, [f for f in free if f not in by], list(by))]
        fields = _legend_fields(own, free, along)
        names = [
            [name(line[0].settings, [f for f in fields if f not in apart]) for line in lines]
            for lines, apart, _ in plots
        ]
        ranks = {words: i for i, words in enumerate(sorted({words for some in names for words in some}))}
        shown = []
        for (lines, apart, number), some in zip(plots, names, strict=True):
            settings = lines[0][0].settings
            title = name(settings, ["data", *(f for f in apart if f in free or f == "epsilon" or settings.get(f))])
            part = [group for line in lines for group in line]
            series = list(zip(some, _styles([ranks[words] for words in some]), lines, strict=True))
            shown.append(Facet(title + (f" · part {number}" if number else ""), facts(part, along), series))
        yield shown


def _cut(
    part: Sequence[Group], free: Sequence[str], apart: list[str]
) -> Iterator[tuple[list[list[Group]], list[str], int]]:
    """Yields the series of each plot, the fields that are the same in all of them, and its number if they have one."""
    lines = part_by(part, free)
    field = next((f for f in (*SPLIT, *(f for f in free if f not in SAID)) if f in free), None)
    if len(lines) <= MOST_SERIES:
        yield lines, apart, 0
    elif field is not None:
        for smaller in part_by(part, [field]):
            yield from _cut(smaller, [f for f in free if f != field], [*apart, field])
    else:
        size = math.ceil(len(lines) / math.ceil(len(lines) / MOST_SERIES))
        for start in range(0, len(lines), size):
            yield lines[start : start + size], apart, start // size + 1


def _legend_fields(own: Sequence[Group], free: Sequence[str], along: str | None) -> list[str]:
    """What the legend says: enough to tell series apart."""
    fields = list(dict.fromkeys(("learner", "labels", *free)))
    for field in IMPLIED:
        fewer = [f for f in fields if f != field]
        if field != along and len(part_by(own, fewer)) == len(part_by(own, fields)):
            fields = fewer
    return fields


def facts(part: Sequence[Group], along: str | None = None) -> dict[str, str]:
    """Returns what filters look at: the data set, and epsilon and ratio where all groups share them."""
    shared = {"data": str(part[0].settings.get("data"))}
    for field in ("epsilon", "ratio"):
        values = {say(field, g.settings.get(field)) for g in part}
        if field != along and len(values) == 1 and "" not in values:
            shared[field] = values.pop()
    return shared


def _styles(wanted: Sequence[int]) -> list[int]:
    """The same style for the same series in all plots of a data set, where seven are enough."""
    taken: list[int] = []
    for first in wanted:
        free = (k % MOST_SERIES for k in range(first, first + MOST_SERIES))
        taken.append(next(style for style in free if style not in taken))
    return taken
