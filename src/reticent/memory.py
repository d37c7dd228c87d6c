"""Memory: what a model may keep between tasks, and for how long. Frozen descriptions without state."""

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.budget import Budget
from reticent.policies import Policy, PublicLabels
from reticent.privacy import events
from reticent.privacy.correlation import DEFAULT_HORIZON, LARGEST_EIGHTHS, LONGEST, Correlation, default_eighths

_IDENTITY = re.compile("[0-9a-f]{32}")
_LONGEST_PLACE = 1_000
MOST_LABELS = 2_000  # public; as many as publish every block without memory, see `gate/sparse`
STOLEN = (
    "Whoever reads the vault together with the releases knows the exact sums of every label in every task of its "
    "epoch, of labels that were never released too; nothing protects them there. Guard it like the examples themselves."
)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Lets noise cancel over tasks, and labels gather evidence, by a secret file in a folder outside of the model.

    The guarantee for whoever sees the releases stays the same; whoever gets the vault too knows exact sums. See
    docs/memory.md.

    Args:
        vault: A folder outside of the model's, for its owner alone.
        horizon: How many tasks an epoch has at most; `reticent vault rotate` begins the next one.
        recurring: Whether the same labels come back in most tasks, by public knowledge; None where that is not known.

    Example:
        >>> memory = Memory(vault="vault/", recurring=True)
        >>> memory.correlation(Budget(epsilon=1.0, delta=1e-5)).eighths
        3
        >>> memory.correlation(Budget(epsilon=1.0, delta=1e-5, tasks_per_person=12))
        Traceback (most recent call last):
        reticent.errors.InvalidValue: Expected at most 4 tasks per person with memory, got 12: correlated noise gains \
nothing for persons who are in many tasks. Learn without memory.
    """

    vault: str | os.PathLike[str]
    horizon: int = DEFAULT_HORIZON
    recurring: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.vault, str | os.PathLike) or not os.fspath(self.vault):
            raise errors.InvalidValue("Expected vault to be a folder, such as 'vault/'.")
        errors.set_whole(self, "horizon", at_least=2, at_most=LONGEST)
        if self.recurring is not None and not isinstance(self.recurring, bool):
            raise errors.InvalidValue("Expected recurring to be True, False, or None where it is not known.")

    def correlation(self, budget: Budget) -> Correlation:
        """Returns how noise of tasks is correlated: from public facts alone."""
        eighths = default_eighths(budget.tasks_per_person, self.recurring)
        if not eighths:
            raise errors.InvalidValue(
                f"Expected at most 4 tasks per person with memory, got {budget.tasks_per_person}: correlated noise "
                "gains nothing for persons who are in many tasks. Learn without memory."
            )
        return Correlation(eighths=eighths, horizon=self.horizon)


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One epoch of a model's memory, as its settings store it: all of it is public.

    Args:
        number: 1 for the first; `reticent vault rotate` begins the next.
        vault: The random name of its vault; None for a saved copy, which has none.
        place: Where the vault is, from the model's folder, if it lies beside that or below; else it is not stored, for
            a path tells about a machine.
        eighths: Of the exponent of its correlated noise.
        horizon: How many tasks it has at most.
        recurring: What was said of the labels.

    Example:
        >>> epoch = Epoch(number=1, vault="0" * 32, place="../vault", eighths=2, horizon=120, recurring=None)
        >>> Epoch.from_json(epoch.to_json()) == epoch
        True
    """

    number: int
    vault: str | None
    place: str | None
    eighths: int
    horizon: int
    recurring: bool | None

    def memory(self, model: Path, given: Path | None) -> Memory:
        """Returns what the user asked for, with the vault where it is said to be; "not stored" if nobody says it.

        Args:
            model: The model's folder.
            given: Where the user says that the vault is.
        """
        stored = "not stored" if self.place is None else model.parent / self.place.removeprefix("../")
        return Memory(vault=stored if given is None else given, horizon=self.horizon, recurring=self.recurring)

    @property
    def correlation(self) -> Correlation:
        """How noise of its tasks is correlated."""
        return Correlation(eighths=self.eighths, horizon=self.horizon)

    def why(self, tasks_per_person: int) -> str:
        """Returns the reason for the exponent of correlated noise, in a sentence.

        >>> epoch = Epoch(number=1, vault=None, place=None, eighths=2, horizon=120, recurring=None)
        >>> epoch.why(1)
        'a = 1/4, because a person is in one task and nothing is said about labels that come back: 8.0 % more noise on \
a class of one task, less on classes that come back often.'
        """
        more = self.correlation.gamma(tasks_per_person) / tasks_per_person**0.5 - 1
        persons = "a person is in one task" if tasks_per_person == 1 else f"a person may be in {tasks_per_person} tasks"
        labels = {
            True: "labels come back by public knowledge",
            False: "labels are said not to come back",
            None: "nothing is said about labels that come back",
        }[self.recurring]
        return (
            f"a = {Fraction(self.eighths, 8)}, because {persons} and {labels}: {100 * more:.1f} % more noise on a "
            "class of one task, less on classes that come back often."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the epoch as plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> "Epoch":
        """Returns the epoch that `to_json` wrote; refuses anything else with a ValueError."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(value, Mapping) or set(value) != names:
            raise ValueError("Expected an epoch of memory.")
        found = cls(**value)
        numbers = ((found.number, 1_000_000), (found.eighths, LARGEST_EIGHTHS), (found.horizon, LONGEST))
        if not (
            all(type(number) is int and 1 <= number <= most for number, most in numbers)
            and (found.vault is None or (isinstance(found.vault, str) and _IDENTITY.fullmatch(found.vault)))
            and (found.place is None or _is_place(found.place))
            and found.recurring in (None, True, False)
            and type(found.recurring) in (type(None), bool)
        ):
            raise ValueError("Expected an epoch of memory.")
        return found


def first_epoch(memory: Memory, budget: Budget, *, vault: str | None = None, place: str | None = None) -> Epoch:
    """Returns the first epoch of a model, from public facts alone.

    Args:
        memory: What the user asks for.
        budget: What one person may lose.
        vault: The random name of its vault.
        place: Where that is.
    """
    matrix = memory.correlation(budget)
    return Epoch(
        number=1,
        vault=vault,
        place=place,
        eighths=matrix.eighths,
        horizon=matrix.horizon,
        recurring=memory.recurring,
    )


def remembered(epoch: Epoch, policy: Policy, budget: Budget, *, known: int = 0) -> events.Remembered:
    """Returns what an epoch costs, from public facts alone; refuses what memory is not made for.

    Args:
        epoch: Its matrix and its number.
        policy: Where labels come from.
        budget: What one person may lose.
        known: How many labels are known.
    """
    weight = 0.0
    if isinstance(policy, PublicLabels):
        known = max(known, len(policy.space))
        if known > MOST_LABELS:
            raise errors.InvalidValue(
                f"Expected at most {MOST_LABELS:,} public labels with memory: beyond, only sums that stand out from "
                "noise are published, and rows that are left out cannot cancel noise later. Learn without memory."
            )
    elif policy.selection is not None or not policy.remember:
        raise errors.InvalidValue(
            "Expected ReleasedLabels() without a selection of its own with memory: labels are gathered over tasks by "
            "counts in the same noise as the sums."
        )
    else:
        weight = policy.weight(budget, horizon=epoch.horizon)
    from reticent.privacy import accounting  # takes a while to import

    return accounting.remembered(
        budget, epoch=epoch.number, eighths=epoch.eighths, horizon=epoch.horizon, count_weight=weight
    )


def place_of(vault: Path, model: Path) -> str | None:
    """Returns where a vault is from a model's folder, if that tells nothing about the machine; else None.

    >>> place_of(Path("/data/vaults/one"), Path("/data/model")), place_of(Path("/secret"), Path("/data/model"))
    ('../vaults/one', None)
    """
    around = model.parent
    if not vault.is_relative_to(around) or around == Path(around.anchor):
        return None
    place = f"../{vault.relative_to(around).as_posix()}"
    return place if _is_place(place) else None


def _is_place(place: object) -> bool:
    if not isinstance(place, str) or len(place) > _LONGEST_PLACE or not place.isprintable() or "\\" in place:
        return False
    first, *rest = place.split("/")
    return first == ".." and bool(rest) and all(part not in ("", ".", "..") for part in rest)
