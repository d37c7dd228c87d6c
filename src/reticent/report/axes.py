"""Axes of plots: a name, two ends, and marks at round or given places."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

ROOM = 302  # pixels along the horizontal axis of a small plot


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A linear axis: its name, its ends, and where it is marked."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def __post_init__(self) -> None:
        if not self.label:
            raise ValueError("Expected a name for the axis.")


def percent(label: str) -> Axis:
    """Returns an axis from 0 to 100, so that shares and accuracies of all plots can be compared.

    >>> [text for _, text in percent("accuracy, %").ticks]
    ['0', '20', '40', '60', '80', '100']
    """
    return Axis(label=label, low=0.0, high=100.0, ticks=[(float(mark), str(mark)) for mark in range(0, 101, 20)])


def linear(label: str, values: Iterable[float]) -> Axis:
    """Returns an axis with round marks around the values.

    >>> [text for _, text in linear("forgetting, points", [61, 88]).ticks]
    ['60', '65', '70', '75', '80', '85', '90']
    """
    found = list(values)
    low, high = min(found), max(found)
    if high - low < 1e-9:
        low, high = low - 1, high + 1
    rough = (high - low) / 6
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = [(k * step, f"{k * step:g}") for k in range(first, last + 1)]
    return Axis(label=label, low=first * step, high=last * step, ticks=ticks)


def marked(label: str, ticks: Mapping[float, str]) -> Axis:
    """Returns an axis with a mark at each of the given places, less where they would touch.

    >>> [text for _, text in marked("share", {0.0: "0", 0.1: "0.1", 90.0: "90"}).ticks]
    ['0.1', '90']
    """
    places = sorted(ticks)
    low, high = places[0], places[-1]
    pad = (high - low) * 0.04 or 1.0
    shown: list[tuple[float, str]] = []
    unit = (high - low + 2 * pad) / ROOM
    for place in reversed(places):  # the last mark is always there
        gap = (3.4 * (len(ticks[place]) + len(shown[-1][1])) + 6) * unit if shown else 0
        if not shown or shown[-1][0] - place >= gap:
            shown.append((place, ticks[place]))
    return Axis(label=label, low=low - pad, high=high + pad, ticks=shown[::-1])


def powers(label: str, values: Iterable[float]) -> Axis:
    """Returns an axis for base-10 logarithms of the values, marked at 1, 2 and 5 times powers of ten.

    >>> [text for _, text in powers("examples", [3, 40]).ticks]
    ['5', '10', '20', '50']
    """
    found = list(values)
    low, high = math.log10(min(found)), math.log10(max(found))
    if high - low < 1e-9:
        low, high = low - 0.3, high + 0.3
    steps = (1, 2, 5) if high - low < 2.5 else (1,)
    marks = [k * 10.0**n for n in range(math.floor(low), math.ceil(high) + 1) for k in steps]
    inside = [(math.log10(mark), f"{mark:g}") for mark in marks if low - 0.15 <= math.log10(mark) <= high + 0.15]
    ends = [place for place, _ in inside]
    return Axis(label=label, low=min([low, *ends]), high=max([high, *ends]), ticks=inside)


def logarithmic(label: str, values: Sequence[float | None]) -> tuple[Callable[[float | None], float], Axis]:
    """Returns where each value goes, and an axis marked at each value; None stands to the right of the largest.

    >>> place, axis = logarithmic("epsilon", [1.0, 10.0, None])
    >>> [place(1.0), place(10.0)], [text for _, text in axis.ticks]
    ([0.0, 1.0], ['1', '10', 'none'])
    """
    logs = [math.log10(value) for value in values if value is not None]
    none = max(logs, default=0.0) + max(0.4, (max(logs, default=0.0) - min(logs, default=0.0)) / 6)

    def place(value: float | None) -> float:
        return none if value is None else math.log10(value)

    return place, marked(label, {place(value): "none" if value is None else f"{value:g}" for value in values})
