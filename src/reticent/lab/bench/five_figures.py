"""Five figures of a benchmark, as SVG documents: what to look at before any table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.lab.bench.checks import EPSILONS
from reticent.lab.bench.chosen import CHOSE_NOTHING
from reticent.lab.bench.findings import RATIOS
from reticent.lab.bench.medians import measured
from reticent.lab.bench.run import LABELS, Results
from reticent.report import axes, figures, picture, svg

METHODS = {
    "Cosine, the paper's": "cosine-paper",
    "Cosine, ours": "cosine",
    "PEFT, the paper's": "peft-paper",
    "PEFT, ours": "peft",
}
_SOURCES = {"oracle": "oracle", "base": "public", "public-1000x": "1000x", "released": "released"}
_SIZES = {"base": "1x", "public-10x": "10x", "public-100x": "100x", "public-1000x": "1000x"}
_ASIDE = 0.09  # between markers of one place
_WORDS = "Average accuracy after the last task, median over seeds."


@dataclass(frozen=True)
class Figure:
    """A figure of the page.

    Args:
        name: Of its file, without the ending.
        title: What it shows.
        drawn: An SVG document.
    """

    name: str
    title: str
    drawn: str


def five(results: Results, attack: Mapping[str, Any] | None) -> list[Figure]:
    """Returns the figures of which something was run.

    Example:
        >>> five({}, None)
        []
    """
    found = [
        _figure("attack", figures.ATTACK_TITLE, figures.attack_figures(attack)[:1] if attack else [], ""),
        _figure("labels", "Where labels come from, epsilon 1", _by_labels(results, _SOURCES, joined=False), _WORDS),
        _figure("sizes", "Public labels that never occur, epsilon 1", _by_labels(results, _SIZES, joined=True), _WORDS),
        _figure("blurry", "Classes spread over tasks, released labels", _by_ratio(results), _WORDS),
        _figure("share", "Share of the budget that buys the labels, epsilon 1", _by_share(results), _WORDS),
    ]
    return [figure for figure in found if figure is not None]


def _figure(name: str, title: str, plots: Sequence[svg.Plot], words: str) -> Figure | None:
    """Returns plots of the first data set and of those that chose no default; all are in tables and the HTML report."""
    shown = [plot for i, plot in enumerate(plots) if not i or plot.caption in CHOSE_NOTHING]
    return Figure(name, title, picture.standalone(title, shown, words)) if shown else None


def _by_labels(results: Results, labels: Mapping[str, str], *, joined: bool) -> list[svg.Plot]:
    order = sorted(labels, key=LABELS.index)
    x = axes.marked("labels", {float(i): labels[name] for i, name in enumerate(order)})
    return [
        plot
        for at in measured(results)
        for plot in _plot(
            at.data,
            {
                said: [(float(i), labels[name], at(learner, name)) for i, name in enumerate(order)]
                for said, learner in METHODS.items()
            },
            x,
            joined=joined,
        )
    ]


def _by_ratio(results: Results) -> list[svg.Plot]:
    x = axes.percent("blurry ratio, %")
    return [
        plot
        for at in measured(results)
        for plot in _plot(
            at.data,
            {
                f"{said}, epsilon {epsilon:g}": [
                    (ratio, f"{ratio:g} %", at(learner, "released", ratio=ratio, epsilon=epsilon))
                    for ratio in (0.0, *RATIOS)
                ]
                for said, learner in METHODS.items()
                for epsilon in EPSILONS
                if learner.startswith("cosine")
            },
            x,
        )
    ]


def _by_share(results: Results) -> list[svg.Plot]:
    plots = []
    for at in measured(results):
        tried = {said: at.shares(learner) for said, learner in METHODS.items() if learner.endswith("-paper")}
        shares = sorted({share for by_share in tried.values() for share in by_share})
        if len(shares) > 1:
            place, x = axes.logarithmic("share of the budget for labels, %", shares)
            lines: dict[str, list[tuple[float, str, float | None]]] = {
                said: [(place(s), f"{s:g} %", v) for s, v in by_share.items()] for said, by_share in tried.items()
            }
            ours = at("cosine", "released")  # has no share to choose
            lines["Cosine, ours (no share)"] = [(place(share), f"{share:g} %", ours) for share in shares]
            plots += _plot(at.data, lines, x)
    return plots


def _plot(
    data: str,
    lines: Mapping[str, Sequence[tuple[float, str, float | None]]],
    x: axes.Axis,
    *,
    joined: bool = True,
) -> list[svg.Plot]:
    """Returns the plot of some lines, none where each has one point; points that are not joined stand side by side."""
    series = []
    for style, (name, values) in enumerate(lines.items()):
        aside = 0.0 if joined else _ASIDE * (style - (len(lines) - 1) / 2)
        before = (None, *(y for _, _, y in values))
        points = [
            svg.Point(x=at + aside, y=y, at=said, value=f"{y:.1f}", apart=last is None or not joined)
            for (at, said, y), last in zip(values, before, strict=False)
            if y is not None
        ]
        if points:
            series.append(svg.Series(name=name, style=style, points=points))
    if not any(len(line.points) > 1 for line in series):
        return []
    return [svg.Plot(caption=data, series=series, x=x, y=axes.percent("accuracy, %"))]
