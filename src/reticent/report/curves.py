"""The plots of a benchmark's page, from groups of runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reticent.report import axes, figures, groups, svg
from reticent.report.axes import Axis
from reticent.report.groups import Facet, Group
from reticent.report.seeds import Spread

Drawn = Sequence[tuple[Facet, Sequence[svg.Series]]]


@dataclass(frozen=True)
class Metric:
    """A number of a run, the name of its axis, and how it is printed."""

    key: str
    label: str
    scale: float = 100.0
    digits: int = 1

    def of(self, group: Group) -> Spread | None:
        """Returns it over the seeds of a group."""
        return group.spread(self.key, scale=self.scale, digits=self.digits)


ACCURACY = Metric("accuracy", "accuracy, %")
FORGETTING = Metric("forgetting", "forgetting, points")
KNOWN = Metric("known", "labels known", scale=1, digits=0)


def by_task(found: Sequence[Group]) -> list[svg.Plot]:
    """Draws average accuracy after each task; dotted, the best without privacy on the same stream."""
    plots = []
    measured = [g for g in found if any(len(run.get("curve") or []) > 1 for run in g.runs)]
    for own in groups.facets(measured, along=None, by=["epsilon", "ratio"]):
        drawn = [
            (
                facet,
                [*(_curve(name, style, line[0]) for name, style, line in facet.series), *_reference(facet, measured)],
            )
            for facet in own
        ]
        places = {p.x for _, series in drawn for s in series for p in s.points}
        if places:
            x = axes.marked("after task", {place: f"{place:g}" for place in places})
            plots += _draw(drawn, x, ACCURACY.label)
    return plots


def against(
    found: Sequence[Group], field: str, metric: Metric, *, by: Sequence[str], ring: bool = False
) -> list[svg.Plot]:
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
        values = {g.settings.get(field) for facet in own for _, _, line in facet.series for g in line}
        place, x = _along(field, sorted(values, key=groups.order))
        drawn = []
        for facet in own:
            series = []
            for name, style, line in facet.series:
                along = sorted(line, key=lambda g: groups.order(g.settings.get(field)))
                spreads = [(g.settings.get(field), metric.of(g)) for g in along]
                points = [_point(place(value), groups.say(field, value), s) for value, s in spreads if s is not None]
                best = points.index(max(points, key=lambda p: p.y)) if ring else None
                series.append(svg.Series(name=name, style=style, points=points, best=best))
            if any(len(s.points) > 1 for s in series):  # else there is nothing to compare
                drawn.append((facet, series))
        if drawn:
            plots += _draw(drawn, x, metric.label, bars=True)
    return plots


def accuracy_by_epsilon(found: Sequence[Group]) -> list[svg.Plot]:
    """Draws accuracy against epsilon."""
    return against(found, "epsilon", ACCURACY, by=["ratio"])


def forgetting_by_epsilon(found: Sequence[Group]) -> list[svg.Plot]:
    """Draws forgetting against epsilon."""
    return against(found, "epsilon", FORGETTING, by=["ratio"])


def by_size(found: Sequence[Group]) -> list[svg.Plot]:
    """Draws the share of labels that were released, by class size, beside the planned probability."""
    plots = []
    measured = [g for g in found if any(run.get("classes") for run in g.runs)]
    for own in groups.facets(measured, along=None, by=["epsilon", "ratio"]):
        drawn = [(facet, [_released(name, style, line[0]) for name, style, line in facet.series]) for facet in own]
        x = axes.powers("examples of the label", [10**p.x for _, series in drawn for s in series for p in s.points])
        plots += _draw(drawn, x, "labels released, %", guides="as planned")
    return plots


def _draw(drawn: Drawn, x: Axis, label: str, *, bars: bool = False, guides: str = "") -> list[svg.Plot]:
    """All plots of a data set share their axes, so that they can be compared."""
    if "%" in label:
        y = axes.percent(label)
    else:
        points = [p for _, series in drawn for s in series for p in s.points]
        values = (value for p in points for value in (p.y, p.low, p.high) if value is not None)
        y = axes.linear(label, [0.0, *values])  # from 0: small differences stay small
    return [
        svg.Plot(caption=facet.title, series=series, x=x, y=y, bars=bars, guides=guides, facts=facet.facts)
        for facet, series in drawn
    ]


def _along(field: str, values: Sequence[float | None]) -> tuple[Callable[[Any], float], Axis]:
    """Returns where each value of a field goes, and the axis."""
    if field == "ratio":
        return float, axes.percent("blurry ratio, %")
    return axes.logarithmic("epsilon" if field == "epsilon" else "share of the budget for labels, %", values)


def _point(x: float, at: str, found: Spread) -> svg.Point:
    low, high = (found.low, found.high) if found.seeds > 1 else (None, None)
    return svg.Point(x=x, y=found.middle, low=low, high=high, at=at, value=str(found))


def _curve(name: str, style: int, group: Group) -> svg.Series:
    spreads = group.spreads((run.get("curve") or [] for run in group.runs), scale=100)
    points = [_point(float(t), f"after task {t}", s) for t, s in enumerate(spreads, start=1) if s is not None]
    return svg.Series(name=name, style=style, points=points)


def _reference(facet: Facet, measured: Sequence[Group]) -> list[svg.Series]:
    """Returns a dotted line for the best learner without privacy, where a plot has private ones and room for it."""
    shown = facet.series[0][2][0].settings
    free = [
        g
        for g in measured
        if g.settings.get("epsilon") is None
        and all(g.settings.get(f) == shown.get(f) for f in ("data", "ratio", "tasks"))
    ]
    styles = [
        style for style in reversed(range(svg.MOST_SERIES)) if style not in {style for _, style, _ in facet.series}
    ]
    if shown.get("epsilon") is None or not free or not styles:
        return []
    best = max(free, key=groups.accuracy)
    curve = _curve(f"no privacy: {groups.name(best.settings, ['learner', 'labels'])}", styles[0], best)
    return [replace(curve, guide=[(p.x, p.y) for p in curve.points], joined=False)]


def _released(name: str, style: int, group: Group) -> svg.Series:
    return figures.released_series(name, style, [entry for run in group.runs for entry in run.get("classes") or []])
