import re
from dataclasses import replace

import pytest

from reticent.report.demo_page import Guess, Learned, Question, Story, demo_page

REFERENCE, OURS = "no privacy (reference)", "released labels, ours"


def game(target: str, *, remedy: bool, accuracy: float) -> dict[str, object]:
    facts = {"target": target, "remedy": remedy, "accuracy": accuracy, "broken": not remedy, "bound": 0.731}
    return {**facts, "interval": [accuracy - 0.04, min(accuracy + 0.04, 1.0)]}


def learned(accuracy: float) -> Learned:
    return Learned(after_each_task=[accuracy + 0.1, accuracy], accuracy=accuracy, forgetting=0.04, labels=7)


@pytest.fixture
def story() -> Story:
    guesses = [Guess("E08-E13", "Diabetes mellitus", 0.66), Guess("N00-N08", "Glomerular diseases", 0.44)]
    return Story(
        epsilon=1.0,
        delta=1e-5,
        chapters=["4", "<b>"],
        methods={OURS: learned(0.56), REFERENCE: learned(0.7)},
        ours=OURS,
        reference=REFERENCE,
        sizes=[(5, False, 0.0), (50, True, 0.9)],
        games=[
            game("labels from the data", remedy=False, accuracy=1.0),
            game("joint-gaussian", remedy=True, accuracy=0.5),
        ],
        questions=[
            Question(sentence="Sugar", block="E08-E13", title="Diabetes mellitus", guesses=guesses),
            Question(sentence="Kidney", block="N00-N08", title="Glomerular diseases", guesses=guesses),
        ],
        right_without_privacy=2,
        statement="Privacy statement <script>",
    )


def test_answers_stand_beside_the_expected_ones(story):
    text = demo_page(story).replace("\N{NON-BREAKING HYPHEN}", "-")
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", text[text.index("Unseen sentences") :])[1:]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    assert cells[0][:2] == ["Sugar", "E08-E13 Diabetes mellitus"]
    assert cells[0][2] == '<span class="right">✓ right</span> E08-E13 Diabetes mellitus (0.66)'
    assert cells[1][:2] == ["Kidney", "N00-N08 Glomerular diseases"]
    assert cells[1][2] == '<span class="wrong">✗ wrong</span> E08-E13 Diabetes mellitus (0.66)'
    assert "1 of 2 sentences" in text
    assert "without privacy 2 do" in text


def test_one_takeaway_comes_first_and_says_what_was_measured(story):
    body = demo_page(story).split("</h1>")[1]
    first = re.search(r"<p[^>]*>", body)
    assert first is not None
    assert first.group() == '<p class="takeaway">'
    assert body.count('class="takeaway"') == 1
    assert "56 % of unseen descriptions" in body
    assert "without privacy 70 %" in body
    assert "50 % of the games (a coin: 50 %; nobody can pass 73.1 %), and in 100 %" in body
    worse = replace(story, methods={OURS: learned(0.31), REFERENCE: learned(0.7)})
    assert "31 % of unseen descriptions" in demo_page(worse)


def test_the_reference_without_privacy_is_a_dotted_line(story):
    text = demo_page(story)
    line = re.search(r'<g class="s6" data-series="6">(.*?)</g>', text)
    assert line is not None
    assert 'class="guide"' in line.group(1)
    assert 'class="line"' not in line.group(1)
    assert f"{REFERENCE}, after 4: 80.0" in line.group(1)


def test_a_game_without_a_leak_is_not_called_safe(story):
    text = demo_page(story)
    assert "not significantly above the bound" in text
    assert "within" not in text


@pytest.mark.parametrize("dark", [False, True])
def test_the_demo_page_fits_a_phone(tab, tmp_path, story, dark):
    file = tmp_path / "demo.html"
    file.write_text(demo_page(story), encoding="utf-8")
    tab.screen(width=375, dark=dark)
    tab.open(file)
    assert tab.said == []
    assert tab.requested == [file.as_uri()]
    assert tab.run("document.documentElement.scrollWidth") <= 375
    hidden = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert tab.run(hidden) == 0  # no table has to be pushed aside
    size = "Math.min(...[...document.querySelectorAll('svg.chart text')].map(t => t.getBoundingClientRect().height))"
    assert tab.run(size) > 9  # letters of figures, in pixels
