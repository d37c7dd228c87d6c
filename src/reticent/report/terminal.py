"""Tables for the terminal."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from reticent.privacy import planning
from reticent.privacy.rounding import exact, rounded_up

WIDTH = 80


def columns(
    title: str | Text, headings: Sequence[str], *, names: Sequence[str] = (), words: Sequence[str] = ()
) -> Table:
    """Returns an empty table for a terminal of 80 columns: nothing in it is ever cut, and numbers are not broken.

    Args:
        title: What it shows.
        headings: Of all columns; those not named below hold numbers, on the right.
        names: Headings of columns with names: on the left, not broken.
        words: Headings of columns with words: on the left, broken where there is no room.
    """
    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False, collapse_padding=True)
    for heading in headings:
        left = heading in (*names, *words)
        table.add_column(heading, justify="left" if left else "right", no_wrap=heading not in words, overflow="fold")
    return table


def plan_tables(plans: Sequence[planning.Plan]) -> list[Table]:
    """Shows every mechanism of a plan; then the chance of release by class size, and the bound for any mechanism."""
    first = plans[0]
    costs = columns(
        f"Releasing labels at epsilon {exact(first.epsilon)}, delta {exact(first.delta)}",
        ("mechanism", "threshold", "50 % at", "99 % at", "noise", "price"),
        names=("mechanism",),
    )
    for p in plans:
        price = "-" if p.sigma is None else f"+{p.sigma / p.sigma_without_labels - 1:.2%}"
        noise = "-" if p.sigma is None else rounded_up(p.sigma)
        costs.add_row(
            p.mechanism, f"{p.threshold:.1f}", str(p.smallest_class_50), str(p.smallest_class_99), noise, price
        )
    costs.add_row("public labels", "-", "-", "-", rounded_up(first.sigma_without_labels), "none", style="dim")
    names = [p.mechanism.replace("-", "-\n", 1) for p in plans]
    chances = columns("Probability that a class is released", ("class of", *names, "any,\nat most"))
    for i, c in enumerate(first.classes):
        shown = [probability(p.classes[i].release_probability) for p in plans]
        chances.add_row(str(c.size), *shown, _at_most(c.upper_bound))
    return [costs, chances]


def plan_notes(chosen: planning.Plan, tasks: int, *, asked: bool) -> list[str]:
    """Returns sentences that explain the table."""
    notes = [
        "A class of n has n examples in a task. Threshold: the noisy count that a label must exceed. 50 % at, 99 % at: "
        "the smallest class released with that probability. Noise: standard deviation on a sum of unit vectors. "
        "Price: noise added by releasing labels."
    ]
    if chosen.count_weight is not None and chosen.expected_accuracy is not None:
        best = chosen.default_count_weight
        notes.append(
            f"{chosen.mechanism}: count weight c^2 = {chosen.count_weight:.4g}. Classes of unknown size can expect "
            f"{chosen.expected_accuracy:.0%} of their accuracy without noise; for them {best:g}, the default, is best."
        )
    if asked and chosen.classes[0].release_probability < planning.SURE:
        notes.append(f"A class of {chosen.classes[0].size} is not released with probability {planning.SURE} here.")
    if tasks > 1:
        spread = ", ".join(
            f"{c.size}: {probability(-math.expm1(tasks * math.log1p(-min(c.release_probability, 1 - 1e-16))))}"
            for c in chosen.classes
        )
        notes.append(f"Known after {tasks} tasks with as many examples in each ({chosen.mechanism}): {spread}.")
        if chosen.sigma is not None:
            notes.append(f"A sum over {tasks} tasks carries noise {rounded_up(chosen.sigma * math.sqrt(tasks))}.")
    return notes


def training_table(plan: planning.TrainingPlan) -> Table:
    """Shows what a budget means for DP-SGD."""
    headings = ("rate", "steps", "batch", "noise\nmultiplier", "noise /\nbatch", "class /\nCosine's noise")
    table = columns("Training with DP-SGD, each task", headings)
    table.add_row(
        f"{plan.rate:g}",
        str(plan.steps),
        f"{plan.batch:g}",
        rounded_up(plan.noise_multiplier),
        f"{plan.noise_per_example:.4f}",
        f"{plan.signal:.1f}",
    )
    return table


@dataclass(frozen=True)
class Sizes:
    """Labels of similar size: how many were released, how many the plan expected. Public data only."""

    smallest: int
    largest: int
    labels: int
    released: int
    expected: float


def by_size(released: Sequence[tuple[int, bool, float]], edges: Sequence[int] = (10, 20, 30, 50, 100)) -> list[Sizes]:
    """Groups (size, released or not, planned probability) by size.

    >>> by_size([(5, False, 0.0), (40, True, 0.9), (45, False, 0.8)])[1]
    Sizes(smallest=40, largest=45, labels=2, released=1, expected=1.7)
    """
    groups: dict[int, list[tuple[int, bool, float]]] = {}
    for entry in sorted(released):
        groups.setdefault(sum(entry[0] >= edge for edge in edges), []).append(entry)
    return [
        Sizes(g[0][0], g[-1][0], len(g), sum(kept for _, kept, _ in g), round(math.fsum(p for *_, p in g), 1))
        for g in groups.values()
    ]


def sizes_table(groups: Sequence[Sizes]) -> Table:
    """Shows which labels were released and which were dropped, by size."""
    table = columns("", ("examples", "labels", "released", "dropped", "expected released"))
    for g in groups:
        counts = (g.labels, g.released, g.labels - g.released)
        table.add_row(f"{g.smallest}-{g.largest}", *map(str, counts), f"{g.expected:.1f}")
    return table


def stream_table(
    curves: Mapping[str, Sequence[float]], tasks: Sequence[str], facts: Mapping[str, tuple[float, int]]
) -> Table:
    """Shows the average accuracy after every task, a row for each; then forgetting and the number of labels.

    Args:
        curves: By the name of a run; two words or more are broken over lines, so that five runs fit 80 columns.
        tasks: Names of the tasks, in order.
        facts: Forgetting and number of known labels of each run.
    """
    headings = ["\n".join(textwrap.wrap(name, 11)) for name in curves]
    table = columns("", ("% right after", *headings), names=("% right after",))
    for i, task in enumerate(tasks):
        table.add_row(task, *(f"{100 * curve[i]:.0f}" for curve in curves.values()), end_section=i == len(tasks) - 1)
    table.add_row("forgotten", *(f"{100 * facts[name][0]:.0f}" for name in curves))
    table.add_row("labels known", *(str(facts[name][1]) for name in curves))
    return table


def probability(value: float) -> str:
    """Shows a probability to four digits, and small distances from 0 and 1 as powers.

    >>> probability(0.25), probability(1e-7), probability(1 - 1e-7)
    ('0.2500', '1.0e-07', '1 - 1e-07')
    """
    if value in (0.0, 1.0) or 1e-4 <= value <= 1 - 1e-4:
        return f"{value:.4f}"
    return f"{value:.1e}" if value < 0.5 else f"1 - {1 - value:.0e}"


def _at_most(value: float) -> str:
    """Shows a bound on a probability, rounded up."""
    return rounded_up(value) if value >= 1e-4 else f"{1.06 * value:.1e}"  # two digits round by 5 % at most
