"""Rows of contests as a page: each family begins with what it shows, and no table is wider than 80 columns."""

import io
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from contests import Drop, Family, Row
from rich import box
from rich.console import Console
from rich.table import Table

WIDTH = 80

_PAGE = """# Speed

`make bench-speed` installs the peers, sets every library to one thread, plays each contest in rounds, peers in turn,
and writes this page. Times are processor time of all threads unless a table says otherwise, so that other work on the
machine counts for little.

How to read a table: the first line is ours. A ratio says how many times as long as ours (or as much) a peer takes,
as the median over rounds, so larger is better everywhere: 2.00 means that ours is twice as fast, 0.50 that it takes
twice as long. A goal is the least ratio that we want, or where it has a unit the most that ours may take. Absolute
times are one machine's; the ratios are the claim.

Ratios of accepted runs are stored in `benchmarks/ratios.json`, each with its commit and day. A later run that falls
more than a fifth below one says so here, at once and with exit code 1. `python benchmarks/speed.py --list` names the
contests, `--only noise` or `--only noise/many` plays some and keeps the stored rows of the others.

{machine}
"""


def page(families: Sequence[Family], rows: Sequence[Row], fallen: Sequence[Drop], facts: Mapping[str, Any]) -> str:
    """Returns the whole page as Markdown; families without rows are left out."""
    parts = [_PAGE.format(machine=_machine(facts))]
    if fallen:
        parts.append(section_of_drops(fallen))
    for family in families:
        own = [row for row in rows if row.contest.partition("/")[0] == family.name]
        if own:
            tables = "\n\n".join(f"```\n{table(list(group))}\n```" for _, group in groupby(own, lambda r: r.contest))
            parts.append(f"## {family.title}\n\n{family.words.strip()}\n\n{tables}\n\n{_measured(own)}\n")
    return "\n".join(parts)


def section_of_drops(fallen: Sequence[Drop]) -> str:
    """Returns the section that nobody can overlook."""
    lines = "\n".join(f"- **{drop}**" for drop in fallen)
    return f"## SLOWER THAN BEFORE\n\nThese ratios fell by more than a fifth:\n\n{lines}\n"


def table(rows: Sequence[Row]) -> str:
    """Returns one contest as a plain table of at most 80 columns."""
    made = Table(title=rows[0].title, box=box.SIMPLE_HEAD, width=WIDTH, title_justify="left")
    made.add_column("", ratio=1)
    for heading in ({"s": "time", "": "value"}.get(rows[0].unit, "size"), "ratio", "goal"):
        made.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        made.add_row(row.peer, amount(row.cost, row.unit), f"{row.ratio:.2f}", _goal(row))
    console = Console(width=WIDTH, file=io.StringIO(), color_system=None)
    console.print(made)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def amount(value: float, unit: str) -> str:
    """Returns a cost with a unit that suits it.

    >>> amount(0.0123, "s"), amount(5.8e-9, "s"), amount(62.61, "MiB"), amount(7.56895, "")
    ('12.3 ms', '5.8 ns', '62.6 MiB', '7.569')
    """
    if unit != "s":
        return f"{value:,.1f} {unit}" if unit else f"{value:.4g}"
    for name, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(value) * scale >= 1:
            return f"{value * scale:.3g} {name}" if value * scale < 1000 else f"{value * scale:,.0f} {name}"
    return f"{value * 1e9:.3g} ns"


def _goal(row: Row) -> str:
    if row.goal is None:
        return ""
    words = f"at most {amount(row.goal, row.unit)}" if row.ours else f"{row.goal:g}"
    return f"{words}: {'met' if row.met else 'MISSED'}"


def _measured(rows: Sequence[Row]) -> str:
    """Says of which trees and days a family's rows are."""
    found = ", ".join(dict.fromkeys(f"{row.commit} ({row.day})" for row in rows))
    return f"Measured at {found}."


def _machine(facts: Mapping[str, Any]) -> str:
    return (
        f"This machine: {facts['processor']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['system']}, "
        f"Python {facts['python']}, NumPy {facts['numpy']}; {facts['threads']} thread."
    )
