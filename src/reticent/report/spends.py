"""What was spent, for pages: events in words, and a ledger as a table."""

from collections.abc import Iterable, Mapping
from typing import Any

from reticent import errors
from reticent.privacy import event_words, stored_events
from reticent.privacy.rounding import rounded_up
from reticent.report import page


def in_words(event: object) -> str:
    """Returns an event's JSON in words; one that this version does not know is named as such.

    >>> in_words({"kind": "Gaussian", "noise_multiplier": 4.25}), in_words({"kind": "Later"})
    ('sums, noise 4.2500', 'an event that this version does not know')
    """
    try:
        return event_words.in_words(stored_events.from_json(event))
    except errors.ReticentError:
        return "an event that this version does not know"


def ledger(rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns the spends of a ledger as a table; the rows are those of `Statement.json()`."""
    return page.table(
        ["row", "task", "what was drawn", "epsilon alone", "private", "remarks"],
        [
            (
                row.get("row", ""),
                row.get("task", ""),
                in_words(row.get("event")),
                rounded_up(row.get("epsilon")),
                "yes" if row.get("private") else "NOT PRIVATE",
                _remarks(row),
            )
            for row in rows
        ],
    )


def _remarks(row: Mapping[str, Any]) -> str:
    voided = row.get("voided")
    marks = ["published"] if row.get("published") else []
    return "; ".join(marks if voided is None else [*marks, f"voided: {voided}"])
