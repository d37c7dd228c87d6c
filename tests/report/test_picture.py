import io
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from reticent import errors
from reticent.report import axes, figures, picture, svg
from tests.report import made_up

PLOTS = figures.attack_figures(made_up.attack())


def pixels(file: bytes) -> np.ndarray:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    return np.asarray(image.open(io.BytesIO(file)).convert("RGB"))


def test_the_document_is_self_contained():
    drawn = picture.standalone("Title & <more>", PLOTS, "Some words. " * 40)
    root = ElementTree.fromstring(drawn)  # noqa: S314 (we wrote it)
    assert "var(" not in drawn
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Title & <more>" in texts
    for plot in PLOTS:
        assert {plot.caption, plot.x.label, plot.y.label, *(s.name for s in plot.series)} <= set(texts)
    assert sum(text.startswith("Some words.") for text in texts if text) >= 2  # broken into lines


@pytest.mark.parametrize("dark", [False, True])
def test_an_svg_picture_follows_the_colour_scheme(tab, tmp_path, dark):
    file = tmp_path / "picture.svg"
    file.write_text(picture.standalone("Title", PLOTS[:1], "Words"), encoding="utf-8")
    tab.screen(dark=dark)
    tab.open(file)
    assert tab.said == []
    of = "getComputedStyle(document.querySelector('{}'))"
    assert tab.run(f"{of.format('.paper')}.fill") == ("rgb(22, 24, 29)" if dark else "rgb(255, 255, 255)")
    assert tab.run(f"{of.format('.s0 .line')}.stroke") == ("rgb(77, 177, 238)" if dark else "rgb(0, 114, 178)")
    assert tab.run(f"{of.format('text')}.fill") == ("rgb(232, 232, 232)" if dark else "rgb(27, 27, 27)")


def test_a_picture_has_text_and_every_colour():
    """The font comes with the package, so there is text where a machine has no fonts."""
    points = [[svg.Point(x=x, y=10 * k + x) for x in (1, 9)] for k in range(7)]
    series = [svg.Series(name="", style=k, points=points[k]) for k in range(7)]
    x, y = axes.linear("after task", [0, 10]), axes.percent("accuracy, %")
    plot = svg.Plot(caption="A plot", series=series, x=x, y=y)
    found = pixels(picture.png(picture.standalone("Title ε", [plot], "Words")))
    seen = {tuple(int(v) for v in colour) for colour in np.unique(found.reshape(-1, 3), axis=0)}
    assert {(0x00, 0x72, 0xB2), (0xC8, 0x52, 0x00), (0x00, 0x8A, 0x63), (0xB0, 0x50, 0x8A)} <= seen
    assert {(0xA6, 0x6F, 0x00), (0x3A, 0x6E, 0xE0), (0x33, 0x33, 0x33), (0xFF, 0xFF, 0xFF)} <= seen
    without = pixels(picture.png(picture.standalone("", [plot], "Words")))
    assert (found[: 38 * picture.ZOOM] < 128).any()  # the title
    assert (without[: 38 * picture.ZOOM] == 255).all()


def test_every_letter_of_a_figure_is_in_the_font():
    fonts = pytest.importorskip("PIL.ImageFont", reason="pillow is not installed")
    font = fonts.truetype(picture.FONT_FILE, 20)
    missing = bytes(font.getmask("\uffff"))
    titles = figures.DROP_TITLE + figures.ATTACK_TITLE
    letters = set(titles + figures.DROP_WORDS + figures.ATTACK_WORDS + "ε=±×·−≤≥%0123456789eE+-.,") - {" "}
    assert [letter for letter in letters if bytes(font.getmask(letter)) == missing] == []


def test_pictures_are_the_same_each_time(tmp_path):
    for name in ("one.png", "two.png"):
        picture.save(tmp_path / name, "Title", PLOTS[:1], "Words")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_without_the_renderer_only_png_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(errors.ReticentError, match=r"pip install 'reticent\[plot\]'. Or write an .html file."):
        picture.check_path(tmp_path / "plot.png")
    picture.save(picture.check_path(tmp_path / "plot.html"), "Title", PLOTS, "Words")
    assert (tmp_path / "plot.html").read_text().count("<figure") == len(PLOTS)
