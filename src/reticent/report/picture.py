"""Plots as a file: a PNG picture in light colours, an SVG picture or a self-contained HTML page in the reader's."""

import html
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from reticent import errors
from reticent.report import page, svg

ENDINGS = (".png", ".html")
ZOOM = 2  # pixels of the picture for one of the drawing
FONT = "DejaVu Sans"
FONT_FILE = Path(__file__).with_name("DejaVuSans-part.ttf")  # Latin and Greek letters: a bare machine has no fonts
LETTER = 0.6  # of the font's size: the width of a letter, on average
MARGIN = 16
_PAPER = ".paper { fill: var(--paper); }\n"


def check_path(path: Path) -> Path:
    """Refuses a file that cannot be written, before anything is computed."""
    if path.suffix not in ENDINGS:
        raise errors.InvalidValue(f"Expected a plot file that ends in .png or .html, got {path.name}.")
    if not path.absolute().parent.is_dir():
        raise errors.InvalidValue(f"Expected an existing folder for the plot, got {path.parent}.")
    if path.suffix == ".png":
        _renderer()
    return path


def save(path: Path, title: str, plots: Sequence[svg.Plot], words: str) -> None:
    """Writes plots below each other as .png or .html, after the file's ending.

    Args:
        path: A file that `check_path` has let through.
        title: Plain text.
        plots: One or more.
        words: How to read them, in plain text.
    """
    try:
        if path.suffix == ".png":
            large = [replace(plot, size=svg.LARGE) for plot in plots]
            path.write_bytes(png(standalone(title, large, words)))
        else:
            text = page.page(title, [page.paragraph(words), svg.grid(plots)])
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise errors.InvalidValue(f"Cannot write {path}: {error.strerror}.") from error


def standalone(title: str, plots: Sequence[svg.Plot], words: str) -> str:
    """Returns plots as an SVG document of its own: in light colours, or in dark ones where the reader prefers them.

    From top to bottom: the title, each plot with its legend at its right, and the words.
    """
    legends = [_legend(plot) for plot in plots]
    names = [name for legend in legends for *_, name in legend]
    column = MARGIN + max(plot.size[0] for plot in plots)  # where legends begin
    width = column + 42 + _long(max(names, key=len)) + MARGIN
    parts, down = [_text(title, width / 2, 28, "text-anchor: middle; font-size: 16px")], 40
    for plot, legend in zip(plots, legends, strict=True):
        parts.append(_text(plot.caption, MARGIN + plot.left, down + 20))
        parts.append(f'<g transform="translate({MARGIN} {down + 30})">{svg.drawing(plot)}</g>')
        middle = down + 30 + plot.size[1] / 2
        for i, (kind, sample, name) in enumerate(legend):
            at = middle + 20 * (i - len(legend) / 2)
            parts.append(f'<g class="{kind}" transform="translate({column} {at})">{sample}</g>')
            parts.append(_text(name, column + 42, at + 11))
        down += 30 + plot.size[1]
    for line in textwrap.wrap(words, (width - 2 * MARGIN) // _long("x")):
        down += 18
        parts.append(_text(line, MARGIN, down))
    height = down + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><style>{_style()}</style>'
        f'<rect class="paper" width="{width}" height="{height}"/>{"".join(parts)}</svg>'
    )


def _legend(plot: svg.Plot) -> list[tuple[str, str, str]]:
    """Each entry: the class that colours it, its sample, its name."""
    entries = [(f"s{s.style}", svg.swatch(plot, s), s.name) for s in plot.series]
    return [*entries, ("guides", svg.GUIDE, plot.guides)] if plot.guides else entries


def _long(text: str) -> int:
    return math.ceil(12 * LETTER * len(text))


def _text(text: str, x: float, y: float, style: str = "") -> str:
    return f'<text x="{x}" y="{y}" style="{style}">{html.escape(text)}</text>'


def png(drawn: str) -> bytes:
    """Returns an SVG document as a PNG picture; no font of the machine is used, so it is the same everywhere."""
    return _renderer()(
        svg_string=drawn,
        skip_system_fonts=True,
        font_files=[str(FONT_FILE)],
        font_family=FONT,
        sans_serif_family=FONT,
        zoom=ZOOM,
    )


def _renderer() -> Callable[..., bytes]:
    try:
        from resvg_py import svg_to_bytes
    except ImportError as error:
        raise errors.ReticentError(
            "A PNG picture needs resvg_py. Install it with: pip install 'reticent[plot]'. Or write an .html file."
        ) from error
    return svg_to_bytes


def _style() -> str:
    """The page's style of charts, with colours in place of variables, which resvg does not know; nor dark ones."""
    light, dark = page.PAGE_STYLE.split("@media screen and (prefers-color-scheme: dark)")
    return f"{_coloured(light)}@media (prefers-color-scheme: dark) {{\n{_coloured(dark)}}}\n"


def _coloured(style: str) -> str:
    """Returns the style of charts in the colours that the first rule of a page's style gives."""
    colours = dict(re.findall(r"(--\w+): (#\w+);", style.split("}", 1)[0]))
    return re.sub(r"var\((--\w+)\)", lambda found: colours[found[1]], f"{page.CHART_STYLE}{_PAPER}")
