"""The privacy statement: what was spent, on what, under which assumptions. Text and JSON from the same facts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reticent import names
from reticent.budget import Adjacency, Budget
from reticent.privacy import accounting, events
from reticent.privacy.events import Event

ORDERS_SHOWN = (1, 3, 12)
UNCOVERED = "tuning not covered"  # how an act begins that the guarantee does not hold for


@dataclass(frozen=True, kw_only=True)
class Spend:
    """One spend in a ledger."""

    row: int
    at: str
    task: str
    event: Event
    private: bool
    published: bool = False
    voided: str | None = None


@dataclass(frozen=True, kw_only=True)
class Act:
    """Something recorded beside the spends: a public label added by hand, or how a learner was tuned."""

    row: int
    at: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What the spends of a ledger cost one person, and under which assumptions.

    Args:
        budget: What one person may lose over the whole stream.
        spends: In the order of the ledger.
        acts: Recorded beside them.
        identity: The ledger's random name, which the releases repeat; None for an earlier format.
        head: The hash of the ledger's last row, which covers all rows before it.

    Example:
        >>> print(Statement(budget=Budget(epsilon=1.0, delta=1e-5), spends=()).text().splitlines()[0])
        Privacy statement
    """

    budget: Budget
    spends: Sequence[Spend]
    acts: Sequence[Act] = ()
    identity: str | None = None
    head: str | None = None

    @cached_property
    def tasks(self) -> dict[str, Event]:
        """What each task spent: sequential within the task, without voided rows."""
        parts: dict[str, list[Event]] = {}
        for spend in self.spends:
            if spend.voided is None:
                parts.setdefault(spend.task, []).append(spend.event)
        return {task: events.compose(*spent) for task, spent in parts.items()}

    @property
    def private(self) -> bool:
        """False as soon as one row was drawn from a seeded source."""
        return all(spend.private for spend in self.spends)

    @property
    def not_covered(self) -> list[str]:
        """What was done with sensitive data outside the guarantee, one sentence for each."""
        return [names.shown(act.text) for act in self.acts if act.text.startswith(UNCOVERED)]

    @cached_property
    def now(self) -> accounting.Cost:
        """What one person has lost so far at the budget's delta."""
        return accounting.stream_cost(list(self.tasks.values()), self.budget.delta, self.budget.tasks_per_person)

    def if_in(self, tasks_per_person: int) -> float:
        """Returns epsilon for a person in that many tasks like those spent so far."""
        kinds = list(dict.fromkeys(self.tasks.values()))
        return accounting.stream_cost(kinds * tasks_per_person, self.budget.delta, tasks_per_person).epsilon

    def json(self) -> dict[str, Any]:
        """Returns the statement as plain JSON values; infinite costs are null."""
        budget = self.budget
        return {
            "private": self.private,
            "not_covered": self.not_covered,
            "ledger": {"identity": self.identity, "head": self.head},
            "budget": budget.to_json(),
            "rows": [
                {
                    "row": spend.row,
                    "at": spend.at,
                    "task": spend.task,
                    "event": events.to_json(spend.event),
                    "epsilon": _finite(accounting.epsilon(spend.event, budget.delta)),
                    "private": spend.private,
                    "published": spend.published,
                    "voided": spend.voided,
                }
                for spend in self.spends
            ],
            "acts": [{"row": act.row, "at": act.at, "act": act.text} for act in self.acts],
            "totals": {
                "now": {
                    "epsilon": _finite(self.now.epsilon),
                    "replace_one": _finite(self.now.replace_one),
                    "replace_one_bound": _tightness(self.now),
                },
                "at_most": {"epsilon": budget.epsilon, "delta": budget.delta},
                "epsilon_by_tasks_per_person": {str(n): _finite(self.if_in(n)) for n in ORDERS_SHOWN},
            },
            "assumptions": self.assumptions(),
        }

    def assumptions(self) -> list[str]:
        """Returns what the guarantee rests on, one sentence each."""
        budget = self.budget
        change = {
            Adjacency.ADD_OR_REMOVE_ONE: "adding or removing everything one person contributed",
            Adjacency.REPLACE_ONE: "replacing everything one person contributed; the number of examples is public",
        }[budget.adjacency]
        return [
            f"Neighbouring data sets differ by {change}.",
            f"One person appears in at most {budget.tasks_per_person} task(s) "
            f"and contributes at most {budget.examples_per_person} example(s) to a task.",
            "Which task an example belongs to depends on that example alone.",
            "Running time, memory use and who may read the raw data are outside the guarantee.",
        ]

    def text(self) -> str:
        """Returns the statement as text."""
        budget = self.budget
        lines = ["Privacy statement"]
        if not self.private:
            lines += ["", "NOT PRIVATE: noise was drawn from a seeded source. Do not publish these releases."]
        if self.not_covered:
            lines += ["", *(f"NOT COVERED: {sentence}" for sentence in self.not_covered)]
        lines += [
            "",
            f"Budget      epsilon {budget.epsilon:g}, delta {budget.delta:g}, {budget.adjacency}: what one person may",
            "            lose over the whole stream. A spend beyond it is refused.",
            f"Spent now   epsilon {rounded_up(self.now.epsilon)} at delta {budget.delta:g} (add-or-remove-one); "
            f"{rounded_up(self.now.replace_one)} ({_tightness(self.now)}) for replace-one",
            f"At most     epsilon {budget.epsilon:g} at delta {budget.delta:g}, however many tasks follow",
            "If a person were in n such tasks: "
            + ", ".join(f"n = {n}: epsilon {rounded_up(self.if_in(n))}" for n in ORDERS_SHOWN),
            *([f"Ledger      {self.identity or 'without identity, of an earlier format'}"] if self.head else []),
            *([f"Head        {self.head}"] if self.head else []),
            "",
            "Assumptions",
            *(f"  - {sentence}" for sentence in self.assumptions()),
            "",
            "Spends" if self.spends else "Spends: none yet",
        ]
        for spend in self.spends:
            marks = [] if spend.private else ["NOT PRIVATE"]
            marks += ["published"] if spend.published else []
            marks += [f"voided: {names.shown(spend.voided)}"] if spend.voided is not None else []
            price = rounded_up(accounting.epsilon(spend.event, budget.delta))
            note = f"  [{'; '.join(marks)}]" if marks else ""
            start = f"  {spend.row:>4}  {names.shown(spend.at)}  {names.shown(spend.task)}"
            lines.append(f"{start}: {spend.event}, epsilon {price} alone{note}")
        if self.acts:
            lines += ["", "Also recorded"]
            lines += [f"  {act.row:>4}  {names.shown(act.at)}  {names.shown(act.text)}" for act in self.acts]
        return "\n".join(lines)


def _tightness(cost: accounting.Cost) -> str:
    return "tight" if cost.replace_one_is_tight else "two-step group bound"


def rounded_up(epsilon: float | None) -> str:
    """Returns an epsilon as text, rounded up to four decimals; None is infinity, as in JSON.

    An excess of less than 1e-10 is taken for the rounding of float64.

    >>> rounded_up(0.99991), rounded_up(1.0), rounded_up(None)
    ('1.0000', '1.0000', 'infinity')
    """
    if epsilon is None or math.isinf(epsilon):
        return "infinity"
    return f"{math.ceil(epsilon * 1e4 - 1e-6) / 1e4:.4f}"


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value
