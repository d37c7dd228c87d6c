"""LabelSpace: the labels a classifier may output, and how they became known."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from reticent import errors, events
from reticent.events import Event

Label = Hashable
_PUBLIC = events.Public()

UNKNOWN: Final = "<unknown>"
"""What a classifier answers while it knows no label; public and fixed."""


def usable(label: object) -> bool:
    """Says whether something can be a label at all: hashable, not None, equal to itself (NaN is not).

    >>> [usable(label) for label in ("E10", 7, None, float("nan"), ["list"])]
    [True, True, False, False, False]
    """
    try:
        hash(label)
    except TypeError:
        return False
    return label is not None and bool(label == label)


def in_public_order(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Sorts labels by what they are, so that their order says nothing about the data they came from.

    >>> in_public_order(["b", 10, 2, "a"])
    (2, 10, 'a', 'b')
    """
    return tuple(sorted(labels, key=_place))


def _place(label: Label) -> tuple[str, float, str]:
    if isinstance(label, int | float):
        return "", float(label), type(label).__name__
    return type(label).__name__, 0.0, str(label)


@dataclass(frozen=True)
class LabelSpace:
    """The only thing that may size an output.

    Guarantees:
      - Labels keep their names and their order; a space never changes.      test_label_space_is_a_value
      - A union is idempotent and keeps the order of what was known.         test_union_is_idempotent

    Args:
        labels: Distinct labels, in a public order.
        event: What it cost to know them: `events.Public()` where they are public.

    Example:
        >>> LabelSpace(("E10", "E11")).union(LabelSpace(("E11", "E12"))).labels
        ('E10', 'E11', 'E12')
    """

    labels: tuple[Label, ...]
    event: Event = _PUBLIC

    def __post_init__(self) -> None:
        if not isinstance(self.labels, tuple):
            raise errors.InvalidValue("Expected the labels of a label space as a tuple.")
        if not all(map(usable, self.labels)):
            raise errors.InvalidValue("Expected hashable labels; None and NaN cannot be labels, name them.")
        if len(set(self.labels)) < len(self.labels):
            raise errors.InvalidValue("Expected distinct labels, got some twice.")
        if not isinstance(self.event, Event):
            raise errors.InvalidValue("Expected an event that says how the labels became known.")

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self.labels

    def union(self, other: "LabelSpace") -> "LabelSpace":
        """Returns both spaces as one, the labels known here first."""
        known = set(self.labels)
        new = tuple(label for label in other.labels if label not in known)
        if not new:
            return self
        parts = [space.event for space in (self, other) if space.event != events.Public()]
        return LabelSpace(self.labels + new, events.compose(*parts) if parts else events.Public())
