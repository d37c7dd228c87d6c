"""One row of a ledger as its writer wrote it: which fields each kind has, of which types and how long."""

from collections.abc import Callable, Mapping
from typing import Any

from reticent import errors
from reticent.budget import Budget, Persons
from reticent.numerics.reading import json_of
from reticent.privacy import stored_events
from reticent.released import settings

_LONGEST_TEXT = 100_000  # characters
_REFUSAL = "A row of the ledger is not one that reticent wrote. Restore it from a backup."

Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT


def _number(value: Any) -> bool:
    return type(value) is int and value > 0


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_number, value))


def _maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _described(value: Any) -> bool:
    """Settings are checked where a model is opened; what a statement says of memory is checked here."""
    return isinstance(value, dict) and settings.names_an_epoch(value)


_settings = _maybe(_described)
_FIELDS: Mapping[str, Mapping[str, Check]] = {
    "open": {"identity": settings.is_identity, "settings": _settings},
    "spend": {
        "at": _text,
        "task": _text,
        "private": lambda value: isinstance(value, bool),
        "persons": _maybe(_text),
        "mark": _maybe(settings.is_identity),
    },
    "publish": {"of": _numbers, "release": _maybe(settings.is_entry)},
    "void": {"of": _number, "reason": _text},
    "act": {"at": _text, "text": _text},
    "settings": {"settings": _settings},
    "releases": {"releases": settings.are_entries},
}


def read(kind: str, text: str) -> dict[str, Any]:
    """Returns the fields of a row, the event as an event; refuses what no version of reticent has written.

    >>> read("act", '{"at": "2026-01-31", "text": "tuned on public data"}')["text"]
    'tuned on public data'
    """
    try:
        body = json_of(text)
        if not isinstance(body, dict) or not all(check(body.get(name)) for name, check in _FIELDS[kind].items()):
            raise ValueError(_REFUSAL)
        if kind == "spend":
            body["event"] = stored_events.from_json(body["event"])
            body["persons"] = Persons(body.get("persons") or Persons.ASSUMED)  # older rows say nothing
        elif kind == "open":
            Budget.from_json(body)
    except (ValueError, LookupError, TypeError) as error:
        raise errors.LedgerError(_REFUSAL) from error
    return body
