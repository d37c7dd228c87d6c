"""What a manifest or a ledger says of a model, checked once: budget, policy, public labels, rule, learner, encoder."""

import json
import re
from collections.abc import Mapping
from typing import Any

from reticent import errors
from reticent.budget import Budget, Persons
from reticent.memory import Epoch
from reticent.numerics.reading import json_of

NAMES = ("budget", "policy", "public_labels", "rule", "learner", "encoder")
PERSON = "person"  # what init was told: the column with ids, or None for "each row is a person"
COLUMNS = "columns"  # only where the inputs of the first task had names
MOST_COLUMNS = 10_000
MEMORY = "memory"  # only in the settings of a model that has one
LABELS = "labels.json"
RELEASES = "releases"
_FILES = re.compile(rf"{re.escape(LABELS)}|{RELEASES}/[A-Za-z0-9][A-Za-z0-9._-]{{0,99}}\.safetensors")
_DIGEST = re.compile("[0-9a-f]{64}")
_LONGEST_NAME = 1_000
TOO_OLD = "reticent 0.1.0 or before, whose models this version does not open. Use that version."


def checked(stored: Any) -> dict[str, Any]:
    """Returns the settings that a file holds, and nothing else of it; refuses others with a ValueError."""
    if not isinstance(stored, Mapping):
        raise ValueError("Expected settings.")
    found = {name: stored[name] for name in NAMES}
    if MEMORY in stored:
        found[MEMORY] = Epoch.from_json(stored[MEMORY]).to_json()
    found |= {name: stored[name] for name in (COLUMNS, PERSON) if name in stored}
    Budget.from_json(found["budget"])
    encoder = found["encoder"]
    good = (
        _is_described(found["policy"])
        and _is_described(found["rule"])
        and (found["learner"] is None or _is_described(found["learner"]))
        and is_entry(found["public_labels"])
        and _are_names(found.get(COLUMNS, []))
        and _is_text(found.get(PERSON) or "")
        and (
            encoder is None
            or (isinstance(encoder, dict) and _is_text(encoder.get("name")) and _is_text(encoder["digest"] or ""))
        )
    )
    if not good:
        raise ValueError("Expected settings as reticent writes them.")
    return found


def epoch_of(stored: Mapping[str, Any]) -> Epoch | None:
    """Returns the epoch of memory that settings name, if any."""
    return Epoch.from_json(stored[MEMORY]) if MEMORY in stored else None


def persons_of(stored: Mapping[str, Any]) -> Persons:
    """Returns what init was told of persons; nothing is said by Python before the first task."""
    if PERSON not in stored:
        return Persons.ASSUMED
    return Persons.STATED if stored[PERSON] is None else Persons.BY_IDS


def names_an_epoch(stored: Mapping[str, Any]) -> bool:
    """Returns whether settings name an epoch of memory as reticent writes it, or none."""
    try:
        epoch_of(stored)
    except (ValueError, TypeError):
        return False
    return True


def to_store(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as JSON would return them, with lists for tuples; refuses what could not be read back.

    Args:
        values: Settings; public labels may be missing while they are not written.
    """
    try:
        plain: dict[str, Any] = json_of(json.dumps(values))
        checked({"public_labels": {"file": LABELS, "sha256": "0" * 64}, **plain})
    except (ValueError, LookupError, TypeError, RecursionError):
        raise errors.InvalidValue(
            "Expected a rule and a learner whose to_json() returns JSON values with a text as its 'kind', and an "
            f"encoder with a name; texts have at most {_LONGEST_NAME:,} characters."
        ) from None
    return plain


def is_entry(value: Any) -> bool:
    """Returns whether this is the name of a file of the folder, and its digest."""
    return (
        isinstance(value, dict)
        and set(value) == {"file", "sha256"}
        and all(isinstance(part, str) for part in value.values())
        and _FILES.fullmatch(value["file"]) is not None
        and _DIGEST.fullmatch(value["sha256"]) is not None
    )


def are_entries(value: Any) -> bool:
    """Returns whether this is a list of files, each named once."""
    return isinstance(value, list) and all(map(is_entry, value)) and len({e["file"] for e in value}) == len(value)


def is_identity(value: Any) -> bool:
    """Returns whether this is the random name of a ledger."""
    return _is_text(value) and bool(value)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MOST_COLUMNS and all(map(_is_text, value))


def _is_described(value: Any) -> bool:
    return isinstance(value, dict) and _is_text(value.get("kind"))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_NAME
