"""Tables of a benchmark's page: what was measured stands open, what was not run is folded away."""

from collections.abc import Mapping, Sequence
from typing import Any

from reticent.report import groups, page
from reticent.report.groups import Group

NOT_RUN = "*not run here*"  # how an entry begins that was not run
MOST_ROWS = 40  # tables with more rows in all are folded
SOURCE = "source"  # the last of the columns that name a row, in tables that have it

Table = Mapping[str, Any]


def at_a_glance(found: Sequence[Group]) -> list[str]:
    """Returns a table with the highest accuracy on each data set, for each epsilon and kind of labels.

    Args:
        found: Groups of runs, where several shares of the budget were tried only the best.
    """
    clear, _ = groups.least_blurry(found)
    rows = []
    for own in groups.part_by(clear, ["data", "epsilon", "labels"]):
        best = max(own, key=groups.accuracy)
        reached = best.spread("accuracy", scale=100)
        if reached is not None:
            data, labels = (groups.say(field, best.settings.get(field)) for field in ("data", "labels"))
            epsilon = groups.say("epsilon", best.settings.get("epsilon")).removeprefix("epsilon ")
            by = groups.name(best.settings, ["learner", "adapter", "names", "memory"])
            rows.append((data, epsilon, labels, str(reached), by))
    note = (
        "The highest median accuracy after the last task, of all methods that were run, in %; the least blurry stream."
    )
    headings = ["data", "epsilon", "labels", "accuracy, %", "reached by"]
    return [page.table(headings, rows, caption=note, stacked=True)] if rows else []


def measured_tables(entries: Sequence[Table]) -> list[str]:
    """Returns tables as parts of a page.

    Guarantees: a row of which nothing was run is folded away, and so is a whole table.
    test_rows_that_were_not_run_are_folded_away

    Args:
        entries: As in `tables/*.json`; "spec" names the experiment that fills a table.
    """
    run = [entry for entry in entries if any(_measured(entry, row) for row in entry["rows"])]
    others = [entry for entry in entries if entry not in run and entry["rows"]]
    same = [(entry["title"], entry["rows"]) for entry in run]
    run = [entry for i, entry in enumerate(run) if same.index((entry["title"], entry["rows"])) == i]  # of several specs
    parts = [shown(entry) for entry in run]
    opened = sum(len(entry["rows"]) for entry in run) <= MOST_ROWS
    folded = [
        page.details(entry["title"], part, opened=opened or entry is run[0])
        for entry, part in zip(run, parts, strict=True)
    ]
    return [*folded, *([_unfilled(others)] if others else [])]


def names(entry: Table) -> int:
    """Returns how many columns name a row."""
    columns = list(entry["columns"])
    return columns.index(SOURCE) + 1 if SOURCE in columns else 1


def is_missing(entry: Table, row: Sequence[str]) -> bool:
    """Returns whether a row was to be run, and nothing of it was."""
    blank = (text in ("", "-") or text.startswith(NOT_RUN) for text in row[names(entry) :])
    return any(text.startswith(NOT_RUN) for text in row) and all(blank)


def _measured(entry: Table, row: Sequence[str]) -> bool:
    """Returns whether anything of a row was measured here; rows of the paper's numbers were not."""
    printed = SOURCE in entry["columns"] and row[names(entry) - 1].startswith("paper, ")
    return not printed and not is_missing(entry, row)


def shown(entry: Table) -> str:
    """Returns one table with its notes; rows of which nothing was run are folded away, below it."""
    first = names(entry)
    missing = [row for row in entry["rows"] if is_missing(entry, row)]
    here = {tuple(row[: first - 1]) for row in entry["rows"] if _measured(entry, row)}
    rows = [
        [_short(text) for text in row]
        for row in entry["rows"]
        if row not in missing and (first == 1 or tuple(row[: first - 1]) in here)  # else there is nothing to compare
    ]
    return "".join(
        [
            page.table(entry["columns"], rows, caption=entry.get("caption", ""), stacked=_has_sentences(rows)),
            *(page.paragraph(note, kind="note") for note in entry.get("notes", ())),
            _folded(entry, missing) if missing else "",
        ]
    )


def _has_sentences(rows: Sequence[Sequence[str]]) -> bool:
    """Returns whether a table is one of words: a phone has no room for two columns of them."""
    return sum(any(len(text) > page.LONG for text in column) for column in zip(*rows, strict=True)) > 1


def _folded(entry: Table, missing: Sequence[Sequence[str]]) -> str:
    first = names(entry)
    rows = [(*row[:first], next(text for text in row if text.startswith(NOT_RUN))) for row in missing]
    columns = [*entry["columns"][:first], "first entry"]
    return page.details(f"{len(rows)} row(s) of this table were not run here", page.table(columns, rows))


def _unfilled(entries: Sequence[Table]) -> str:
    rows = [
        (entry["title"], len(entry["rows"]), f"reticent bench {entry['spec']}" if entry.get("spec") else "")
        for entry in entries
    ]
    table = page.table(["table", "rows", "to run it"], rows)
    return page.details(f"{len(rows)} table(s) of which nothing was run here", table)


def _short(text: str) -> str:
    """Returns an entry beside measured ones: how long a run would take is said where rows are folded away."""
    return "*not run*" if text.startswith(NOT_RUN) else text
