"""The privacy statement as people read it: at most 80 columns, few digits, and what is not private on top."""

import textwrap

from reticent import names
from reticent.budget import Adjacency
from reticent.privacy import events
from reticent.privacy.event_words import in_words
from reticent.privacy.rounding import exact, rounded_up
from reticent.privacy.statement import Spend, Statement, tightness

WIDTH = 79
_KEY = 12  # columns before what a line says
OUTSIDE = (
    "running time, memory use, who may read the raw data, and anything that was fitted to these data before they came "
    "here (scalers, vectorizers, encoders, lists of labels or names)"
)


def text(statement: Statement) -> str:
    """Returns a statement as text.

    Guarantees:
      - No line has more than 80 columns, unless a name without blanks is as long.     test_statements_fit_80_columns
      - Every epsilon stands beside what it assumes of persons.                  test_statement_prints_assumptions
    """
    lines = ["Privacy statement"]
    warnings = [line for said in statement.warnings() for line in _folded(said)]
    lines += ["", *warnings] if warnings else []
    lines += ["", *_about(statement), "", *_costs(statement), "", "Assumptions"]
    lines += [line for sentence in statement.assumptions() for line in _folded(sentence, "  - ")]
    lines += _memory(statement)
    lines += ["", "Spends" if statement.spends else "Spends: none yet"]
    lines += [line for spend in statement.spends for line in _spend(statement, spend)]
    if statement.acts:
        lines += ["", "Also recorded"]
        for act in statement.acts:
            lines += _folded(names.shown(act.text), f"  {act.row:>4}  {names.shown(act.at)}  ")
    return "\n".join(lines)


def _about(statement: Statement) -> list[str]:
    """Which model this is of, and what its number does and does not cover."""
    tuned = [names.shown(act.text) for act in statement.acts if act.text.startswith("tun")]
    private = "Real noise was used. The assumptions below must still be true." if statement.private else "NO"
    return [
        *([] if statement.name is None else _line("Model", names.shown(statement.name))),
        *_line("Written by", f"reticent {statement.software}"),
        *(_line("Ledger", statement.identity) if statement.identity else []),
        *(_line("Head", statement.head) if statement.head else []),
        *_line("Private", private if statement.spends else "nothing was drawn yet"),
        *_line("Tuning", "; ".join(tuned) or "none is recorded"),
        *_line("Not covered", OUTSIDE),
    ]


def _costs(statement: Statement) -> list[str]:
    budget, now = statement.budget, statement.now
    other = f"{rounded_up(now.replace_one)} ({tightness(now)}) for replace-one"
    if budget.adjacency is Adjacency.REPLACE_ONE:
        other = f"{rounded_up(now.epsilon)} for add-or-remove-one"
    limits = f"epsilon {exact(budget.epsilon)}, delta {exact(budget.delta)}, {budget.adjacency}"
    return [
        *_line("Budget", f"{limits}: what one person may lose over the whole stream"),
        *_line("Now", statement.claim),
        *(_line("", f"Epsilon {other}.") if statement.private else []),
        *_line("Later", statement.at_most),
        "What a person would lose",
        *(f"  {said}" for said in statement.in_tasks()),
    ]


def _spend(statement: Statement, spend: Spend) -> list[str]:
    marks = [] if spend.private else ["NOT PRIVATE"]
    marks += [f"persons: {spend.persons.value}"]
    marks += ["published"] if spend.published else []
    marks += [f"voided: {names.shown(spend.voided)}"] if spend.voided is not None else []
    what = "for its whole epoch" if isinstance(spend.event, events.Remembered) else "alone"
    price = f"epsilon {rounded_up(statement.price(spend))} {what}"
    start = f"  {spend.row:>4}  {names.shown(spend.at)}  "
    said = f"{names.shown(spend.task)}: {in_words(spend.event)}, {price}  [{'; '.join(marks)}]"
    return _folded(said, start)


def _memory(statement: Statement) -> list[str]:
    memory = statement.memory
    if memory is None:
        return []
    facts = statement.memory_sentences(memory)
    return ["", "Memory", *(line for sentence in facts for line in _folded(sentence, "  - "))]


def _line(key: str, said: str) -> list[str]:
    return _folded(said, f"{key:<{_KEY}}")


def _folded(said: str, start: str = "") -> list[str]:
    """Breaks a sentence at blanks; a name or a hash is never broken."""
    fold = textwrap.TextWrapper(WIDTH, start, " " * len(start), break_long_words=False, break_on_hyphens=False)
    return fold.wrap(said) or [start]
