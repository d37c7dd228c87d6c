"""Tables for the terminal: what memory buys."""

import textwrap

from rich import box
from rich.table import Table

from reticent.privacy.memory_plan import BecomesKnown, MemoryPlan, Returning
from reticent.privacy.rounding import rounded_up

_WIDTH = 80


def memory_lines(plan: MemoryPlan) -> list[Table | str]:
    """Returns the tables of a plan and sentences that explain them, none wider than 80 columns."""
    shown: list[Table | str] = [_classes(plan.classes)]
    shown += textwrap.wrap(
        "Noise: standard deviation on the sum of unit vectors of a class that comes back in so many tasks, evenly, "
        "from the first one on. Gain: how many times as much the releases tell of it with memory.",
        _WIDTH,
    )
    if plan.labels:
        shown.append(_labels(plan.labels))
        known = (
            "After how many tasks a label with n examples in every task is known, with this probability; -: not within "
            f"{plan.tasks} tasks. With memory it may be sooner."
        )
    else:
        known = "Labels: with memory they are released for one task and one example per person only."
    return [*shown, *textwrap.wrap(known, _WIDTH), *textwrap.wrap(f"Memory: {plan.why}", _WIDTH)]


def _classes(classes: tuple[Returning, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Memory: noise on a class that comes back", width=_WIDTH)
    for heading in ("tasks", "noise without memory", "with memory", "gain"):
        table.add_column(heading, justify="right")
    for row in classes:
        gain = (row.without_memory / row.with_memory) ** 2
        table.add_row(str(row.times), rounded_up(row.without_memory), rounded_up(row.with_memory), f"{gain:.2f}")
    return table


def _labels(labels: tuple[BecomesKnown, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Memory: when a label becomes known", width=_WIDTH)
    for heading in ("n", "without memory, 50 %", "99 %", "with memory, 50 %", "99 %"):
        table.add_column(heading, justify="right")
    for row in labels:
        after = (row.without_memory_50, row.without_memory_99, row.with_memory_50, row.with_memory_99)
        table.add_row(str(row.size), *("-" if tasks is None else str(tasks) for tasks in after))
    return table
