"""Events as JSON, as ledgers and statements hold them; what this version does not know is refused."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from reticent import errors
from reticent.privacy import events
from reticent.privacy.events import Event

_MOST_PARTS, _MOST_LEVELS = 1_000, 8  # of an event that is read from a file
_KINDS: tuple[type[Event], ...] = (
    events.Public,
    events.NonPrivate,
    events.Gaussian,
    events.Exposure,
    events.JointGaussian,
    events.TruncatedGeometric,
    events.OptimalSelection,
    events.LaplaceThreshold,
    events.BinaryTest,
    events.DpSgd,
    events.LabelCounts,
    events.LabelledTraining,
    events.PrivateSelection,
    events.Remembered,
    events.Composed,
)


def to_json(event: Event) -> dict[str, Any]:
    """Returns the event as plain JSON values.

    >>> to_json(events.Gaussian(noise_multiplier=2.0))
    {'kind': 'Gaussian', 'noise_multiplier': 2.0, 'examples_per_person': 1}
    """
    if type(event) not in _KINDS:
        raise errors.UnsupportedEvent(f"No ledger can store {type(event).__name__}. Use an event of reticent.")
    values = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    return {"kind": type(event).__name__, **{name: _plain(value) for name, value in values.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, events.Event):
        return to_json(value)
    return [to_json(part) for part in value] if isinstance(value, tuple) else value


def from_json(value: object) -> Event:
    """Returns the event that `to_json` wrote; refuses what it does not know.

    >>> from_json({"kind": "Public"})
    Public()
    """
    left = iter(range(_MOST_PARTS))
    return _event(value, _MOST_LEVELS, left)


def _event(value: object, levels: int, left: Iterator[int]) -> Event:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise errors.UnsupportedEvent("A stored event is not one that reticent wrote.")
    if not levels or next(left, None) is None:
        raise errors.UnsupportedEvent("A stored event has more parts than reticent ever writes.")
    kind = value.get("kind")
    fields = {name: _read(field, levels - 1, left) for name, field in value.items() if name != "kind"}
    for known in _KINDS:
        if known.__name__ == kind:
            try:
                return known(**fields)
            except TypeError as error:
                raise errors.UnsupportedEvent(f"A stored {kind} event has fields this version lacks.") from error
    raise errors.UnsupportedEvent(f"This version knows no event of kind {str(kind)[:40]!r}. Update reticent.")


def _read(field: Any, levels: int, left: Iterator[int]) -> Any:
    if isinstance(field, Mapping):
        return _event(field, levels, left)
    return tuple(_event(part, levels, left) for part in field) if isinstance(field, list) else field
