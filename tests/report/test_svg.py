import itertools
import re
from dataclasses import replace
from typing import Any

import pytest

from reticent.report import axes, svg

X, Y = axes.linear("after task", [0, 10]), axes.percent("accuracy, %")


def plot(*series: svg.Series, bars: bool = False, guides: str = "") -> svg.Plot:
    return svg.Plot(caption="A plot", series=series, x=X, y=Y, bars=bars, guides=guides)


def line(style: int, **settings: Any) -> svg.Series:
    points = [svg.Point(x=x, y=50, at=f"task {x}", value="50") for x in (1, 5, 9)]
    return replace(svg.Series(name=f"line {style}", style=style, points=points), **settings)


def test_a_plot_holds_at_most_seven_series():
    with pytest.raises(ValueError, match="at most 7"):
        plot(*(line(k) for k in range(8)))


def test_lines_are_solid_beside_dotted_guides():
    assert svg.drawing(plot(line(0), line(1))).count("stroke-dasharray") == 1
    assert "stroke-dasharray" not in svg.drawing(plot(line(0, guide=[(1, 40), (9, 60)]), line(1)))


def test_the_legend_explains_the_guides():
    shown = svg.figure(plot(line(0, guide=[(1, 40), (9, 60)]), guides="as <planned>"))
    assert re.search(r"<span><svg .*?class=\"guide\".*?</svg>as &lt;planned&gt;</span>", shown)
    assert "<span>" not in svg.figure(plot(line(0)))


@pytest.mark.parametrize("high", [100.0, 99.998, 1e-7, 1_000_000.0])
def test_marks_stay_clear_of_the_name_of_the_axis(high):
    """The name, turned, ends 16 pixels from the left; marks end 6 pixels before the axis."""
    y = axes.linear("labels known", [high * 0.99998, high])
    drawn = svg.drawing(replace(plot(line(0)), y=y))
    ends = {float(x) for x in re.findall(r'<text x="([\d.]+)" y="[-\d.]+" text-anchor="end">', drawn)}
    (end,) = ends
    longest = max(len(text) for _, text in y.ticks)
    assert end - svg.DIGIT * longest >= 16


def test_a_long_line_is_marked_at_equal_distances():
    points = [svg.Point(x=10 * (k / 999) ** 3, y=50, value="50") for k in range(1000)]
    found = [p.x for p in svg.Series(name="long", points=points).marked]
    assert 10 <= len(found) <= svg.MOST_MARKS
    assert max(b - a for a, b in itertools.pairwise(found)) < 2 * 10 / svg.MOST_MARKS
    assert len(svg.Series(name="no line", points=points, joined=False).marked) == 1000


def test_no_line_goes_through_a_place_that_was_not_measured():
    def of(apart: int) -> str:
        points = [svg.Point(x=x, y=50, apart=i == apart) for i, x in enumerate((1, 3, 5, 7))]
        (found,) = re.findall(r'class="line"[^>]*d="([^"]*)"', svg.drawing(plot(line(0, points=points))))
        return str(found)

    assert [(of(apart).count("M"), of(apart).count("L")) for apart in (0, 1, 2)] == [(1, 3), (1, 2), (2, 2)]


def test_bars_stand_beside_each_other_and_bounds_stay_in_place():
    limits = [svg.Point(x=5, y=50, low=40, high=60)]
    series = [line(0, points=limits), line(1, points=limits), line(6, points=[svg.Point(x=5, y=70)])]
    drawn = svg.drawing(plot(*series, bars=True))
    first, second, bound = (float(x) for x in re.findall(r'point" transform="translate\(([\d.]+) ', drawn))
    assert first < bound < second
    assert bound == pytest.approx((first + second) / 2, abs=0.2)
