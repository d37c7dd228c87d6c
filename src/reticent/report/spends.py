"""What was spent, for pages: events in words, a ledger as a table, a statement as text."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from reticent.privacy.rounding import rounded_up
from reticent.report import page


def in_words(event: Mapping[str, Any]) -> str:
    """Returns an event's JSON in words.

    >>> in_words({"kind": "JointGaussian", "noise_multiplier": 4.25, "threshold": 17.0, "examples_per_person": 1})
    'joint Gaussian (noise multiplier 4.25, threshold 17, examples per person 1)'
    """
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(event.get("kind", "event")))
    words = " ".join(word if word in ("Gaussian", "Laplace") else word.lower() for word in kind.split())
    facts = [_fact(field, value) for field, value in event.items() if field != "kind"]
    return f"{words} ({', '.join(facts)})" if facts else words


def ledger(rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns the spends of a ledger as a table; the rows are those of `Statement.json()`."""
    return page.table(
        ["row", "task", "event", "epsilon alone", "private", "remarks"],
        [
            (
                row.get("row", ""),
                row.get("task", ""),
                in_words(row.get("event") or {}),
                rounded_up(row.get("epsilon")),
                "yes" if row.get("private") else "NOT PRIVATE",
                _remarks(row),
            )
            for row in rows
        ],
    )


def _fact(field: str, value: object) -> str:
    label = field.replace("_", " ")
    if isinstance(value, Mapping):
        return f"{label}: {in_words(value)}"
    if isinstance(value, list | tuple):
        return f"{label}: " + "; ".join(in_words(part) for part in value)
    return f"{label} {value:.6g}" if isinstance(value, float) else f"{label} {value}"


def _remarks(row: Mapping[str, Any]) -> str:
    voided = row.get("voided")
    marks = ["published"] if row.get("published") else []
    return "; ".join(marks if voided is None else [*marks, f"voided: {voided}"])
