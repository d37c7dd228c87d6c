"""Budget: what one person may lose over the whole stream."""

import dataclasses
import enum
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reticent import errors

_MOST_TASKS_PER_PERSON = 10_000
LARGE_EPSILON, LARGE_DELTA = 10.0, 1e-4


class Adjacency(enum.StrEnum):
    """Which pairs of data sets must look alike.

    Add-or-remove-one hides whether a person took part at all; replace-one hides which of two records
    they contributed, with the number of records taken as public.

    Example:
        >>> Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE).adjacency.value
        'replace-one'
    """

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"


class Persons(enum.StrEnum):
    """How it is known whose the rows of a task are; the ledger records it for every spend.

    By ids, what one person adds to a task is bounded by us. Otherwise that is an assumption: stated by the user, or by
    nobody (rows of older ledgers, too). That nobody is in more tasks than the budget says is an assumption always.

    Example:
        >>> [persons.value for persons in Persons]
        ['by ids', 'each row, as stated', 'each row, as assumed']
    """

    BY_IDS = "by ids"
    STATED = "each row, as stated"
    ASSUMED = "each row, as assumed"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that one person may lose over the whole stream of tasks.

    Guarantees:
      - Values are validated at construction and never change.        test_budget_refuses
      - `tasks_per_person` and `examples_per_person` are assumptions the user states; every privacy
        statement prints them.                                 test_statement_prints_assumptions

    Args:
        epsilon: Bound on the privacy loss, above 0 and below 100 (beyond, nothing is protected anyway).
        delta: Chance that the bound fails, from 0 to below 1: of 10,000 persons delta * 10,000 may be exposed. Released
            labels need delta > 0. Above 10 or 1e-4, making a model warns.
        adjacency: Which neighbouring data sets the bound compares.
        tasks_per_person: In how many tasks one person may appear (the order n of task-wise adjacency).
        examples_per_person: How many examples one person may contribute to a task.
        score_epsilon: The most that a private score may cost later. Needed where it must be known before the first
            task: with a learner whose noise is not Gaussian and persons in several tasks.

    Example:
        >>> Budget(epsilon=1.0, delta=1e-5).tasks_per_person
        1
        >>> Budget(epsilon=-1, delta=1e-5)
        Traceback (most recent call last):
        reticent.errors.InvalidValue: Expected epsilon > 0 and epsilon < 100, got -1.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
    tasks_per_person: int = 1
    examples_per_person: int = 1
    score_epsilon: float | None = None

    def __post_init__(self) -> None:
        errors.set_real(self, "epsilon", above=0, below=errors.LARGEST_EPSILON)
        errors.set_real(self, "delta", above=0, below=1, at_least=True)
        errors.set_whole(self, "tasks_per_person", at_least=1, at_most=_MOST_TASKS_PER_PERSON)
        errors.set_whole(self, "examples_per_person", at_least=1, at_most=errors.MOST_EXAMPLES_PER_PERSON)
        if not isinstance(self.adjacency, Adjacency):
            names = " or ".join(f"Adjacency.{a.name}" for a in Adjacency)
            raise errors.InvalidValue(f"Expected adjacency to be {names}.")
        if self.score_epsilon is not None:
            errors.set_real(self, "score_epsilon", above=0, below=errors.LARGEST_EPSILON)
            if self.adjacency is Adjacency.REPLACE_ONE:
                raise errors.InvalidValue("Expected no score_epsilon under replace-one: there is no proof for it.")

    @property
    def cautions(self) -> list[str]:
        """What is allowed here and promises little, one sentence each: `LARGE_EPSILON`, `LARGE_DELTA`.

        >>> Budget(epsilon=1.0, delta=0.01).cautions
        ['Delta 0.01 is above 0.0001: of 10,000 persons, 100 may be exposed. Take less than one over their number.']
        """
        epsilon, delta = (f"{number:.6g}" for number in (self.epsilon, self.delta))
        exposed = f"of 10,000 persons, {self.delta * 10_000:,.6g} may be exposed. Take less than one over their number."
        small = f"Epsilon {epsilon} is above {LARGE_EPSILON:g}: it rules out hardly any attack on one person."
        return [
            *([small] if self.epsilon > LARGE_EPSILON else []),
            *([f"Delta {delta} is above {LARGE_DELTA:g}: {exposed}"] if self.delta > LARGE_DELTA else []),
        ]

    def warn(self) -> None:
        """Warns of what promises little; where a model is made with it, or planned."""
        for caution in self.cautions:
            warnings.warn(caution, errors.ReticentWarning, stacklevel=4)

    def to_json(self) -> dict[str, Any]:
        """Returns the budget as plain JSON values."""
        said = {**dataclasses.asdict(self), "adjacency": str(self.adjacency)}
        return said if self.score_epsilon is not None else {k: v for k, v in said.items() if k != "score_epsilon"}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Budget":
        """Returns the budget that `to_json` wrote; other keys are left alone.

        >>> Budget.from_json(Budget(epsilon=2.0, delta=1e-6).to_json()).epsilon
        2.0
        """
        names = {field.name for field in dataclasses.fields(cls)} - {"score_epsilon"}
        fields = {name: value[name] for name in names} | {"score_epsilon": value.get("score_epsilon")}
        return cls(**{**fields, "adjacency": Adjacency(fields["adjacency"])})
