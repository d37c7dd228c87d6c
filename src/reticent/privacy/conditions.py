"""What is enforced and what is assumed, and who could break it: one table for statements, pages and documents."""

from dataclasses import dataclass

ENFORCED, ASSUMED, BY_IDS = "enforced", "assumed", "enforced with ids, else assumed"


@dataclass(frozen=True)
class Condition:
    """One thing that a privacy statement rests on.

    Args:
        sentence: What must be true.
        status: `ENFORCED`, `ASSUMED` or `BY_IDS`.
        broken_by: Who could break it, and how.
    """

    sentence: str
    status: str
    broken_by: str


def conditions(*, tasks: str = "n tasks", rows: str = "m rows", memory: bool = True) -> list[Condition]:
    """Returns all conditions; SECURITY.md and docs/guide-officer.md have the same table.

    Args:
        tasks: In how many tasks one person may be.
        rows: How many rows one person may add to a task.
        memory: Whether the model has a vault.

    Example:
        >>> [condition.status for condition in conditions()][:2]
        ['enforced', 'enforced']
    """
    found = [
        Condition(
            "A cost is in the ledger before noise is drawn, and a cost beyond the budget is refused.",
            ENFORCED,
            "who can write to the model folder; an anchor that is kept elsewhere shows it",
        ),
        Condition(
            "A task name is learned once.", ENFORCED, "nobody, but the same rows under another name are another task"
        ),
        Condition(
            "What is released was paid for, and its noise comes from the operating system; other noise is marked NOT "
            "PRIVATE.",
            ENFORCED,
            "who writes a learner or an encoder, changes this program, or resumes a virtual machine twice",
        ),
        Condition(
            f"One person adds at most {rows} to a task: by ids, further rows are left out; without ids, nothing "
            "checks it.",
            BY_IDS,
            "who prepares rows without ids",
        ),
        Condition(
            f"No person is in more than {tasks}: what was learned, private tests and private tuning. Ids are "
            "not compared between tasks.",
            ASSUMED,
            "who learns the same rows under two names, or lets persons come back more often",
        ),
        Condition(
            "Where there are ids, each person has one, and no two share one.",
            ASSUMED,
            "who hands out ids: two spellings of one, one for two",
        ),
        Condition(
            "Which task a record belongs to depends on that record alone, such as on its date.",
            ASSUMED,
            "who divides the data: equal parts, quotas, an order",
        ),
        Condition(
            "Names, number and types of columns are public, and what turned records into inputs (scalers, vectorizers, "
            "encoders) was fixed without these data.",
            ASSUMED,
            "who prepares the data",
        ),
        Condition(
            "Public labels, their names, settings and public test data do not come from these data.",
            ASSUMED,
            "who chooses them",
        ),
        Condition(
            "Nothing of a voided row was published, and one copy of the model folder learns.",
            ASSUMED,
            "who voids a row; who copies or restores a folder: an anchor shows it",
        ),
        Condition(
            "Running time, memory use and who may read the raw data are outside the guarantee.",
            ASSUMED,
            "who watches the machine",
        ),
    ]
    if memory:
        vault = "Nobody who sees the releases reads the vault."
        found.append(Condition(vault, ASSUMED, "who may read or copy its folder"))
    return found
