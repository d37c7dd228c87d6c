"""Line plots as inline SVG: small, coloured by the page's style, each value readable under the pointer."""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reticent.report import page

WIDTH, HEIGHT = 400, 260
LEFT, RIGHT, TOP, BOTTOM = 48, 14, 10, 42
MOST_SERIES = 7  # as many as there are colours, markers and dashes
MOST_MARKS = 20  # a line with more points carries a marker at some of them
DODGE = 2.5  # pixels between bars that would hide each other

_MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.8L4.6 3.6H-4.6z",
    "M0-5L5 0L0 5L-5 0z",
    "M0 4.8L4.6-3.6H-4.6z",
    "M-1.6-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z",
    "M-4.4-2.2L-2.2-4.4L0-2.2L2.2-4.4L4.4-2.2L2.2 0L4.4 2.2L2.2 4.4L0 2.2L-2.2 4.4L-4.4 2.2L-2.2 0z",
)
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2", "1 2")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value with its limits; place and value in words are what the pointer and the table say."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    at: str = ""
    value: str = ""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points that belong together.

    Args:
        name: What the legend says.
        points: In the order in which a line joins them.
        style: Which of the seven colours, markers and dashes; another one for each series of a plot.
        guide: A thin dotted line beside the points: what was expected.
        joined: Whether a line joins the points.
        best: The place of a point to ring.
    """

    name: str
    points: Sequence[Point] = ()
    style: int = 0
    guide: Sequence[tuple[float, float]] = ()
    joined: bool = True
    best: int | None = None


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A linear axis: its words, its ends, and where it is marked."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]


def linear(label: str, values: Iterable[float], *, least: float = -math.inf, most: float = math.inf) -> Axis:
    """Returns an axis with round marks around the values.

    >>> [text for _, text in linear("accuracy, %", [61, 88], most=100).ticks]
    ['60', '65', '70', '75', '80', '85', '90']
    """
    found = list(values)
    low, high = min(found), max(found)
    if high - low < 1e-9:
        low, high = low - 1, high + 1
    rough = (high - low) / 6
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * 0.999)
    low, high = max(math.floor(low / step) * step, least), min(math.ceil(high / step) * step, most)
    marks = [k * step for k in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]
    return Axis(label=label, low=low, high=high, ticks=[(mark, f"{mark:g}") for mark in marks])


def marked(label: str, ticks: Mapping[float, str]) -> Axis:
    """Returns an axis with a mark at each of the given places, less where they would touch.

    >>> [text for _, text in marked("share", {0.0: "0", 0.1: "0.1", 90.0: "90"}).ticks]
    ['0.1', '90']
    """
    places = sorted(ticks)
    low, high = places[0], places[-1]
    pad = (high - low) * 0.04 or 1.0
    shown: list[tuple[float, str]] = []
    room = (high - low + 2 * pad) / (WIDTH - LEFT - RIGHT)
    for place in reversed(places):  # the last mark is always there
        gap = (3.4 * (len(ticks[place]) + len(shown[-1][1])) + 6) * room if shown else 0
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


def plot(
    caption: str,
    series: Sequence[Series],
    x: Axis,
    y: Axis,
    *,
    bars: bool = False,
    facts: Mapping[str, str] | None = None,
) -> str:
    """Returns a figure: the plot, a legend whose entries are buttons, and the values as a table.

    Args:
        caption: What is shown.
        series: At most seven.
        x: Words and marks of the axis.
        y: The same for the other axis.
        bars: Whether limits are bars at each point instead of a band.
        facts: What filters look at.

    Example:
        >>> curve = Series(name="ours", points=[Point(x=1, y=0.5), Point(x=2, y=0.75)])
        >>> figure = plot("Accuracy", [curve], linear("task", [1, 2]), linear("accuracy", [0, 1]))
        >>> figure.count("<button"), figure.count('class="mark point"')
        (1, 2)
    """
    if len(series) > MOST_SERIES:
        raise ValueError(f"Expected at most {MOST_SERIES} series in one plot, got {len(series)}.")
    frame = _Frame(x, y)
    dodge = [DODGE * (i - (len(series) - 1) / 2) if bars else 0.0 for i in range(len(series))]
    drawn = "".join(_series(s, frame, bars=bars, shift=shift) for s, shift in zip(series, dodge, strict=True))
    words = html.escape(caption)
    names = html.escape(", ".join(s.name for s in series))
    svg = (
        f'<svg class="chart" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'aria-label="{words}: {html.escape(y.label)} against {html.escape(x.label)}. Series: {names}.">'
        f"{_axes(frame)}{drawn}</svg>"
    )
    keys = "".join(_key(s) for s in series)
    return (
        f'<figure class="plot"{page.attributes(facts)}><figcaption>{words}</figcaption>{svg}'
        f'<div class="keys">{keys}</div>{_values(series, y)}</figure>'
    )


@dataclass(frozen=True)
class _Frame:
    """From values to pixels."""

    x: Axis
    y: Axis

    def across(self, value: float) -> float:
        return LEFT + (value - self.x.low) / (self.x.high - self.x.low) * (WIDTH - LEFT - RIGHT)

    def up(self, value: float) -> float:
        share = (value - self.y.low) / (self.y.high - self.y.low)
        return HEIGHT - BOTTOM - min(max(share, 0.0), 1.0) * (HEIGHT - TOP - BOTTOM)

    def path(self, points: Iterable[tuple[float, float]], shift: float = 0.0) -> str:
        return "M" + "L".join(f"{self.across(a) + shift:.1f} {self.up(b):.1f}" for a, b in points)


def _axes(frame: _Frame) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for place, text in frame.y.ticks:
        at = frame.up(place)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{html.escape(text)}</text>')
    for place, text in frame.x.ticks:
        at = frame.across(place)
        parts.append(f'<path class="axis" d="M{at:.1f} {bottom}v4"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 17}" text-anchor="middle">{html.escape(text)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {bottom}H{right}"/>')
    middle = (LEFT + right) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{html.escape(frame.x.label)}</text>')
    turned = f'transform="translate(12 {(TOP + bottom) / 2}) rotate(-90)"'
    parts.append(f'<text {turned} text-anchor="middle">{html.escape(frame.y.label)}</text>')
    return "".join(parts)


def _series(series: Series, frame: _Frame, *, bars: bool, shift: float) -> str:
    parts, points = [], series.points
    limits = [(p.x, p.low, p.high) for p in points if p.low is not None and p.high is not None]
    if bars or len(limits) == 1:
        for across, low, high in limits:
            run = f"M{frame.across(across) + shift:.1f} {frame.up(low):.1f}V{frame.up(high):.1f}"
            parts.append(f'<path class="bar" d="{run}"/>')
    elif limits:
        outline = [(x, high) for x, _, high in limits] + [(x, low) for x, low, _ in reversed(limits)]
        parts.append(f'<path class="band" d="{frame.path(outline)}z"/>')
    if series.guide:
        parts.append(f'<path class="guide" d="{frame.path(series.guide)}"/>')
    if series.joined and len(points) > 1:
        parts.append(f'<path class="line"{_dash(series)} d="{frame.path([(p.x, p.y) for p in points], shift)}"/>')
    every = math.ceil(len(points) / MOST_MARKS)
    for i, p in enumerate(points):
        at = f"translate({frame.across(p.x) + shift:.1f} {frame.up(p.y):.1f})"
        if i == series.best:
            parts.append(f'<circle class="best" transform="{at}" r="8.5"/>')
        if i % every == 0:
            title = f"<title>{html.escape(f'{series.name}, {p.at}: {p.value}')}</title>" if p.value else ""
            parts.append(f'<path class="mark point" transform="{at}" d="{_MARKS[series.style]}">{title}</path>')
    return f'<g class="s{series.style}" data-series="{series.style}">{"".join(parts)}</g>'


def _key(series: Series) -> str:
    line = f'<path class="line"{_dash(series)} d="M0 7H34"/>' if series.joined and series.points else ""
    guide = '<path class="guide" d="M0 7H34"/>' if series.guide and not line else ""
    mark = f'<path class="mark" transform="translate(17 7)" d="{_MARKS[series.style]}"/>' if series.points else ""
    swatch = f'<svg class="s{series.style}" viewBox="0 0 34 14" aria-hidden="true">{line}{guide}{mark}</svg>'
    return (
        f'<button type="button" disabled aria-pressed="true" data-key="{series.style}">{swatch}'
        f"{html.escape(series.name)}</button>"
    )


def _values(series: Sequence[Series], y: Axis) -> str:
    rows = [(s.name, p.at, p.value) for s in series for p in s.points if p.value]
    return page.details("Values", page.table(["series", "at", y.label], rows)) if rows else ""


def _dash(series: Series) -> str:
    dash = _DASHES[series.style]
    return f' stroke-dasharray="{dash}"' if dash else ""
