"""A table as text: Markdown for a page, LaTeX for a paper."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table as text.

    Args:
        title: What it shows.
        caption: What its numbers are.
        columns: Headings.
        rows: One entry per heading.
        notes: What a reader must know beside it.
    """

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def markdown(table: Table, *, folded: bool = False) -> str:
    """Returns a table as Markdown; folded, its rows are below a line that opens them.

    >>> print(markdown(Table("T", "C.", ("a", "b"), (("1", "2"),))))
    ## T
    <BLANKLINE>
    C.
    <BLANKLINE>
    | a | b |
    |---|---|
    | 1 | 2 |
    <BLANKLINE>
    """
    lines = [f"## {table.title}", "", table.caption, ""]
    lines += [f"<details><summary>{len(table.rows)} row(s)</summary>", ""] if folded else []
    lines += [_line(table.columns), _line("---" for _ in table.columns).replace(" ", "")]
    lines += [_line(row) for row in table.rows]
    lines += ["", "</details>"] if folded else []
    lines += ["", *(f"- {note}" for note in table.notes)] if table.notes else []
    return "\n".join(lines) + "\n"


def _line(entries: Iterable[str]) -> str:
    escaped = [entry.replace("|", "\\|") for entry in entries]
    return f"| {' | '.join(escaped)} |"


_LATEX = {letter: f"\\{letter}" for letter in "&%_#${}"} | {"~": "\\~{}", "^": "\\^{}", "±": "$\\pm$"}


def latex(table: Table) -> str:
    r"""Returns a table as LaTeX, for booktabs.

    >>> print(latex(Table("T", "50 %.", ("a",), (("1 ± 2",),))).splitlines()[5])
    1 $\pm$ 2 \\
    """
    lines = [
        "\\begin{table}",
        f"\\caption{{{_escaped(table.title)}. {_escaped(table.caption)}}}",
        f"\\begin{{tabular}}{{{'l' * len(table.columns)}}}",
        "\\toprule",
        " & ".join(map(_escaped, table.columns)) + " \\\\ \\midrule",
        *(" & ".join(map(_escaped, row)) + " \\\\" for row in table.rows),
        "\\bottomrule",
        "\\end{tabular}",
        *(f"% {note}" for note in table.notes),
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    plain = text.replace("*", "").replace("\\", "/")
    return "".join(_LATEX.get(letter, letter) for letter in plain)
