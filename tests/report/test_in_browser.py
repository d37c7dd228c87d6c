"""The pages in a real browser: what a reader sees, clicks and prints."""

import json

import pytest

from reticent.report import figures, page, picture
from tests.report import made_up

COUNT_SHOWN = "[...document.querySelectorAll('figure.plot')].filter(f => f.checkVisibility()).length"
FIRST = "const figure = document.querySelector('figure.plot'); const key = figure.querySelector('button');"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1100, 400])
def test_page_renders_without_console_messages(tab, results, dark, width):
    tab.screen(width=width, dark=dark)
    tab.open(results)
    assert tab.said == []
    assert tab.requested == [results.as_uri()]
    assert tab.run("document.documentElement.scrollWidth") <= width
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(22, 24, 29)" if dark else "rgb(255, 255, 255)")
    assert len(tab.shot()) > 10_000


def test_hostile_text_stays_text(tab, results):
    tab.open(results)
    assert tab.run("document.title").startswith("Results <script>")
    assert tab.run("document.scripts.length") == 1


def test_content_security_policy_blocks_scripts_and_requests(tab, tmp_path):
    """Were escaping to fail, the browser would still run and fetch nothing."""
    file = tmp_path / "bad.html"
    bad = "<script>document.title = 'won'</script><img src='https://example.org/x.png' onerror='document.title = 1'>"
    file.write_text(page.page("Safe", [bad], interactive=True), encoding="utf-8")
    tab.open(file)
    assert tab.run("document.title") == "Safe"
    assert any("Content Security Policy" in text for text in tab.said)


@pytest.mark.parametrize("dark", [False, True])
def test_a_plot_alone_on_its_page_follows_the_colour_scheme(tab, tmp_path, dark):
    file = tmp_path / "attack.html"
    picture.save(file, "Attack", figures.attack_figures(made_up.attack())[:1], "How to read it.")
    tab.screen(dark=dark, width=900)
    tab.open(file)
    assert tab.said == []
    assert tab.requested == [file.as_uri()]
    assert tab.run("document.documentElement.scrollWidth") <= 900
    first = "getComputedStyle(document.querySelector('svg.chart .s0 .line')).stroke"
    assert tab.run(first) == ("rgb(77, 177, 238)" if dark else "rgb(0, 114, 178)")


def test_clicking_a_legend_entry_hides_its_series(tab, results):
    tab.open(results)
    state = f"(() => {{ {FIRST} return [key.getAttribute('aria-pressed'), key.disabled, \
[...figure.querySelectorAll('svg.chart g')].map(g => getComputedStyle(g).display !== 'none')]; }})()"
    pressed, disabled, shown = tab.run(state)
    assert (pressed, disabled) == ("true", False)
    assert all(shown)
    tab.run(f"{{ {FIRST} key.click() }}")
    pressed, _, after = tab.run(state)
    assert pressed == "false"
    assert after == [False, *shown[1:]]
    tab.run(f"{{ {FIRST} key.focus() }}")
    tab.key(" ", 32, " ")  # and back with the keyboard
    assert tab.run(state) == ["true", False, shown]


def test_every_series_has_its_own_button(tab, results):
    tab.open(results)
    pairs = tab.run(
        "[...document.querySelectorAll('figure.plot')].map(f => [[...f.querySelectorAll('button')].map(b => "
        "b.dataset.key), [...f.querySelectorAll('svg.chart g')].map(g => g.dataset.series)])"
    )
    for keys, series in pairs:
        assert keys == series
        assert len(set(keys)) == len(keys) <= 7


def test_filters_show_one_data_set(tab, results):
    tab.open(results)
    everything = tab.run(COUNT_SHOWN)
    tab.run(
        "{ const form = document.querySelector('.filters'); form.elements.data.value = 'icd10cm';"
        "form.dispatchEvent(new Event('change')); }"
    )
    assert 0 < tab.run(COUNT_SHOWN) < everything
    titles = tab.run(
        "[...document.querySelectorAll('figure[data-data]')].filter(f => f.checkVisibility()).map(f => f.dataset.data)"
    )
    assert set(titles) == {"icd10cm"}
    assert not tab.run("document.getElementById('accuracy-against-the-blurry-ratio').checkVisibility()")
    assert "plots shown" in tab.run("document.querySelector('.filters output').value")
    tab.run(
        "{ const form = document.querySelector('.filters'); form.elements.data.value = '';"
        "form.dispatchEvent(new Event('change')); }"
    )
    assert tab.run(COUNT_SHOWN) == everything


def test_pointer_shows_the_value(tab, results):
    tab.open(results)
    x, y = tab.run(
        "(() => { const point = document.querySelector('svg.chart .point'); point.scrollIntoView({block: 'center'});"
        "const box = point.getBoundingClientRect(); return [box.x + 5, box.y + 5]; })()"
    )
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert "after task 1: " in tab.run("document.querySelector('.tip').textContent")
    assert tab.run("document.querySelector('.tip').checkVisibility()")
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    assert not tab.run("document.querySelector('.tip').checkVisibility()")


def test_menu_picks_a_matrix(tab, results):
    tab.open(results)
    shown = "[...document.querySelectorAll('#matrices details')].filter(d => d.checkVisibility()).length"
    assert tab.run(shown) == 1
    tab.run(
        "{ const menu = document.querySelector('[data-pick] select'); menu.value = '3';"
        "menu.dispatchEvent(new Event('change')); }"
    )
    assert tab.run(shown) == 1
    assert tab.run("document.querySelectorAll('#matrices details')[3].open")


def test_everything_is_there_without_javascript(tab, results):
    tab.scripts(allowed=False)
    tab.open(results)
    folded = tab.run("document.querySelectorAll('details:not([open]) figure.plot').length")  # they open without it
    assert tab.run(COUNT_SHOWN) == tab.run("document.querySelectorAll('figure.plot').length") - folded > 20
    assert tab.run("[...document.querySelectorAll('button')].every(b => b.disabled)")
    assert not tab.run("document.querySelector('.filters').checkVisibility()")
    assert tab.run("[...document.querySelectorAll('#matrices details')].every(d => d.checkVisibility())")
    assert tab.run("document.querySelectorAll('svg.chart .point > title').length") > 100


def test_prints_in_light_colours_without_controls(tab, results):
    tab.screen(dark=True, media="print", width=800)
    tab.open(results)
    assert not tab.run("document.querySelector('.filters').checkVisibility()")
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("dark", [False, True])
def test_colours_have_contrast(tab, results, dark):
    """4.5 for text, also on the heat map; 3 for lines and markers."""
    tab.screen(dark=dark)
    tab.open(results)
    names = [
        "--paper",
        "--ink",
        "--muted",
        "--accent",
        "--warn",
        "--good",
        "--soft",
        "--heat",
        *(f"--s{i}" for i in range(7)),
    ]
    read = f"{json.dumps(names)}.map(n => getComputedStyle(document.documentElement).getPropertyValue(n).trim())"
    colour = dict(zip(names, tab.run(read), strict=True))
    for text in ("--ink", "--muted", "--accent", "--warn", "--good"):
        assert _contrast(colour[text], colour["--paper"]) >= 4.5
    assert _contrast(colour["--ink"], colour["--soft"]) >= 4.5  # the takeaway
    assert _contrast(colour["--ink"], colour["--heat"]) >= 4.5
    for i in range(7):
        assert _contrast(colour[f"--s{i}"], colour["--paper"]) >= 3


def _contrast(one: str, other: str) -> float:
    """WCAG 2, from #rgb or #rrggbb."""

    def light(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)
