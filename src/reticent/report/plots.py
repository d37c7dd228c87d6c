"""Figures: matplotlib draws them, `save` writes a PNG or one self-contained HTML page."""

import importlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.budget import Budget
from reticent.privacy import confidence, planning
from reticent.report import page

# Okabe and Ito: told apart with every kind of colour vision, and by lightness in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DROP_EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


class Played(Protocol):
    """What a figure needs to know of a game that was played."""

    @property
    def target(self) -> str:
        """What was attacked."""

    @property
    def epsilon(self) -> float:
        """Its epsilon."""

    @property
    def delta(self) -> float:
        """Its delta."""

    @property
    def accuracy(self) -> float:
        """How often the attacker was right."""

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence limits of the accuracy."""


class Figure:
    """A drawn figure with its words."""

    def __init__(self, title: str, caption: str) -> None:
        try:
            module = importlib.import_module("matplotlib.figure")
        except ImportError as error:
            raise errors.ReticentError(
                "Plots need matplotlib. Install it with: pip install 'reticent[plot]'"
            ) from error
        self.title, self.caption = title, caption
        self._figure: Any = module.Figure(figsize=(9, 5.2), layout="constrained")
        self.axes: Any = self._figure.add_subplot()
        self.axes.grid(alpha=0.25)
        for side in ("top", "right"):
            self.axes.spines[side].set_visible(False)

    def save(self, path: Path) -> None:
        """Writes the figure as .png or .html, after its ending."""
        try:
            path.write_bytes(self._png() if path.suffix == ".png" else self._page().encode())
        except OSError as error:
            raise errors.InvalidValue(f"Cannot write {path}: {error.strerror}.") from error

    def _png(self) -> bytes:
        self.axes.set_title(self.title)
        buffer = io.BytesIO()
        self._figure.savefig(buffer, format="png", dpi=150)
        return buffer.getvalue()

    def _page(self) -> str:
        return page.page(self.title, [page.figure(self.caption, self.svg())])

    def svg(self) -> str:
        """Returns the figure as an inline SVG element."""
        buffer = io.StringIO()
        self._figure.savefig(buffer, format="svg", transparent=True)
        return re.sub(r"^.*?(?=<svg)", "", buffer.getvalue(), count=1, flags=re.DOTALL)


def check_path(path: Path) -> Path:
    """Refuses a plot file of another kind before anything is computed."""
    if path.suffix not in (".png", ".html"):
        raise errors.InvalidValue(f"Expected a plot file that ends in .png or .html, got {path.name}.")
    if not path.absolute().parent.is_dir():
        raise errors.InvalidValue(f"Expected an existing folder for the plot, got {path.parent}.")
    return path


def drop_probability(budget: Budget, *, mechanism: str, share: float, count_weight: float) -> Figure:
    """Draws the probability that a label is dropped against its class size, for several epsilon."""
    figure = Figure(
        f"When is a new label dropped? ({mechanism}, delta = {budget.delta:g})",
        "Solid: probability that a label is dropped, by the number of its examples in a task. Dashed: the lower bound "
        "for any mechanism that spends the whole budget.",
    )

    def plan(epsilon: float, sizes: Sequence[int]) -> planning.Plan:
        this = replace(budget, epsilon=epsilon)
        return planning.plan(this, mechanism=mechanism, share=share, count_weight=count_weight, class_sizes=sizes)

    largest = plan(DROP_EPSILONS[0], [1]).smallest_class_99 * 1.5
    sizes = np.unique(np.geomspace(1, largest, 400).astype(np.int64)).tolist()
    for colour, epsilon in zip(COLOURS, DROP_EPSILONS, strict=True):
        classes = plan(epsilon, sizes).classes
        figure.axes.plot(sizes, [1 - c.release_probability for c in classes], color=colour, label=f"ε = {epsilon:g}")
        figure.axes.plot(sizes, [1 - c.upper_bound for c in classes], color=colour, linestyle="--", linewidth=1)
    figure.axes.plot([], [], color="grey", linestyle="--", linewidth=1, label="any mechanism, at least")
    figure.axes.set(xscale="log", xlabel="examples of the label in a task", ylabel="probability of being dropped")
    figure.axes.set_ylim(-0.02, 1.02)
    figure.axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def attack_accuracy(remedies: Sequence[Played], naive: Sequence[Played]) -> Figure:
    """Draws the attacker's accuracy against epsilon: remedies with limits, the bound, and classifiers that leak."""
    figure = Figure(
        "Who is in the data? Accuracy of the membership game on label spaces",
        "Points: the strongest attack on each remedy with its confidence limits. Bars: the most any attacker can "
        "reach against (epsilon, delta)-DP. Crosses at the top: classifiers that read their labels off the data.",
    )
    epsilons = sorted({r.epsilon for r in remedies})
    limits = [confidence.accuracy_bound(e, remedies[0].delta) for e in epsilons]
    left, right = [e / 1.14 for e in epsilons], [e * 1.14 for e in epsilons]
    figure.axes.plot(epsilons, limits, color="black", linewidth=0.6, alpha=0.5)
    figure.axes.hlines(limits, left, right, color="black", linewidth=1.8, label="bound for any attacker")
    names = list(dict.fromkeys(r.target for r in remedies))
    for i, name in enumerate(names):
        own = [r for r in remedies if r.target == name]
        shift = 1.05 ** (i - (len(names) - 1) / 2)  # side by side, not on top of each other
        error = [[r.accuracy - r.interval[0] for r in own], [r.interval[1] - r.accuracy for r in own]]
        figure.axes.errorbar(
            [r.epsilon * shift for r in own],
            [r.accuracy for r in own],
            yerr=error,
            fmt=MARKERS[i],
            markersize=5,
            capsize=2,
            color=COLOURS[i],
            label=name,
        )
    for result in naive:
        figure.axes.plot([result.epsilon], [result.accuracy], "x", color="#B00020", markersize=9, clip_on=False)
    figure.axes.plot([], [], "x", color="#B00020", markersize=9, label="labels from the data")
    figure.axes.set(xscale="log", xlabel="epsilon", ylabel="accuracy of the attacker")
    figure.axes.set_xticks([0.1, 0.25, 0.5, 1, 2, 4, 8], ["0.1", "0.25", "0.5", "1", "2", "4", "8"])
    figure.axes.minorticks_off()
    figure.axes.set_ylim(0.45, 1.03)
    figure.axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def accuracy_by_task(series: Mapping[str, Sequence[float]], tasks: Sequence[str]) -> Figure:
    """Draws accuracy on everything seen so far, after each task."""
    figure = Figure(
        "Accuracy after each task",
        "Share of right answers on held-out examples of all tasks learned so far.",
    )
    for i, (name, values) in enumerate(series.items()):
        figure.axes.plot(range(1, len(values) + 1), values, marker=MARKERS[i], color=COLOURS[i], label=name)
    figure.axes.set_xticks(range(1, len(tasks) + 1), tasks)
    figure.axes.set(xlabel="after learning", ylabel="accuracy on all tasks so far")
    figure.axes.set_ylim(0, 1)
    figure.axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def labels_by_size(sizes: Sequence[int], released: Sequence[bool], probabilities: Sequence[float]) -> Figure:
    """Draws which labels were released against their size. For public data only: sizes are sensitive."""
    figure = Figure(
        "Which labels were released?",
        "Each point is a label at the number of its examples; the line is the planned probability of release.",
    )
    order = np.argsort(sizes)
    figure.axes.plot(np.array(sizes)[order], np.array(probabilities)[order], color="black", label="planned probability")
    for kept, colour, marker, name in ((True, COLOURS[2], "o", "released"), (False, COLOURS[1], "x", "dropped")):
        at = [size for size, shown in zip(sizes, released, strict=True) if shown == kept]
        figure.axes.plot(at, [float(kept)] * len(at), marker, color=colour, alpha=0.6, label=f"{name}: {len(at)}")
    figure.axes.set(xlabel="examples of the label", ylabel="released (1) or dropped (0)")
    figure.axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def examples_by_task(table: npt.NDArray[np.int64]) -> Figure:
    """Draws how many examples each class has in each task of a stream; for public data only."""
    figure = Figure("Examples per class and task", "Each row is a class, each column a task; darker is more examples.")
    shown = figure.axes.imshow(table, aspect="auto", cmap="viridis_r", interpolation="nearest")
    figure.axes.figure.colorbar(shown, label="examples")
    figure.axes.grid(False)
    figure.axes.set(xlabel="task", ylabel="class")
    figure.axes.set_xticks(range(table.shape[1]), [str(t + 1) for t in range(table.shape[1])])
    return figure
