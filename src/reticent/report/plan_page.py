"""The page for planning: the tables of `reticent plan` and their sentences, one file without a network."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.table import Table

from reticent.report import page

_INTRODUCTION = (
    "What a privacy budget buys, before any data exists. Nothing here was computed from private data, and this page "
    "fetches nothing."
)


def plan_page(parts: Sequence[Table | str]) -> str:
    """Returns the page with what a terminal shows: tables, and the sentences between them as paragraphs.

    Guarantees:
      - Nothing is fetched, and no script runs.   test_the_plan_page_fetches_nothing

    Example:
        >>> "<p>Threshold: the noisy count.</p>" in plan_page(["Threshold:", "the noisy count."])
        True
    """
    return page.page("Plan of a privacy budget", [page.paragraph(_INTRODUCTION), *_blocks(parts)])


def _blocks(parts: Sequence[Table | str]) -> Iterator[str]:
    for texts, group in groupby(parts, key=lambda part: isinstance(part, str)):
        if texts:
            yield page.paragraph(" ".join(map(str, group)))
        else:
            yield from (_table(part) for part in group if isinstance(part, Table))


def _table(table: Table) -> str:
    headings = [str(column.header).replace("-\n", "-").replace("\n", " ") for column in table.columns]
    rows = zip(*(map(str, column.cells) for column in table.columns), strict=True)
    return page.table(headings, list(rows), caption=str(table.title))
