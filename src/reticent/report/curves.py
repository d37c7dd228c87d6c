"""The plots of a benchmark's page, from groups of runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.report import groups, svg
from reticent.report.groups import Band, Facet, Group

FEW_SIZES = 15  # more class sizes than this are put into bins
BINS = 12

Drawn = Sequence[tuple[Facet, Sequence[svg.Series]]]


@dataclass(frozen=True)
class Metric:
    """A number of a run and the words of its axis."""

    key: str
    label: str
    scale: float

    def of(self, group: Group) -> Band | None:
        """Returns it over the seeds of a group."""
        return group.band(self.key, scale=self.scale)


ACCURACY = Metric("accuracy", "accuracy, %", 100)
FORGETTING = Metric("forgetting", "forgetting, points", 100)
KNOWN = Metric("known", "labels known", 1)


def grid(plots: Sequence[str]) -> str:
    """Returns plots side by side."""
    return f'<div class="plots">{"".join(plots)}</div>'


def by_task(found: Sequence[Group]) -> list[str]:
    """Draws average accuracy after each task."""
    plots = []
    measured = [g for g in found if any(len(run.get("curve") or []) > 1 for run in g.runs)]
    for own in groups.facets(measured, along=None, by=["epsilon", "ratio"]):
        drawn = [(facet, [_curve(name, style, line[0]) for name, style, line in facet.series]) for facet in own]
        places = {p.x for _, series in drawn for s in series for p in s.points}
        if places:
            x = svg.marked("after task", {place: f"{place:g}" for place in places})
            plots += _draw(drawn, x, ACCURACY.label)
    return plots


def against(found: Sequence[Group], field: str, metric: Metric, *, by: Sequence[str], ring: bool = False) -> list[str]:
    """Draws a metric against epsilon, the blurry ratio or the share of the budget.

    Args:
        found: Groups that may differ in the field, and in others; a plot without a line is left out.
        field: What is on the horizontal axis.
        metric: What is on the other one.
        by: Fields that get plots of their own.
        ring: Whether to mark the best point of each series.
    """
    plots = []
    for own in groups.facets([g for g in found if metric.of(g)], along=field, by=by):
        values = {g.cell.get(field) for facet in own for _, _, line in facet.series for g in line}
        place, x = _axis(field, sorted(values, key=groups.order))
        drawn = []
        for facet in own:
            series = []
            for name, style, line in facet.series:
                along = sorted(line, key=lambda g: groups.order(g.cell.get(field)))
                bands = [(g.cell.get(field), metric.of(g)) for g in along]
                points = [_point(place(value), groups.say(field, value), b) for value, b in bands if b is not None]
                best = points.index(max(points, key=lambda p: p.y)) if ring else None
                series.append(svg.Series(name=name, style=style, points=points, best=best))
            if any(len(s.points) > 1 for s in series):  # else there is nothing to compare
                drawn.append((facet, series))
        if drawn:
            plots += _draw(drawn, x, metric.label, bars=True)
    return plots


def accuracy_by_epsilon(found: Sequence[Group]) -> list[str]:
    """Draws accuracy against epsilon."""
    return against(found, "epsilon", ACCURACY, by=["ratio"])


def forgetting_by_epsilon(found: Sequence[Group]) -> list[str]:
    """Draws forgetting against epsilon."""
    return against(found, "epsilon", FORGETTING, by=["ratio"])


def by_size(found: Sequence[Group]) -> list[str]:
    """Draws the share of labels that were released, by class size, beside the planned probability."""
    plots = []
    measured = [g for g in found if any(run.get("classes") for run in g.runs)]
    for own in groups.facets(measured, along=None, by=["epsilon", "ratio"]):
        drawn = [(facet, [_sizes(name, style, line[0]) for name, style, line in facet.series]) for facet in own]
        x = svg.powers("examples of the label", [10**p.x for _, series in drawn for s in series for p in s.points])
        plots += _draw(drawn, x, "labels released, %")
    return plots


def attacked(attack: Mapping[str, Any]) -> list[str]:
    """Draws the attacker's accuracy against epsilon, beside the most that any attacker can reach."""
    points = attack["points"]
    remedies = [p for p in points if p["remedy"]]
    leaks = [p for p in points if not p["remedy"]]
    epsilons = {p["epsilon"] for p in points} | {epsilon for epsilon, _ in attack["bounds"]}
    if not epsilons:
        return []
    place, x = _axis("epsilon", sorted(epsilons))
    y = svg.linear("accuracy of the attacker, %", [45.0, 100.0], most=100)
    bound = [(place(epsilon), 100 * limit) for epsilon, limit in attack["bounds"]]
    fixed = [svg.Series(name="most that any attacker can reach", style=6, guide=bound)] if bound else []
    if leaks:
        crosses = [_played(p, place, f"{p['target']}, ") for p in leaks]
        fixed.append(svg.Series(name="labels read off the data", style=1, points=crosses, joined=False))
    free = [style for style in range(svg.MOST_SERIES) if style not in (1, 6)]
    plots = []
    for game in dict.fromkeys(p["game"] for p in remedies or leaks):
        targets = list(dict.fromkeys(p["target"] for p in remedies if p["game"] == game))
        for start in range(0, max(len(targets), 1), len(free)):
            series = []
            for style, target in zip(free, targets[start : start + len(free)], strict=False):
                own = sorted(
                    (p for p in remedies if p["game"] == game and p["target"] == target), key=lambda p: p["epsilon"]
                )
                series.append(svg.Series(name=target, style=style, points=[_played(p, place) for p in own]))
            plots.append(svg.plot(f"Attack: {game}", [*series, *fixed], x, y, bars=True))
    return [grid(plots)]


def dropped(drop: Mapping[str, Any]) -> list[str]:
    """Draws the probability that a label is dropped against its class size: mechanisms, or else several epsilon.

    >>> curve = {"epsilon": 1, "sizes": [1, 10, 100], "probability": [1.0, 0.8, 0.0]}
    >>> dropped({"delta": 1e-7, "curves": [curve]})[0].count("<figure")
    1
    """
    lines = [curve for curve in drop["curves"] if curve["sizes"]]
    if not lines:
        return []
    x = svg.powers("examples of the label in a task", [max(size, 1) for curve in lines for size in curve["sizes"]])
    y = svg.linear("probability of being dropped, %", [0.0, 100.0])
    title = f"Dropped labels, delta = {drop['delta']:g}"
    parts: dict[str, list[svg.Series]] = {}
    for curve in lines:
        epsilon = groups.say("epsilon", curve["epsilon"])
        caption, name = (f"{title}, {epsilon}", curve["mechanism"]) if "mechanism" in curve else (title, epsilon)
        own = parts.setdefault(caption, [])
        own.append(svg.Series(name=name, style=len(own) % svg.MOST_SERIES, points=_chances(curve)))
    plots = [
        svg.plot(caption, own[start : start + svg.MOST_SERIES], x, y)
        for caption, own in parts.items()
        for start in range(0, len(own), svg.MOST_SERIES)
    ]
    return [grid(plots)]


def spread(streams: Mapping[str, Any]) -> list[str]:
    """Draws how examples of a blurry class are spread over tasks: one plot per data set, one line per ratio.

    >>> spread({"toy": {"50": [60.0, 40.0]}})[0].count("<figure")
    1
    """
    plots = []
    for data, by_ratio in streams.items():
        lines = {ratio: by_task for ratio, by_task in by_ratio.items() if by_task}
        if not lines:
            continue
        longest = max(len(by_task) for by_task in lines.values())
        x = svg.marked("tasks after its home task", {float(t): str(t) for t in range(longest)})
        y = svg.linear("examples in a task", [0.0, *(n for by_task in lines.values() for n in by_task)])
        series = [
            svg.Series(
                name=f"{ratio} % blurry",
                style=i,
                points=[svg.Point(x=float(t), y=n, at=f"{t} later", value=f"{n:.4g}") for t, n in enumerate(by_task)],
            )
            for i, (ratio, by_task) in enumerate(list(lines.items())[: svg.MOST_SERIES])
        ]
        plots.append(svg.plot(data, series, x, y, facts={"data": data}))
    return [grid(plots)] if plots else []


def _draw(drawn: Drawn, x: svg.Axis, label: str, *, bars: bool = False) -> list[str]:
    """All plots of a data set share their axes, so that they can be compared."""
    points = [p for _, series in drawn for s in series for p in s.points]
    ends = [value for p in points for value in (p.y, p.low, p.high) if value is not None]
    guides = [value for _, series in drawn for s in series for _, value in s.guide]
    most = 100.0 if "%" in label else math.inf
    y = svg.linear(label, [*ends, *guides], most=most)
    return [svg.plot(facet.title, series, x, y, bars=bars, facts=facet.facts) for facet, series in drawn]


def _axis(field: str, values: Sequence[Any]) -> tuple[Callable[[Any], float], svg.Axis]:
    """Returns where each value goes, and the axis; "none" stands to the right of the largest epsilon."""
    if field == "ratio":
        return float, svg.marked("blurry ratio, %", {float(value): f"{value:g}" for value in values})
    logs = [math.log10(value) for value in values if value is not None]
    none = max(logs, default=0.0) + max(0.4, (max(logs, default=0.0) - min(logs, default=0.0)) / 6)

    def place(value: float | None) -> float:
        return none if value is None else math.log10(value)

    marks = {place(value): "none" if value is None else f"{value:g}" for value in values}
    return place, svg.marked("epsilon" if field == "epsilon" else "share of the budget for labels, %", marks)


def _point(x: float, at: str, found: Band) -> svg.Point:
    limits = (found.low, found.high) if found.seeds > 1 else (None, None)
    return svg.Point(x=x, y=found.middle, low=limits[0], high=limits[1], at=at, value=str(found))


def _curve(name: str, style: int, group: Group) -> svg.Series:
    bands = group.bands((run.get("curve") or [] for run in group.runs), scale=100)
    points = [_point(float(t), f"after task {t}", b) for t, b in enumerate(bands, start=1) if b is not None]
    return svg.Series(name=name, style=style, points=points)


def _sizes(name: str, style: int, group: Group) -> svg.Series:
    entries = sorted((max(size, 1), kept, p) for run in group.runs for size, kept, p in run.get("classes") or [])
    logs = [math.log10(size) for size, _, _ in entries]
    width = (logs[-1] - logs[0]) / BINS if len({size for size, _, _ in entries}) > FEW_SIZES else 0.0
    bins: dict[float, list[tuple[int, bool, float]]] = {}
    for log, entry in zip(logs, entries, strict=True):
        key = log if width == 0 else min(math.floor((log - logs[0]) / width), BINS - 1)
        bins.setdefault(key, []).append(entry)
    points, planned = [], []
    for own in bins.values():
        middle = math.log10(math.fsum(size for size, _, _ in own) / len(own))
        share, expected = (100 * math.fsum(entry[k] for entry in own) / len(own) for k in (1, 2))
        span = f"{own[0][0]}" if own[0][0] == own[-1][0] else f"{own[0][0]} to {own[-1][0]}"
        value = f"{share:.4g} of {len(own)} labels, planned {expected:.4g}"
        points.append(svg.Point(x=middle, y=share, at=f"{span} examples", value=value))
        planned.append((middle, expected))
    return svg.Series(name=name, style=style, points=points, guide=planned, joined=False)


def _chances(curve: Mapping[str, Any]) -> list[svg.Point]:
    return [
        svg.Point(x=math.log10(max(size, 1)), y=100 * p, at=f"{size:g} examples", value=f"{100 * p:.4g}")
        for size, p in zip(curve["sizes"], curve["probability"], strict=True)
    ]


def _played(point: Mapping[str, Any], place: Callable[[Any], float], prefix: str = "") -> svg.Point:
    low, high = (100 * limit for limit in point["interval"])
    value = f"{100 * point['accuracy']:.4g} ({low:.4g} to {high:.4g})"
    at = f"{prefix}{groups.say('epsilon', point['epsilon'])}"
    return svg.Point(x=place(point["epsilon"]), y=100 * point["accuracy"], low=low, high=high, at=at, value=value)
