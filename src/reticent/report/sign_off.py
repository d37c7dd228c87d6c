"""A page for a privacy officer to sign: what is claimed, under which assumptions, one row per task. Two sheets."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reticent.privacy import events
from reticent.privacy.conditions import ENFORCED
from reticent.privacy.event_words import in_words
from reticent.privacy.rounding import exact, rounded_up
from reticent.privacy.statement import Spend, Statement
from reticent.privacy.statement_text import OUTSIDE
from reticent.report import page

MOST_ROWS = 24  # with more tasks, those that follow each other and cost the same share a row
SIGNERS = ("Prepared by", "Checked by", "Privacy officer")


def sign_off_page(statement: Statement, *, releases: int, labels: int) -> str:
    """Returns a self-contained page that prints on one or two sheets, from ledger and releases alone.

    Guarantees:
      - It names the model, its ledger, every assumption and every task, and no label.   test_sign_off_says_everything
      - It prints on two sheets, also for sixty tasks that cost the same.                test_sign_off_fits_two_sheets

    Args:
        statement: What the ledger says was spent.
        releases: How many were published.
        labels: How many the model can answer with.

    Example:
        >>> from reticent import Budget
        >>> text = sign_off_page(Statement(budget=Budget(epsilon=1.0, delta=1e-5), spends=()), releases=0, labels=0)
        >>> "Nothing was spent yet" in text
        True
    """
    return page.page(
        f"Privacy sign-off: {statement.name or 'a model in memory'}",
        [
            page.paragraph(statement.claim, kind="takeaway"),
            *(page.paragraph(sentence, kind="warn") for sentence in statement.warnings()),
            page.facts(_about(statement, releases, labels)),
            page.section("Enforced and assumed", [_conditions(statement)]),
            page.section("Not covered", [page.checklist([f"Outside the guarantee: {OUTSIDE}."])]),
            page.section("Memory", _memory(statement)),
            page.section("Tasks", [_tasks(statement)]),
            page.section("Signatures", [_signatures()]),
        ],
        kind="sign-off",
    )


def identity(statement: Statement) -> dict[str, str]:
    """Returns which model this is: its folder, the version that says so, its ledger and the ledger's last row."""
    return {
        "Model": statement.name or "in memory, without a folder",
        "Written by": f"reticent {statement.software}",
        "Model id (ledger)": statement.identity or "none",
        "Last hash of the ledger": statement.head or "none",
    }


def _about(statement: Statement, releases: int, labels: int) -> dict[str, str]:
    budget = statement.budget
    limits = f"in at most {budget.tasks_per_person:,} task(s), at most {budget.examples_per_person:,} row(s) in each"
    price = f"epsilon {exact(budget.epsilon)}, delta {exact(budget.delta)}, {budget.adjacency}"
    return {
        **identity(statement),
        "Budget": f"{price}; a person is {limits}",
        "Later": statement.at_most,
        "What a person would lose": ". ".join(statement.in_tasks()),
        "Published": f"{releases:,} release(s); {labels:,} label(s) are known",
    }


def _conditions(statement: Statement) -> str:
    """Returns what is to be confirmed: enforced or assumed, and who could break it; what is assumed has a box."""
    rows = [
        ("" if found.status == ENFORCED else "☐", found.sentence, found.status, found.broken_by)
        for found in statement.conditions()
    ]
    headings = ["", "what must be true", "is", "who could break it"]
    return page.paragraph(statement.compared) + page.table(headings, rows, stacked=True)


def _memory(statement: Statement) -> list[str]:
    """Returns what is to be said of a vault: who could read it, and what it would tell them."""
    return [] if statement.memory is None else [page.checklist(statement.memory_sentences(statement.memory))]


@dataclass(frozen=True)
class _Row:
    """One task, or several that follow each other and differ in name and day alone."""

    names: tuple[str, ...]
    days: tuple[str, ...]
    facts: tuple[str, ...]

    def cells(self) -> tuple[str, ...]:
        first, last = self.names[0], self.names[-1]
        names = first if len(self.names) == 1 else f"{first} to {last} ({len(self.names)} tasks)"
        days = self.days[0] if self.days[0] == self.days[-1] else f"{self.days[0]} to {self.days[-1]}"
        return names, days, *self.facts


def _tasks(statement: Statement) -> str:
    if not statement.spends:
        return page.paragraph("Nothing was spent yet.")
    by_task: dict[str, list[Spend]] = {}
    for spend in statement.spends:
        by_task.setdefault(spend.task, []).append(spend)
    rows = [_row(statement, task, own) for task, own in by_task.items()]
    if len(rows) > MOST_ROWS:
        alike = (list(own) for _, own in itertools.groupby(rows, key=lambda row: row.facts))
        rows = [
            _Row(tuple(n for row in own for n in row.names), tuple(d for row in own for d in row.days), own[0].facts)
            for own in alike
        ]
    headings = ["task", "day", "what was drawn", "epsilon alone", "persons", "state"]
    words = (
        "Noise: standard deviation on a sum of unit vectors. Epsilon alone: what a person in this task and in no other "
        f"loses, at delta {exact(statement.budget.delta)}."
    )
    return page.table(headings, [row.cells() for row in rows], caption=words, stacked=True)


def _row(statement: Statement, task: str, own: Sequence[Spend]) -> _Row:
    paid = [spend for spend in own if spend.voided is None]
    together = math.nan if not paid else replace(statement, spends=paid, acts=(), memory=None).epsilon
    if len(paid) == 1:
        together = statement.price(paid[0])
    whole = " (its whole epoch)" if any(isinstance(spend.event, events.Remembered) for spend in paid) else ""
    states = ["NOT PRIVATE"] if not all(spend.private for spend in paid) else []
    states += ["published"] if any(spend.published for spend in own) else ["not published"]
    states += [f"row {spend.row} voided: {spend.voided}" for spend in own if spend.voided is not None]
    facts = (
        "; ".join(dict.fromkeys(in_words(spend.event) for spend in paid)) or "nothing that counts",
        f"{rounded_up(together if all(spend.private for spend in paid) else None)}{whole}" if paid else "-",
        ", ".join(dict.fromkeys(spend.persons.value for spend in paid)),
        "; ".join(states),
    )
    return _Row((task,), (own[0].at[:10],), facts)


def _signatures() -> str:
    decision = "Decision:  ☐ approved   ☐ approved under the conditions below   ☐ refused"
    table = page.table(["", "name", "signature", "date"], [(signer, "", "", "") for signer in SIGNERS])
    return f"{page.paragraph(decision)}{table}{page.paragraph('Conditions and remarks:')}"
