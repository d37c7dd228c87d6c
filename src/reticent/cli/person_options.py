"""What the command line asks and says of persons: whose the rows are, in how many tasks one is, what one has lost."""

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent import errors
from reticent.budget import Adjacency, Budget

if TYPE_CHECKING:
    from reticent.policies import Policy
    from reticent.privacy.statement import Statement

Person = Annotated[str | None, typer.Option("--person", help="Column that says whose example each row is; or:")]
EachRow = Annotated[
    bool, typer.Option("--each-row-is-a-person", help="Instead of --person: your word that no person has two rows.")
]
TasksPerPerson = Annotated[int | None, typer.Option(help="In how many tasks one person may appear; must be said.")]
ReplaceOne = Annotated[
    bool, typer.Option("--replace-one", help="Neighbours differ in what one person contributed, not in whether.")
]

ScoreEpsilon = Annotated[
    float | None,
    typer.Option(
        help="The most that one `evaluate --epsilon` may cost later; needed with --learner peft where persons are in "
        "several tasks, since it must be fixed before the first."
    ),
]

_WIDTH = 79


def budget(
    epsilon: float, delta: float, tasks: int | None, examples: int, replace_one: bool, score: float | None = None
) -> Budget:
    """Returns the budget of a model; the user must have said in how many tasks one person may be."""
    if tasks is None:
        raise errors.InvalidValue(
            "Expected --tasks-per-person N: in how many tasks (files to learn, private tests, tuning) may one person "
            "be? 1 if nobody is in two, 12 if somebody may come back each month for a year. epsilon is for all of them."
        )
    adjacency = Adjacency.REPLACE_ONE if replace_one else Adjacency.ADD_OR_REMOVE_ONE
    return Budget(
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        tasks_per_person=tasks,
        examples_per_person=examples,
        score_epsilon=score,
    )


def said(person: str | None, each_row_is_a_person: bool, settings: Mapping[str, Any]) -> str | None:
    """Returns the column with ids, None where each row is a person: as is said now, or was said to init.

    Refuses private data while nobody has said whose the rows are: what one person loses means nothing then.
    """
    from reticent.released.settings import PERSON

    if person is None and not each_row_is_a_person and PERSON in settings:
        stored: str | None = settings[PERSON]
        return stored
    if (person is None) != each_row_is_a_person:
        raise errors.InvalidValue(
            "Expected --person COLUMN, the column that says whose example each row is; or --each-row-is-a-person, your "
            "word that no person has two rows. Not both."
        )
    return person


def folded(sentence: str) -> str:
    """Returns a sentence in lines of less than 80 columns."""
    return textwrap.fill(sentence, _WIDTH, break_on_hyphens=False)


def say_sizes(policy: "Policy", budget: Budget, *, remembers: bool) -> None:
    """Says which classes will be released before anything is spent; beside the output, for it is no result."""
    from reticent.policies import ReleasedLabels

    if isinstance(policy, ReleasedLabels):
        gather = "New labels gather evidence over tasks; `reticent plan --memory` shows when they become known."
        typer.echo(folded(gather if remembers else policy.expectation(budget)), err=True)


def say_spent(statement: "Statement") -> None:
    """Says what was lost, never without what that assumes, and what else must be read with it."""
    for sentence in (statement.claim, *statement.warnings()):
        typer.echo(folded(sentence))
