"""The privacy statement: what was spent, on what, under which assumptions. Text and JSON from the same facts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from typing import Any

from reticent import names
from reticent.budget import Adjacency, Budget, Persons
from reticent.memory import STOLEN, Epoch
from reticent.privacy import accounting, events, stored_events
from reticent.privacy.conditions import ENFORCED, Condition, conditions
from reticent.privacy.events import Event
from reticent.privacy.rounding import exact, rounded_up

FORMAT, VERSION = "reticent privacy statement", 2  # of the JSON
ORDERS_SHOWN = (1, 3, 12)
NOT_PRIVATE = "NOT PRIVATE: noise was drawn from a seeded source, or something was published without privacy."
ONE_ID = "each person has one id, and no two share one"
UNCOVERED = "tuning not covered"  # how an act begins that the guarantee does not hold for


@dataclass(frozen=True, kw_only=True)
class Spend:
    """One spend in a ledger; `persons` says how it is known whose the rows of its task are."""

    row: int
    at: str
    task: str
    event: Event
    private: bool
    persons: Persons = Persons.ASSUMED
    published: bool = False
    voided: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it was published or voided: what becomes of it is decided."""
        return self.published or self.voided is not None


@dataclass(frozen=True, kw_only=True)
class Act:
    """Something recorded beside the spends: a public label added by hand, or how a learner was tuned."""

    row: int
    at: str
    text: str


@dataclass(frozen=True, kw_only=True)
class EpochCost:
    """What the tasks of one epoch of memory cost one person, at the budget's delta and under its adjacency.

    Args:
        epoch: Its number.
        tasks: How many were paid for.
        now: Epsilon of these.
        at_most: Epsilon once all of its places are used.
    """

    epoch: int
    tasks: int
    now: float
    at_most: float


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What the spends of a ledger cost one person, and under which assumptions.

    Args:
        budget: What one person may lose over the whole stream.
        spends: In the order of the ledger.
        acts: Recorded beside them.
        identity: The ledger's random name, which the releases repeat; None without a ledger.
        head: The hash of the ledger's last row, which covers all rows before it.
        memory: The epoch of a model with memory.
        name: That of the model's folder; None in memory.
        persons: What was said of persons when the model was made; spends say it for their own tasks.

    Example:
        >>> print(Statement(budget=Budget(epsilon=1.0, delta=1e-5), spends=()).text().splitlines()[0])
        Privacy statement
    """

    budget: Budget
    spends: Sequence[Spend]
    acts: Sequence[Act] = ()
    identity: str | None = None
    head: str | None = None
    memory: Epoch | None = None
    name: str | None = None
    persons: Persons = Persons.ASSUMED

    @cached_property
    def tasks(self) -> dict[str, Event]:
        """What each task spent: sequential within the task, without voided rows."""
        parts: dict[str, list[Event]] = {}
        for spend in self.spends:
            if spend.voided is None:
                parts.setdefault(spend.task, []).append(spend.event)
        return {task: events.compose(*spent) for task, spent in parts.items()}

    @property
    def software(self) -> str:
        """The version of reticent that states this."""
        return metadata.version("reticent")

    @property
    def private(self) -> bool:
        """False as soon as one row was drawn from a seeded source or published without privacy."""
        return all(spend.private for spend in self.spends)

    @property
    def not_covered(self) -> list[str]:
        """What was done with sensitive data outside the guarantee, one sentence for each."""
        return [names.shown(act.text) for act in self.acts if act.text.startswith(UNCOVERED)]

    @cached_property
    def now(self) -> accounting.Cost:
        """What one person has lost so far at the budget's delta, under both adjacencies; by an epoch's rows so far."""
        return self._cost(accounting.so_far(list(self.tasks.values())), self.budget.tasks_per_person, self.budget.delta)

    @property
    def epsilon(self) -> float:
        """What one person has lost so far at the budget's delta and under its adjacency, rounded up."""
        return self.now.under(self.budget.adjacency)

    @property
    def condition(self) -> str:
        """Returns what must be true of persons for the printed epsilon to hold; never print one without the other.

        >>> Statement(budget=Budget(epsilon=1.0, delta=1e-5), spends=()).condition
        'no person is in more than 1 task, and each row is another person; this is not checked'
        """
        budget, known = self.budget, {spend.persons for spend in self.spends if spend.voided is None} or {self.persons}
        rows, n = budget.examples_per_person, budget.tasks_per_person
        within = "each row is another person" if rows == 1 else f"nobody has more than {rows:,} rows in a task"
        if known == {Persons.BY_IDS}:
            within = ONE_ID
        elif Persons.BY_IDS in known:
            within += f" (in the tasks without person ids), {ONE_ID}"
        beside = "" if Persons.BY_IDS in known else "and "
        return f"no person is in more than {_counted(n, 'task')}, {beside}{within}; this is not checked"

    # --- sentences: text, JSON, pages, card, `spent()` and the command line show these and no others

    def sentences(self) -> list[str]:
        """Returns all that must be read with a number of this statement, one sentence each.

        Guarantees: text, JSON, both pages and the card have them all.      test_every_sentence_is_shown_everywhere
        """
        memory = [] if self.memory is None else self.memory_sentences(self.memory)
        return [*self.warnings(), self.claim, self.at_most, *self.in_tasks(), *self.assumptions(), *memory]

    def warnings(self) -> list[str]:
        """Returns why the claim does not hold, does not cover everything, or says little."""
        return [
            *([] if self.private else [f"{NOT_PRIVATE} Do not publish these releases."]),
            *(f"NOT COVERED: {said}" for said in self.not_covered),
            *self.budget.cautions,
        ]

    @property
    def claim(self) -> str:
        """What was used of the budget, and the condition under which that is so.

        >>> Statement(budget=Budget(epsilon=1.0, delta=1e-5), spends=()).claim.split(". ")[0]
        'Epsilon 0.0000 of 1 used at delta 1e-05 (add-or-remove-one)'
        """
        budget = self.budget
        if not self.private:
            return "What one person has lost has no bound."
        used = f"Epsilon {rounded_up(self.epsilon)} of {exact(budget.epsilon)} used at delta {exact(budget.delta)}"
        return f"{used} ({budget.adjacency}). Valid only if {self.condition}."

    @property
    def at_most(self) -> str:
        """What one person may lose over the whole stream."""
        if not self.private:
            return "No budget bounds what follows, either."
        most = f"epsilon {exact(self.budget.epsilon)} at delta {exact(self.budget.delta)}"
        reserved = self.budget.score_epsilon
        scores = "" if reserved is None else f" Private scores of at most epsilon {exact(reserved)} are reserved."
        follow = "however many tasks follow, under the same condition: a spend beyond it is refused."
        return f"At most {most}, {follow}{scores}"

    def in_tasks(self) -> list[str]:
        """Returns what a person would lose who were in more tasks like those spent so far."""
        return [self._in_tasks(n) for n in ORDERS_SHOWN]

    def _in_tasks(self, n: int) -> str:
        such, at = f"In {_counted(n, 'such task')}:", self.budget.delta
        epsilon, delta = self.bound_if_in(n) if self.private else (math.inf, at)
        if math.isinf(epsilon):
            return f"{such} no bound"
        reached = f"{such} epsilon {rounded_up(epsilon)} at delta {exact(delta)}"
        return reached if delta == at else f"{reached}; no bound at {exact(at)}"

    def spent(self) -> dict[str, Any]:
        """Returns the loss so far, rounded up, with what it assumes of persons, beside the budget."""
        return {
            "epsilon": float(rounded_up(self.epsilon)),
            "if": self.condition,
            "budget": self.budget.epsilon,
            "delta": self.budget.delta,
            "adjacency": str(self.budget.adjacency),
            "private": self.private,
            "warnings": self.warnings(),
            "in_tasks": self.in_tasks(),
        }

    def if_in(self, tasks_per_person: int, *, delta: float | None = None) -> float:
        """Returns epsilon for a person in that many tasks like those spent so far, under the budget's adjacency."""
        kinds = list(dict.fromkeys(self.tasks.values())) * tasks_per_person
        return self._cost(kinds, tasks_per_person, delta or self.budget.delta).under(self.budget.adjacency)

    def bound_if_in(self, tasks_per_person: int) -> tuple[float, float]:
        """Returns epsilon and delta for a person in that many tasks like those spent so far.

        At the budget's delta where epsilon has a bound there; else at twice the delta that so many tasks cost:
        exposures of new labels add up, and beyond delta no epsilon bounds them.
        """
        delta = self.budget.delta
        wider = min(float(f"{2 * tasks_per_person * delta:.6g}"), 0.5)  # printed, so without the noise of float64
        reached = self.if_in(tasks_per_person)
        if math.isfinite(reached) or wider <= delta:
            return reached, delta
        return self.if_in(tasks_per_person, delta=wider), wider

    def price(self, spend: Spend) -> float:
        """Returns epsilon of one spend by itself, at the budget's delta and under its adjacency."""
        return self._prices[spend.event]

    @cached_property
    def _prices(self) -> dict[Event, float]:
        kinds, budget = {spend.event for spend in self.spends}, self.budget
        return {kind: self._cost([kind], 1, budget.delta).under(budget.adjacency) for kind in kinds}

    @cached_property
    def epochs(self) -> list[EpochCost]:
        """What each epoch of memory has come to; its tasks count once, together."""
        rows: dict[int, list[Event]] = {}
        for spend in self.spends:
            if isinstance(spend.event, events.Remembered) and spend.voided is None:
                rows.setdefault(spend.event.epoch, []).append(spend.event)
        return [
            EpochCost(
                epoch=number,
                tasks=len(found),
                now=self._of_one_epoch(accounting.so_far(found)),
                at_most=self._of_one_epoch(found),
            )
            for number, found in rows.items()
        ]

    def _of_one_epoch(self, rows: list[Event]) -> float:
        return self._cost(rows, self.budget.tasks_per_person, self.budget.delta).under(self.budget.adjacency)

    def _cost(self, tasks: list[Event], order: int, delta: float) -> accounting.Cost:
        """What a stream costs; where the budget holds, no more than that.

        A search ends just above what it looks for, and finds nothing where a group bound is low enough there alone.
        """
        cost, budget = accounting.stream_cost(tasks, delta, order), self.budget
        above = cost.under(budget.adjacency) - budget.epsilon
        if delta != budget.delta or not (0 < above < 1e-6 * budget.epsilon or math.isinf(above)):
            return cost
        reached = accounting.stream_delta(tasks, budget.epsilon, order, adjacency=budget.adjacency)
        return cost if reached > delta else cost.at_most(budget.epsilon, budget.adjacency)

    def json(self) -> dict[str, Any]:
        """Returns the statement as plain JSON values, as `privacy_statement.schema.json` describes them.

        Costs are under the budget's adjacency and rounded up, as in the text; infinite ones are null.
        """
        budget = self.budget
        return {
            "format": FORMAT,
            "version": VERSION,
            "private": self.private,
            "not_covered": self.not_covered,
            "software": f"reticent {self.software}",
            "name": self.name,
            "ledger": {"identity": self.identity, "head": self.head},
            "budget": budget.to_json(),
            "rows": [
                {
                    "row": spend.row,
                    "at": spend.at,
                    "task": spend.task,
                    "event": stored_events.to_json(spend.event),
                    "epsilon": _number(self.price(spend)),
                    "private": spend.private,
                    "persons": spend.persons.value,
                    "published": spend.published,
                    "voided": spend.voided,
                }
                for spend in self.spends
            ],
            "acts": [{"row": act.row, "at": act.at, "act": act.text} for act in self.acts],
            "totals": {
                "now": {
                    "epsilon": _number(self.epsilon),
                    "delta": budget.delta,
                    "add_or_remove_one": _number(self.now.epsilon),
                    "replace_one": _number(self.now.replace_one),
                    "replace_one_bound": tightness(self.now),
                },
                "if": self.condition,
                "at_most": {"epsilon": budget.epsilon, "delta": budget.delta},
                "epsilon_by_tasks_per_person": {str(n): _number(self.if_in(n)) for n in ORDERS_SHOWN},
                "bound_by_tasks_per_person": {str(n): self._bound_json(n) for n in ORDERS_SHOWN},
            },
            "assumptions": self.assumptions(),
            "sentences": self.sentences(),
            **({} if self.memory is None else {"memory": self._memory_json(self.memory)}),
        }

    def _bound_json(self, n: int) -> dict[str, float | None]:
        epsilon, delta = self.bound_if_in(n)
        return {"epsilon": _number(epsilon), "delta": delta}

    def _memory_json(self, memory: Epoch) -> dict[str, Any]:
        return {
            "a": memory.eighths / 8,
            "why": memory.why(self.budget.tasks_per_person),
            "horizon": memory.horizon,
            "recurring": memory.recurring,
            "epoch": memory.number,
            "epochs": [
                {"epoch": e.epoch, "tasks": e.tasks, "now": _number(e.now), "at_most": _number(e.at_most)}
                for e in self.epochs
            ],
            "stolen": STOLEN,
        }

    def memory_sentences(self, memory: Epoch) -> list[str]:
        """Returns what is to be said of an epoch of memory, one sentence each."""
        used = next((cost.tasks for cost in self.epochs if cost.epoch == memory.number), 0)
        return [
            f"Epoch {memory.number}: {used} of at most {memory.horizon} tasks.",
            memory.why(self.budget.tasks_per_person),
            *(
                f"Epoch {cost.epoch}, its {cost.tasks} task(s) together: epsilon {rounded_up(cost.now)} now, "
                f"{rounded_up(cost.at_most)} at most."
                for cost in self.epochs
            ),
            STOLEN,
        ]

    def conditions(self) -> list[Condition]:
        """Returns what is enforced and what is assumed, with the numbers of this model."""
        tasks, rows = _counted(self.budget.tasks_per_person, "task"), _counted(self.budget.examples_per_person, "row")
        return conditions(tasks=tasks, rows=rows, memory=self.memory is not None)

    @property
    def compared(self) -> str:
        """Which data sets must look alike."""
        return {
            Adjacency.ADD_OR_REMOVE_ONE: "We compare the data with and without everything that one person contributed.",
            Adjacency.REPLACE_ONE: "We compare the data with others, in which one person contributed as many other "
            "records; the number of records is public.",
        }[self.budget.adjacency]

    def assumptions(self) -> list[str]:
        """Returns what the guarantee rests on, one sentence each."""
        assumed = [condition.sentence for condition in self.conditions() if condition.status != ENFORCED]
        return [self.compared, *assumed]

    def text(self) -> str:
        """Returns the statement as text, at most 80 columns wide."""
        from reticent.privacy import statement_text

        return statement_text.text(self)


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n > 1)}"


def tightness(cost: accounting.Cost) -> str:
    """Returns whether the bound under replace-one is reached."""
    return "tight" if cost.replace_one_is_tight else "upper bound"


def _number(epsilon: float) -> float | None:
    return None if math.isinf(epsilon) else float(rounded_up(epsilon))
