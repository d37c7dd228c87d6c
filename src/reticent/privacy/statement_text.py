"""The privacy statement as people read it: at most 80 columns, few digits, and what is not private on top."""

import math
import textwrap

from reticent import names
from reticent.budget import Adjacency
from reticent.privacy import events
from reticent.privacy.event_words import in_words
from reticent.privacy.rounding import exact, rounded_up
from reticent.privacy.statement import NOT_PRIVATE, ORDERS_SHOWN, Spend, Statement, tightness

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
    lines += [] if statement.private else ["", *_folded(f"{NOT_PRIVATE} Do not publish these releases.")]
    uncovered = [line for said in statement.not_covered for line in _folded(f"NOT COVERED: {said}")]
    lines += ["", *uncovered] if uncovered else []
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
    private = "yes: all noise came from the operating system" if statement.private else "NO"
    return [
        *([] if statement.name is None else _line("Model", names.shown(statement.name))),
        *_line("Written by", f"reticent {statement.software}"),
        *(_line("Ledger", statement.identity or "without identity, of an earlier format") if statement.head else []),
        *(_line("Head", statement.head) if statement.head else []),
        *_line("Private", private if statement.spends else "nothing was drawn yet"),
        *_line("Tuning", "; ".join(tuned) or "none is recorded"),
        *_line("Not covered", OUTSIDE),
    ]


def _costs(statement: Statement) -> list[str]:
    budget, now = statement.budget, statement.now
    of_budget, at = f"epsilon {exact(budget.epsilon)}", f"at delta {exact(budget.delta)}"
    other = f"{rounded_up(now.replace_one)} ({tightness(now)}) for replace-one"
    if budget.adjacency is Adjacency.REPLACE_ONE:
        other = f"{rounded_up(now.epsilon)} for add-or-remove-one"
    spent = f"epsilon {rounded_up(statement.epsilon)} {at} ({budget.adjacency}); {other};"
    purpose = "what one person may lose over the whole stream. A spend beyond it is refused."
    return [
        *_line("Budget", f"{of_budget}, delta {exact(budget.delta)}, {budget.adjacency}: {purpose}"),
        *_line("Spent now", spent),
        *_line("", f"if {statement.condition}"),
        *_line("At most", f"{of_budget} {at}, however many tasks follow, under the same condition"),
        "If a person were in n such tasks:",
        *(_in_tasks(statement, tasks) for tasks in ORDERS_SHOWN),
    ]


def _in_tasks(statement: Statement, tasks: int) -> str:
    epsilon, delta = statement.bound_if_in(tasks)
    start = f"  n = {tasks:<5} "
    if math.isinf(epsilon):
        return f"{start}no bound"
    reached = f"{start}epsilon {rounded_up(epsilon)} at delta {exact(delta)}"
    return reached if delta == statement.budget.delta else f"{reached}; no bound at {exact(statement.budget.delta)}"


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
