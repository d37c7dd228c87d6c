"""An interactive page for planning: sliders, what a budget buys, and two curves. One file, no network."""

import html
import json
import math
from importlib import resources
from typing import Any

from reticent import errors
from reticent.budget import Adjacency, Budget
from reticent.privacy import accounting, expected, planning
from reticent.privacy.count_weights import HALF_SIGNAL, default_count_weight
from reticent.privacy.rounding import exact, rounded_up
from reticent.report import page

_FILES = resources.files("reticent.report")
PERSONS = 10_000
# What can be chosen: name, words, least, most, and whether it is a whole number.
CONTROLS = (
    ("epsilon", "epsilon, for one person and the whole stream", 0.05, 20.0, False),
    ("delta", "delta", 1e-12, 1e-3, False),
    ("size", "examples of a class in a task", 1.0, 10_000.0, True),
    ("tasks", "tasks in the stream", 1.0, 240.0, True),
    ("each", "tasks that one person may be in", 1.0, 240.0, True),
    ("persons", "persons in the data", 10.0, 100_000_000.0, True),
)
_ANSWERS = (
    ("release", "the class is released, in one task"),
    ("known", "it is known after all tasks"),
    ("noise", "noise on a sum of unit vectors"),
    ("public-noise", "the same with public labels"),
    ("price", "price of releasing labels, in noise"),
    ("threshold", "noisy count that a label must exceed"),
    ("half", "smallest class released half of the time"),
    ("sure", "smallest class released with probability 0.99"),
    ("weight", "weight of counts (the default)"),
    ("exposed", "persons exposed, expected at most, if each has a label of their own"),
    ("accuracy-public", "accuracy to expect, public labels"),
    ("accuracy-released", "accuracy to expect, released labels"),
)
_HOW_TO_READ = (
    "What a privacy budget buys before any data exists, for the joint Gaussian release with one example per person and "
    "task, add-or-remove-one adjacency. Accuracy is a guess from a public data set of similar shape (classes of one "
    "size, each in one of ten tasks), no promise. Nothing here was computed from private data, and nothing leaves this "
    "page."
)
_WITHOUT_SCRIPT = "The sliders need JavaScript; the numbers below are those of the plan that was made."


def plan_page(budget: Budget, *, size: int, tasks: int, persons: int = PERSONS, like: str = "clinc150") -> str:
    """Returns the page, set to a budget, a class size and a stream.

    Guarantees:
      - Every number that the page computes is that of the Python formulas, to the digits shown.
                                                                          test_the_page_computes_what_python_computes
      - Nothing is fetched, and no script but the page's own runs.        test_the_plan_page_fetches_nothing

    Args:
        budget: One example per person and task, add-or-remove-one.
        size: Examples of a class in a task; a public guess.
        tasks: How many tasks.
        persons: How many persons there are; a public guess.
        like: One of `expected.names()`.

    Example:
        >>> text = plan_page(Budget(epsilon=1.0, delta=1e-5), size=100, tasks=12)
        >>> text.startswith("<!doctype html>"), "https://" in text
        (True, False)
    """
    values = {"epsilon": budget.epsilon, "delta": budget.delta, "size": size, "tasks": tasks}
    values |= {"each": budget.tasks_per_person, "persons": persons}
    _refuse(budget, values)
    expected.like(like)
    numbers = answers(budget, size=size, tasks=tasks, persons=persons, like=like)
    facts = {
        "kept": accounting.EXPOSURE_SHARE,
        "half": HALF_SIGNAL,
        "controls": {
            name: {"least": least, "most": most, "whole": is_whole, "value": values[name]}
            for name, _, least, most, is_whole in CONTROLS
        },
        "curves": [expected.like(name).json() for name in expected.names()],
    }
    return page.page(
        "Plan a privacy budget",
        [
            page.paragraph(_HOW_TO_READ),
            f"<noscript>{page.paragraph(_WITHOUT_SCRIPT)}</noscript>",
            f'<div id="facts" hidden data-facts="{html.escape(json.dumps(facts))}"></div>',
            _controls(values, like),
            '<p class="warn" id="too-large" role="status"'
            f"{' hidden' * (budget.delta * persons < 1)}>delta is not below one over the number of persons: choose a "
            "smaller one.</p>",
            _answers(numbers),
            f'<div class="plots">{"".join(_figure(*shown) for shown in _FIGURES)}</div>',
            page.paragraph("To begin with this budget and released labels:"),
            f'<pre id="command">{html.escape(numbers["command"])}</pre>',
        ],
        script=(_FILES / "plan_page.js").read_text(encoding="utf-8"),
        style=(_FILES / "plan_page.css").read_text(encoding="utf-8"),
    )


def answers(budget: Budget, *, size: int, tasks: int, persons: int, like: str) -> dict[str, str]:
    """Returns the numbers of the page as text, by the Python formulas."""
    weight = default_count_weight(budget)
    chosen = planning.plan(budget, class_sizes=[size], count_weight=weight)
    chance = chosen.classes[0].release_probability
    guess = expected.expected(chosen, expected.like(like))
    noise, alone = chosen.sigma or math.inf, chosen.sigma_without_labels
    return {
        "release": _share(chance),
        "known": _share(-math.expm1(tasks * math.log1p(-min(chance, 1 - 1e-16)))),
        "noise": rounded_up(noise),
        "public-noise": rounded_up(alone),
        "price": f"+{100 * (noise / alone - 1):.2f} %",
        "threshold": f"{chosen.threshold:.1f}",
        "half": f"{chosen.smallest_class_50:,}",
        "sure": f"{chosen.smallest_class_99:,}",
        "weight": f"{weight:.2f}",
        "exposed": _three_digits(persons * budget.delta),
        "accuracy-public": f"{100 * guess.public:.0f} %",
        "accuracy-released": f"{100 * guess.released:.0f} %",
        "command": f"reticent init model/ --epsilon {exact(budget.epsilon)} --delta {exact(budget.delta)} "
        f"--tasks-per-person {budget.tasks_per_person} --released",
    }


def _refuse(budget: Budget, values: dict[str, Any]) -> None:
    if budget.examples_per_person != 1 or budget.adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
        raise errors.InvalidValue("The page is for one example per person and task. Plan more without --html.")
    for name, words, least, most, _ in CONTROLS:
        if not least <= values[name] <= most:
            raise errors.InvalidValue(f"Expected {words} from {least:g} to {most:g} on the page, got {values[name]:g}.")


def _share(value: float) -> str:
    """Shows a probability to four digits.

    >>> _share(0.5), _share(1e-9), _share(1.0)
    ('0.5000', '< 0.0001', '> 0.9999')
    """
    if value < 1e-4:
        return "< 0.0001"
    return "> 0.9999" if value > 1 - 1e-4 else f"{value:.4f}"


def _three_digits(value: float) -> str:
    """Shows three digits as JavaScript's toPrecision does.

    >>> _three_digits(0.1), _three_digits(1e-8), _three_digits(1234.0)
    ('0.100', '1.00e-8', '1.23e+3')
    """
    power = math.floor(math.log10(float(f"{value:.2e}")))
    if -7 < power < 3:
        return f"{value:.{2 - power}f}"
    return f"{value / 10.0**power:.2f}e{power:+d}"


def _controls(values: dict[str, Any], like: str) -> str:
    rows = "".join(
        f'<label>{html.escape(words)} <input type="number" name="{name}" value="{exact(values[name])}" step="any" '
        f'min="{exact(least)}" max="{exact(most)}"><input type="range" name="{name}-slider" min="0" max="1000" '
        f'step="any" aria-label="{html.escape(words)}, slider"></label>'
        for name, words, least, most, _ in CONTROLS
    )
    shapes = "".join(
        f'<option value="{name}"{" selected" * (name == like)}>{name} ({expected.like(name).labels} labels)</option>'
        for name in expected.names()
    )
    menu = f'<label>data are like <select name="like">{shapes}</select></label>'
    return f'<form id="controls" aria-label="What is planned" autocomplete="off" hidden>{rows}{menu}</form>'


def _answers(numbers: dict[str, str]) -> str:
    cells = "".join(
        f'<div><dt>{html.escape(words)}</dt><dd id="{name}">{html.escape(numbers[name])}</dd></div>'
        for name, words in _ANSWERS
    )
    return f'<dl class="answers" aria-live="polite">{cells}</dl>'


_RELEASE = (
    '<path id="release-line" class="line s0" d=""/><circle id="release-here" class="mark s1" r="5" cx="50" cy="200"/>'
)
_ACCURACY = (
    '<path id="public-line" class="line s2" d=""/><path id="released-line" class="line s0" d=""/>'
    '<circle id="accuracy-here" class="mark s1" r="5" cx="50" cy="200"/>'
    '<text x="60" y="34" class="s2" style="fill: currentColor">public labels</text>'
    '<text x="60" y="50" class="s0" style="fill: currentColor">released labels</text>'
)

_FIGURES = (
    ("Probability that a class is released", "examples of a class in a task", _RELEASE, ("1", "100", "10,000")),
    ("Accuracy to expect", "epsilon", _ACCURACY, ("0.05", "1", "20")),
)


def _figure(title: str, across: str, inner: str, ticks: tuple[str, str, str]) -> str:
    """Returns an empty figure with its axes; the script draws the curves."""
    places = ((50, "start"), (215, "middle"), (380, "end"))
    lines = "".join(
        f'<line class="grid" x1="50" x2="380" y1="{200 - 1.8 * y:g}" y2="{200 - 1.8 * y:g}"/>'
        f'<text x="44" y="{204 - 1.8 * y:g}" text-anchor="end">{y} %</text>'
        for y in (0, 25, 50, 75, 100)
    )
    below = "".join(
        f'<text x="{x}" y="218" text-anchor="{way}">{tick}</text>' for (x, way), tick in zip(places, ticks, strict=True)
    )
    axis = '<line class="axis" x1="50" x2="380" y1="200" y2="200"/>'
    name = f'<text x="215" y="236" text-anchor="middle">{html.escape(across)}</text>'
    described = html.escape(f"{title}, by {across}")
    return (
        f'<figure class="plot plan" hidden><figcaption>{html.escape(title)}</figcaption>'
        f'<svg class="chart" viewBox="0 0 400 242" role="img" aria-label="{described}">'
        f"{lines}{axis}{below}{name}{inner}</svg></figure>"
    )
