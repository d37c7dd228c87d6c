"""Line plots as inline SVG: small, coloured by the page's style, each value readable under the pointer."""

import html
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reticent.report import page
from reticent.report.axes import ROOM, Axis

LEFT, RIGHT, TOP, BOTTOM = 48, 14, 10, 42
SMALL = LEFT + ROOM + RIGHT, 250  # on a page: its letters can be read on a phone
LARGE = 720, 400  # in a picture
DIGIT = 7.2  # pixels: the width of a letter of a mark, at most on average
MOST_SERIES = 7  # as many as there are colours, markers and dashes
MOST_MARKS = 20  # a line with more points carries a marker at some of them
DODGE = 1 / 160  # of the width: how far apart bars stand that would hide each other

_MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.8L4.6 3.6H-4.6z",
    "M0-5L5 0L0 5L-5 0z",
    "M0 4.8L4.6-3.6H-4.6z",
    "M-1.6-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z",
    "M-4.4-2.2L-2.2-4.4L0-2.2L2.2-4.4L4.4-2.2L2.2 0L4.4 2.2L2.2 4.4L0 2.2L-2.2 4.4L-4.4 2.2L-2.2 0z",
)
GUIDE = '<path class="guide" d="M0 7H34"/>'  # in a legend
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2", "1 2")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value with its limits; place and value in words are what the pointer and the table say.

    `apart` says that no line joins it to the point before: a place between them was not measured.
    """

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    at: str = ""
    value: str = ""
    apart: bool = False


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points that belong together.

    Args:
        name: What the legend says.
        points: In the order in which a line joins them.
        style: Which of the seven colours, markers and dashes; another one for each series of a plot.
        guide: A thin dotted line beside the points: a bound, or what was planned.
        joined: Whether a line joins the points.
        best: The place of a point to ring.
    """

    name: str
    points: Sequence[Point] = ()
    style: int = 0
    guide: Sequence[tuple[float, float]] = ()
    joined: bool = True
    best: int | None = None

    @property
    def marked(self) -> Sequence[Point]:
        """The points that carry a marker: all, or where a line has many, some at about equal distances."""
        if not self.joined or len(self.points) <= MOST_MARKS:
            return self.points
        gap = (self.points[-1].x - self.points[0].x) / (MOST_MARKS - 1)
        kept = [self.points[0]]
        for point in self.points:
            if point.x - kept[-1].x >= gap * 0.999:
                kept.append(point)
        return kept


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Everything that a plot shows.

    Args:
        caption: What is shown.
        series: At most seven.
        x: Name and marks of the horizontal axis.
        y: The same for the vertical axis.
        bars: Whether limits are bars at each point instead of a band.
        guides: What the legend says of the dotted lines of all series; "" for nothing.
        facts: What filters look at.
        size: Width and height in pixels.
    """

    caption: str
    series: Sequence[Series]
    x: Axis
    y: Axis
    bars: bool = False
    guides: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    size: tuple[int, int] = SMALL

    def __post_init__(self) -> None:
        if len(self.series) > MOST_SERIES:
            raise ValueError(f"Expected at most {MOST_SERIES} series in one plot, got {len(self.series)}.")

    def dash(self, series: Series) -> str:
        """Returns the dash of a series as an attribute; lines are solid where dotted guides stand beside them."""
        dash = "" if any(s.guide for s in self.series) else _DASHES[series.style]
        return f' stroke-dasharray="{dash}"' if dash else ""

    @property
    def left(self) -> float:
        """Where the horizontal axis begins: right of the marks, which are right of the name of the vertical axis."""
        return max(LEFT, 26 + DIGIT * max((len(text) for _, text in self.y.ticks), default=0))

    def across(self, value: float) -> float:
        """Returns the pixels of a value from the left."""
        return self.left + (value - self.x.low) / (self.x.high - self.x.low) * (self.size[0] - self.left - RIGHT)

    def down(self, value: float) -> float:
        """Returns the pixels of a value from the top."""
        share = (value - self.y.low) / (self.y.high - self.y.low)
        return self.size[1] - BOTTOM - min(max(share, 0.0), 1.0) * (self.size[1] - TOP - BOTTOM)


def figure(plot: Plot) -> str:
    """Returns a plot as HTML: the drawing, a legend whose entries are buttons, and the values as a table.

    >>> from reticent.report import axes
    >>> curve = Series(name="ours", points=[Point(x=1, y=50), Point(x=2, y=75)])
    >>> x, y = axes.linear("after task", [1, 2]), axes.percent("accuracy, %")
    >>> made = figure(Plot(caption="Ours", series=[curve], x=x, y=y))
    >>> made.count("<button"), made.count('class="mark point"')
    (1, 2)
    """
    words = html.escape(plot.caption)
    names = html.escape(", ".join(s.name for s in plot.series))
    width, height = plot.size
    drawn = (
        f'<svg class="chart" role="img" viewBox="0 0 {width} {height}" '
        f'aria-label="{words}: {html.escape(plot.y.label)} against {html.escape(plot.x.label)}. Series: {names}.">'
        f"{drawing(plot)}</svg>"
    )
    keys = "".join(_key(plot, s) for s in plot.series)
    if plot.guides:
        keys += f"<span>{_swatch_svg('', GUIDE)}{html.escape(plot.guides)}</span>"
    return (
        f'<figure class="plot"{page.attributes(plot.facts)}><figcaption>{words}</figcaption>{drawn}'
        f'<div class="keys">{keys}</div>{_values(plot)}</figure>'
    )


def grid(plots: Iterable[Plot]) -> str:
    """Returns plots as HTML, side by side."""
    return f'<div class="plots">{"".join(map(figure, plots))}</div>'


def drawing(plot: Plot) -> str:
    """Returns what is inside the SVG element: the axes and all series."""
    limited = [s for s in plot.series if any(p.low is not None for p in s.points)] if plot.bars else []
    step, middle = DODGE * plot.size[0], (len(limited) - 1) / 2
    shifts = {s.style: step * (i - middle) for i, s in enumerate(limited)}
    return _axes(plot) + "".join(_series(plot, s, shifts.get(s.style, 0.0)) for s in plot.series)


def swatch(plot: Plot, series: Series) -> str:
    """Returns the sample of a series that the legend shows, 34 by 14 pixels."""
    line = f'<path class="line"{plot.dash(series)} d="M0 7H34"/>' if series.joined and series.points else ""
    guide = GUIDE if series.guide and not line else ""
    mark = f'<path class="mark" transform="translate(17 7)" d="{_MARKS[series.style]}"/>' if series.points else ""
    return line + guide + mark


def _axes(plot: Plot) -> str:
    bottom, left, right = plot.size[1] - BOTTOM, f"{plot.left:g}", plot.size[0] - RIGHT
    parts = []
    for place, text in plot.y.ticks:
        at = plot.down(place)
        parts.append(f'<path class="grid" d="M{left} {at:.1f}H{right}"/>')
        parts.append(f'<text x="{plot.left - 6:g}" y="{at + 4:.1f}" text-anchor="end">{html.escape(text)}</text>')
    for place, text in plot.x.ticks:
        at = plot.across(place)
        parts.append(f'<path class="axis" d="M{at:.1f} {bottom}v4"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 17}" text-anchor="middle">{html.escape(text)}</text>')
    parts.append(f'<path class="axis" d="M{left} {bottom}H{right}"/>')
    middle = (plot.left + right) / 2
    parts.append(f'<text x="{middle:g}" y="{bottom + 36}" text-anchor="middle">{html.escape(plot.x.label)}</text>')
    turned = f'transform="translate(12 {(TOP + bottom) / 2}) rotate(-90)"'
    parts.append(f'<text {turned} text-anchor="middle">{html.escape(plot.y.label)}</text>')
    return "".join(parts)


def _series(plot: Plot, series: Series, shift: float) -> str:
    parts, points = [], series.points
    limits = [(p.x, p.low, p.high) for p in points if p.low is not None and p.high is not None]
    if plot.bars or len(limits) == 1:
        for x, low, high in limits:
            bar = f"M{plot.across(x) + shift:.1f} {plot.down(low):.1f}V{plot.down(high):.1f}"
            parts.append(f'<path class="bar" d="{bar}"/>')
    elif limits:
        outline = [(x, high) for x, _, high in limits] + [(x, low) for x, low, _ in reversed(limits)]
        parts.append(f'<path class="band" d="{_path(plot, outline)}z"/>')
    if series.guide:
        parts.append(f'<path class="guide" d="{_path(plot, series.guide)}"/>')
    if series.joined and len(points) > 1:
        starts = [0, *(i for i, p in enumerate(points) if p.apart and i), len(points)]
        pieces = [points[start:end] for start, end in itertools.pairwise(starts)]
        line = "".join(_path(plot, [(p.x, p.y) for p in piece], shift) for piece in pieces if len(piece) > 1)
        parts.append(f'<path class="line"{plot.dash(series)} d="{line}"/>')
    if series.best is not None:
        parts.append(f'<circle class="best" transform="{_at(plot, points[series.best], shift)}" r="8.5"/>')
    for p in series.marked:
        title = f"<title>{html.escape(f'{series.name}, {p.at}: {p.value}')}</title>" if p.value else ""
        shape = f'transform="{_at(plot, p, shift)}" d="{_MARKS[series.style]}"'
        parts.append(f'<path class="mark point" {shape}>{title}</path>')
    return f'<g class="s{series.style}" data-series="{series.style}">{"".join(parts)}</g>'


def _path(plot: Plot, points: Iterable[tuple[float, float]], shift: float = 0.0) -> str:
    return "M" + "L".join(f"{plot.across(x) + shift:.1f} {plot.down(y):.1f}" for x, y in points)


def _at(plot: Plot, point: Point, shift: float) -> str:
    return f"translate({plot.across(point.x) + shift:.1f} {plot.down(point.y):.1f})"


def _key(plot: Plot, series: Series) -> str:
    sample = _swatch_svg(f"s{series.style}", swatch(plot, series))
    return (
        f'<button type="button" disabled aria-pressed="true" data-key="{series.style}">{sample}'
        f"{html.escape(series.name)}</button>"
    )


def _swatch_svg(kind: str, inner: str) -> str:
    return f'<svg class="{kind}" viewBox="0 0 34 14" aria-hidden="true">{inner}</svg>'


def _values(plot: Plot) -> str:
    rows = [(s.name, p.at, p.value) for s in plot.series for p in s.marked if p.value]
    return page.details("Values", page.table(["series", "at", plot.y.label], rows)) if rows else ""
