"""Accuracy to expect before data exists, from curves that were measured on public data sets of similar shape.

`accuracy_curves.json` says how each curve was made and by which command; `lab/accuracy_curves.py` makes it. Between the
measured class sizes and signals (class size over noise) logarithms are interpolated; outside, the nearest is taken.
"""

import dataclasses
import functools
import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from reticent import errors
from reticent.privacy import planning

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""What a curve is shown for, beside the epsilon in question."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Measured accuracy with public labels on one data set; the fields are those of the file.

    Args:
        data: Name of the data set.
        labels: How many labels it had.
        sizes: Class sizes, rising.
        signals: Class size over noise, rising.
        accuracy: For each size and signal.

    Example:
        >>> sizes, signals = (10.0, 100.0), (1.0, 100.0)
        >>> curve = Curve(data="toy", labels=2, sizes=sizes, signals=signals, accuracy=((0.0, 0.5), (0.0, 1.0)))
        >>> curve.at(100, 10.0), curve.at(1000, 1e-9)
        (0.5, 1.0)
    """

    data: str
    labels: int
    sizes: tuple[float, ...]
    signals: tuple[float, ...]
    accuracy: tuple[tuple[float, ...], ...]

    def json(self) -> dict[str, Any]:
        """Returns the curve as plain JSON values."""
        return dataclasses.asdict(self)

    def at(self, size: float, noise: float) -> float:
        """Returns the accuracy of classes of a size whose sums carry this noise."""
        i, a = _between(self.sizes, size)
        j, b = _between(self.signals, size / noise)
        low, high = ((1 - b) * row[j] + b * row[j + 1] for row in self.accuracy[i : i + 2])
        return (1 - a) * low + a * high


@dataclass(frozen=True)
class Expected:
    """What a budget may give.

    Args:
        epsilon: Of the budget.
        release_probability: Of a class of the size in question, with released labels.
        public: Accuracy with public labels.
        released: Accuracy with released labels, where a label that is not released is never right.
    """

    epsilon: float
    release_probability: float
    public: float
    released: float

    def json(self) -> dict[str, Any]:
        """Returns the guess as plain JSON values."""
        return dataclasses.asdict(self)


def names() -> tuple[str, ...]:
    """Returns the data sets that there are curves of.

    >>> "clinc150" in names()
    True
    """
    return tuple(curve.data for curve in _curves())


def like(name: str) -> Curve:
    """Returns the curve of a data set, or refuses a name that there is none of."""
    found = next((curve for curve in _curves() if curve.data == name), None)
    if found is None:
        raise errors.InvalidValue(
            f"Expected --like with one of {', '.join(names())}, got {name}. For a sample of your own that is public: "
            "reticent compare."
        )
    return found


def expected(plan: planning.Plan, curve: Curve) -> Expected:
    """Returns the accuracy to expect of a plan's first class size. A guess from another data set, no promise.

    Args:
        plan: Of one class size or more.
        curve: Of a data set of similar shape.

    Example:
        >>> from reticent import Budget
        >>> chosen = planning.plan(Budget(epsilon=1.0, delta=1e-5), class_sizes=[100])
        >>> guess = expected(chosen, like("clinc150"))
        >>> 0.5 < guess.released < guess.public < 1
        True
    """
    first = plan.classes[0]
    known = 0.0 if plan.sigma is None else curve.at(first.size, plan.sigma)
    public = curve.at(first.size, plan.sigma_without_labels)
    return Expected(plan.epsilon, first.release_probability, public, first.release_probability * known)


def _between(grid: Sequence[float], value: float) -> tuple[int, float]:
    """Returns the place of a value between two neighbours of a rising grid, by logarithms; at an end, the end."""
    if value <= grid[0]:
        return 0, 0.0
    i = min(bisect_right(grid, value), len(grid) - 1) - 1
    return i, min(1.0, math.log(value / grid[i]) / math.log(grid[i + 1] / grid[i]))


@functools.lru_cache(maxsize=1)
def _curves() -> tuple[Curve, ...]:
    text = (resources.files("reticent.privacy") / "accuracy_curves.json").read_text(encoding="utf-8")
    return tuple(
        Curve(
            data=stored["data"],
            labels=stored["labels"],
            sizes=tuple(stored["sizes"]),
            signals=tuple(stored["signals"]),
            accuracy=tuple(map(tuple, stored["accuracy"])),
        )
        for stored in json.loads(text)["curves"]
    )
