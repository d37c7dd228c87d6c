"""Frozen descriptions of what was spent; `accounting` turns them into epsilon and delta.

Everything here is public. An event says which mechanism ran and with which noise, never on what data.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reticent import errors

# A count slot smaller than this is lost on the integer grid.
SMALLEST_COUNT_WEIGHT = 1e-9


@dataclass(frozen=True)
class Event:
    """Base of all events; `accounting` refuses an event it does not know."""


@dataclass(frozen=True)
class Public(Event):
    """Nothing private was touched: costs nothing."""


@dataclass(frozen=True)
class NonPrivate(Event):
    """Something private left without noise: costs infinity."""


@dataclass(frozen=True, kw_only=True)
class Gaussian(Event):
    """A sum plus Gaussian noise.

    Args:
        noise_multiplier: Standard deviation of the noise over the most that one example can change the sum.
        examples_per_person: How many examples one person may contribute.

    >>> Gaussian(noise_multiplier=0)
    Traceback (most recent call last):
    reticent.errors.InvalidValue: Expected noise_multiplier > 0 and finite, got 0.
    """

    noise_multiplier: float
    examples_per_person: int = 1

    def __post_init__(self) -> None:
        errors.set_real(self, "noise_multiplier", above=0, below=math.inf)
        errors.set_whole(self, "examples_per_person", at_least=1)


@dataclass(frozen=True, kw_only=True)
class Exposure(Event):
    """A chance that something of a person is seen as it is, whatever else is released."""

    chance: float

    def __post_init__(self) -> None:
        errors.set_real(self, "chance", above=0, below=1, at_least=True)


@dataclass(frozen=True, kw_only=True)
class JointGaussian(Event):
    """Counts and per-label sums of one task as one Gaussian (THEORY section 4).

    Args:
        noise_multiplier: Standard deviation added to every coordinate of the weighted sums.
        count_weight: c^2, the share of an example's squared norm that counts it; 0 < c^2 < 1.
        threshold: tau, in examples: an unknown label is released iff its noisy count exceeds it.
        examples_per_person: How many examples one person may contribute to the task.
    """

    noise_multiplier: float
    count_weight: float
    threshold: float
    examples_per_person: int = 1

    def __post_init__(self) -> None:
        errors.set_real(self, "noise_multiplier", above=0, below=math.inf)
        errors.set_real(self, "count_weight", above=SMALLEST_COUNT_WEIGHT, below=1, at_least=True)
        errors.set_real(self, "threshold", above=-math.inf, below=math.inf)
        errors.set_whole(self, "examples_per_person", at_least=1)


@dataclass(frozen=True, kw_only=True)
class LabelSelection(Event):
    """Labels chosen by their counts alone, (epsilon, delta)-DP for one example.

    The subclasses are the rules; `selection.rule(event)` holds their formulas.

    >>> OptimalSelection(epsilon=1.0, delta=0.0)
    Traceback (most recent call last):
    reticent.errors.InvalidValue: Expected delta > 0 to release labels: without a public superset of the \
labels, no mechanism with delta = 0 can ever output one. Raise delta, or name the labels in public.
    """

    epsilon: float
    delta: float
    examples_per_person: int = 1

    def __post_init__(self) -> None:
        errors.set_real(self, "epsilon", above=0, below=errors.LARGEST_EPSILON)
        refuse_zero_delta(self.delta)
        errors.set_real(self, "delta", above=0, below=1)
        errors.set_whole(self, "examples_per_person", at_least=1)


@dataclass(frozen=True, kw_only=True)
class TruncatedGeometric(LabelSelection):
    """Count plus truncated geometric noise above k: the paper's mechanism."""


@dataclass(frozen=True, kw_only=True)
class OptimalSelection(LabelSelection):
    """The most probable release that (epsilon, delta) allows, for every class size at once."""


@dataclass(frozen=True, kw_only=True)
class LaplaceThreshold(LabelSelection):
    """Count plus Laplace noise above a threshold: the paper's generic construction."""


@dataclass(frozen=True, kw_only=True)
class BinaryTest(LabelSelection):
    """Any epsilon-DP test of a label's own examples; delta is the largest chance that it passes a single one."""


@dataclass(frozen=True, kw_only=True)
class DpSgd(Event):
    """Poisson-sampled Gaussian steps: rate and steps are public, an empty batch is a step.

    >>> DpSgd(noise_multiplier=1.1, rate=0.01, steps=500).steps
    500
    """

    noise_multiplier: float
    rate: float
    steps: int

    def __post_init__(self) -> None:
        errors.set_real(self, "noise_multiplier", above=0, below=math.inf)
        errors.set_real(self, "rate", above=0, below=math.nextafter(1, 2))
        errors.set_whole(self, "steps", at_least=1)


@dataclass(frozen=True)
class Composed(Event):
    """Several events that may touch the same person, in any adaptive order."""

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple) or not all(isinstance(p, Event) for p in self.parts):
            raise errors.InvalidValue("Expected a tuple of events to compose.")


def compose(*parts: Event) -> Event:
    """Returns one event for all; a single part stays itself.

    >>> compose(Public())
    Public()
    """
    return parts[0] if len(parts) == 1 else Composed(parts)


def refuse_zero_delta(delta: float) -> None:
    """Refuses delta = 0 where labels are to be released, and says why."""
    if delta == 0:
        raise errors.InvalidValue(
            "Expected delta > 0 to release labels: without a public superset of the labels, no mechanism "
            "with delta = 0 can ever output one. Raise delta, or name the labels in public."
        )


_KINDS: tuple[type[Event], ...] = (
    Public,
    NonPrivate,
    Gaussian,
    Exposure,
    JointGaussian,
    TruncatedGeometric,
    OptimalSelection,
    LaplaceThreshold,
    BinaryTest,
    DpSgd,
)


def to_json(event: Event) -> dict[str, Any]:
    """Returns the event as plain JSON values.

    >>> to_json(Gaussian(noise_multiplier=2.0))
    {'kind': 'Gaussian', 'noise_multiplier': 2.0, 'examples_per_person': 1}
    """
    if isinstance(event, Composed):
        return {"kind": "Composed", "parts": [to_json(part) for part in event.parts]}
    if type(event) not in _KINDS:
        raise errors.UnsupportedEvent(f"No ledger can store {type(event).__name__}. Use an event of reticent.")
    return {"kind": type(event).__name__, **dataclasses.asdict(event)}


def from_json(value: Mapping[str, Any]) -> Event:
    """Returns the event that `to_json` wrote; refuses what it does not know.

    >>> from_json({"kind": "Public"})
    Public()
    """
    fields = dict(value)
    kind = fields.pop("kind", None)
    if kind == "Composed":
        return Composed(tuple(from_json(part) for part in fields["parts"]))
    for known in _KINDS:
        if known.__name__ == kind:
            try:
                return known(**fields)
            except TypeError as error:
                raise errors.UnsupportedEvent(f"A stored {kind} event has fields this version lacks.") from error
    raise errors.UnsupportedEvent(f"This version knows no event of kind {kind!r}. Update reticent.")
