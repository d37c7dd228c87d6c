"""Figures from plain values: of a plan, of an attack, of a stream of tasks."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from reticent.budget import Budget
from reticent.privacy import planning
from reticent.report import axes, groups, svg

DROP_EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DROP_TITLE = "When is a new label dropped?"
DROP_WORDS = (
    "Solid: probability that a label is dropped, by the number of its examples in a task. Dotted, in the same colour: "
    "the least for any mechanism that spends the whole budget."
)
ATTACK_TITLE = "Who is in the data? Accuracy of the membership game on label spaces"
ATTACK_WORDS = (
    "One person is in the data or not, and the attacker guesses from what is published. Points with bars: the "
    "strongest attack on each remedy, and the attack on labels that are read off the data, with confidence limits. "
    "Dotted: the most that any attacker can reach against (epsilon, delta)-DP. A coin is right in 50 % of the games."
)
FEW_SIZES = 15  # more class sizes than this are put into bins
BINS = 12

Size = tuple[int, bool, float]  # examples of a label, whether it was released, the planned probability


def plan_figures(budget: Budget, *, mechanism: str, share: float, count_weight: float | None) -> list[svg.Plot]:
    """Draws the probability that a label is dropped against its class size, for several epsilon, with the bound."""

    def plan(epsilon: float, sizes: Sequence[int]) -> planning.Plan:
        this = replace(budget, epsilon=epsilon)
        return planning.plan(this, mechanism=mechanism, share=share, count_weight=count_weight, class_sizes=sizes)

    largest = plan(DROP_EPSILONS[0], [1]).smallest_class_99 * 1.5
    sizes = np.unique(np.geomspace(1, largest, 400).astype(np.int64)).tolist()
    curves = []
    for epsilon in DROP_EPSILONS:
        classes = plan(epsilon, sizes).classes
        dropped_by_any = [1 - c.upper_bound for c in classes]
        dropped = [1 - c.release_probability for c in classes]
        curves.append({"epsilon": epsilon, "sizes": sizes, "probability": dropped, "bound": dropped_by_any})
    plots = dropped_labels({"delta": budget.delta, "curves": curves})
    return [replace(plot, caption=f"{plot.caption}, {mechanism}") for plot in plots]


def dropped_labels(drop: Mapping[str, Any]) -> list[svg.Plot]:
    """Draws the probability that a label is dropped against its class size.

    Args:
        drop: As in `drop.json`. Curves with a mechanism get one plot for each epsilon; others share one, with a line
            for each epsilon and, where they have one, the bound for any mechanism.

    Example:
        >>> curve = {"epsilon": 1, "sizes": [1, 10, 100], "probability": [1.0, 0.8, 0.0]}
        >>> [plot.caption for plot in dropped_labels({"delta": 1e-7, "curves": [curve]})]
        ['Dropped labels, delta = 1e-07']
    """
    curves = [curve for curve in drop["curves"] if curve["sizes"]]
    if not curves:
        return []
    x = axes.powers("examples of the label in a task", [max(size, 1) for curve in curves for size in curve["sizes"]])
    y = axes.percent("probability of being dropped, %")
    title = f"Dropped labels, delta = {drop['delta']:g}"
    parts: dict[str, list[svg.Series]] = {}
    for curve in curves:
        epsilon = groups.say("epsilon", curve["epsilon"])
        caption, name = (f"{title}, {epsilon}", curve["mechanism"]) if "mechanism" in curve else (title, epsilon)
        own = parts.setdefault(caption, [])
        places = [math.log10(max(size, 1)) for size in curve["sizes"]]
        points = [
            svg.Point(x=place, y=100 * p, at=f"{size:g} examples", value=f"{100 * p:.4g}")
            for place, size, p in zip(places, curve["sizes"], curve["probability"], strict=True)
        ]
        guide = [(place, 100 * p) for place, p in zip(places, curve.get("bound", ()), strict=False)]
        own.append(svg.Series(name=name, style=len(own) % svg.MOST_SERIES, points=points, guide=guide))
    return [
        svg.Plot(
            caption=caption,
            series=own[start : start + svg.MOST_SERIES],
            x=x,
            y=y,
            guides="any mechanism, at least" if any(s.guide for s in own) else "",
        )
        for caption, own in parts.items()
        for start in range(0, len(own), svg.MOST_SERIES)
    ]


def attack_figures(attack: Mapping[str, Any]) -> list[svg.Plot]:
    """Draws the attacker's accuracy against epsilon, beside the most that any attacker can reach.

    Args:
        attack: As in `attack.json`: points, and bounds as pairs of epsilon and accuracy.
    """
    remedies = [p for p in attack["points"] if p["remedy"]]
    leaks = [p for p in attack["points"] if not p["remedy"]]
    epsilons = {p["epsilon"] for p in attack["points"]} | {epsilon for epsilon, _ in attack["bounds"]}
    if not epsilons:
        return []
    place, x = axes.logarithmic("epsilon", sorted(epsilons))
    fixed = []
    if attack["bounds"]:
        most = [_accuracy(epsilon, accuracy, place) for epsilon, accuracy in attack["bounds"]]
        line = [(p.x, p.y) for p in most]
        name = "most that any attacker can reach"
        fixed.append(svg.Series(name=name, style=6, points=most, guide=line, joined=False))
    if leaks:
        won = [
            _accuracy(p["epsilon"], p["accuracy"], place, p["interval"], f"{p['target']}, ")
            for p in sorted(leaks, key=lambda p: float(p["epsilon"]))
        ]
        fixed.append(svg.Series(name="labels read off the data, no remedy", style=1, points=won))
    free = [style for style in range(svg.MOST_SERIES) if style not in (1, 6)]
    plots = []
    for game in dict.fromkeys(p["game"] for p in remedies or leaks):
        targets = list(dict.fromkeys(p["target"] for p in remedies if p["game"] == game))
        for start in range(0, max(len(targets), 1), len(free)):
            series = []
            for style, target in zip(free, targets[start : start + len(free)], strict=False):
                own = [p for p in remedies if p["game"] == game and p["target"] == target]
                points = [
                    _accuracy(p["epsilon"], p["accuracy"], place, p["interval"])
                    for p in sorted(own, key=lambda p: float(p["epsilon"]))
                ]
                series.append(svg.Series(name=target, style=style, points=points))
            y = axes.percent("accuracy of the attacker, %")
            plots.append(svg.Plot(caption=f"Attack: {game}", series=[*series, *fixed], x=x, y=y, bars=True))
    return plots


def blurry_classes(streams: Mapping[str, Any]) -> list[svg.Plot]:
    """Draws how examples of a blurry class are spread over tasks: one plot per data set, one line per ratio.

    >>> [plot.caption for plot in blurry_classes({"toy": {"50": [60.0, 40.0]}})]
    ['toy']
    """
    plots = []
    for data, by_ratio in streams.items():
        lines = {ratio: by_task for ratio, by_task in by_ratio.items() if by_task}
        if not lines:
            continue
        longest = max(len(by_task) for by_task in lines.values())
        x = axes.marked("tasks after its home task", {float(t): str(t) for t in range(longest)})
        y = axes.linear("examples in a task", [0.0, *(n for by_task in lines.values() for n in by_task)])
        series = [
            svg.Series(
                name=f"{ratio} % blurry",
                style=i,
                points=[svg.Point(x=float(t), y=n, at=f"{t} later", value=f"{n:.4g}") for t, n in enumerate(by_task)],
            )
            for i, (ratio, by_task) in enumerate(list(lines.items())[: svg.MOST_SERIES])
        ]
        plots.append(svg.Plot(caption=data, series=series, x=x, y=y, facts={"data": data}))
    return plots


def accuracy_by_task(curves: Mapping[str, Sequence[float]], tasks: Sequence[str], reference: str = "") -> svg.Plot:
    """Draws accuracy on everything seen so far after each task, one line per method.

    Args:
        curves: From a method's name to its accuracies.
        tasks: Their names.
        reference: The method that the others are measured against, without privacy: a dotted line.
    """
    series = []
    for style, (name, values) in enumerate(curves.items()):
        points = [
            svg.Point(x=float(t), y=100 * value, at=f"after {task}", value=f"{100 * value:.1f}")
            for t, (task, value) in enumerate(zip(tasks, values, strict=True))
        ]
        if name == reference:
            line = [(p.x, p.y) for p in points]
            series.append(svg.Series(name=name, style=6, points=points, guide=line, joined=False))
        else:
            series.append(svg.Series(name=name, style=style, points=points))
    x = axes.marked("after learning chapter", {float(t): task for t, task in enumerate(tasks)})
    y = axes.percent("accuracy on all tasks so far, %")
    return svg.Plot(caption="Accuracy after each task", series=series, x=x, y=y)


def released_by_size(classes: Sequence[Size]) -> svg.Plot:
    """Draws which share of the labels was released, by size. For public data only: sizes are sensitive."""
    kept = sum(released for _, released, _ in classes)
    series = released_series(f"released: {kept} of {len(classes)} labels", 2, classes)
    return svg.Plot(
        caption="Which labels were released?",
        series=[series],
        x=axes.powers("examples of the label", [10**p.x for p in series.points]),
        y=axes.percent("labels released, %"),
        guides="as planned",
    )


def released_series(name: str, style: int, classes: Sequence[Size]) -> svg.Series:
    """Returns the share of labels that were released against their size, with the planned share as a guide."""
    entries = sorted((max(size, 1), kept, p) for size, kept, p in classes)
    logs = [math.log10(size) for size, _, _ in entries]
    width = (logs[-1] - logs[0]) / BINS if len({size for size, _, _ in entries}) > FEW_SIZES else 0.0
    bins: dict[float, list[Size]] = {}
    for log, entry in zip(logs, entries, strict=True):
        key = log if width == 0 else min(math.floor((log - logs[0]) / width), BINS - 1)
        bins.setdefault(key, []).append(entry)
    points, planned = [], []
    for own in bins.values():
        middle = math.log10(math.fsum(size for size, _, _ in own) / len(own))
        share, expected = (100 * math.fsum(entry[k] for entry in own) / len(own) for k in (1, 2))
        span = f"{own[0][0]}" if own[0][0] == own[-1][0] else f"{own[0][0]} to {own[-1][0]}"
        value = f"{share:.3g} % ({sum(kept for _, kept, _ in own)} of {len(own)} labels), planned {expected:.3g} %"
        points.append(svg.Point(x=middle, y=share, at=f"{span} examples", value=value))
        planned.append((middle, expected))
    return svg.Series(name=name, style=style, points=points, guide=planned, joined=False)


def _accuracy(
    epsilon: float,
    accuracy: float,
    place: Callable[[float | None], float],
    interval: Sequence[float] | None = None,
    prefix: str = "",
) -> svg.Point:
    at, value = f"{prefix}{groups.say('epsilon', epsilon)}", f"{100 * accuracy:.4g}"
    if interval is None:
        return svg.Point(x=place(epsilon), y=100 * accuracy, at=at, value=value)
    low, high = (100 * limit for limit in interval)
    shown = f"{value} ({low:.4g}, {high:.4g})"
    return svg.Point(x=place(epsilon), y=100 * accuracy, low=low, high=high, at=at, value=shown)
