"""Whose example it is: equal ids are one person, and what one person contributes is bounded."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np

from reticent.labels import canonical

_SECONDS = {"W": 604_800, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
_DIGITS = {"ms": 3, "us": 6, "ns": 9, "ps": 12, "fs": 15, "as": 18}
_POWER = 300  # of ten: beyond it numbers are compared by their digits


def first_of_each(persons: Sequence[object], examples_per_person: int) -> list[int]:
    """Returns the rows of at most this many examples of each person: the first ones, in the order of the data.

    The choice depends on a person's own rows alone; an example whose id is missing (None, NaN) is left out.

    >>> first_of_each(["x", "y", "x", None], 1)
    [0, 1]
    """
    seen: dict[object, int] = {}
    kept: list[int] = []
    for row, person in enumerate(persons):
        key = _key(person)
        if key is not None:  # whose it is must be known to bound it
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= examples_per_person:
                kept.append(row)
    return kept


def _key(value: object) -> object:
    """Returns what tells persons apart, or None where the id is missing: persons without one must not share theirs.

    Equal ids are one person's, however they are written: 7, Decimal("7.0"), one instant in two time zones. An id that
    fails when it is read is missing: one row must not end the learning of others.
    """
    try:
        key = _written(value)
        hash(key)
    except Exception:  # of the code of an object that a private row holds
        return None
    return key


def _written(value: object) -> object:
    if isinstance(value, np.datetime64):
        return _numpy_instant(value)
    name = canonical(value)
    if name is not None:
        return None if isinstance(name, str) and not name.strip() else name
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, bytes):
        return bytes, bytes(value)
    if isinstance(value, UUID):
        return UUID, str(value)
    return _instant(value) if isinstance(value, date) and str(value) != "NaT" else None


def _decimal(value: Decimal) -> object:
    """An equal number where there is one that is a label too; else its digits."""
    if not value.is_finite():
        return None
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    power = int(exponent) + len(text) - len(kept) if kept else 0
    if power > -_POWER and value.adjusted() < _POWER:
        equal = Fraction(value)
        number = equal.numerator if equal.denominator == 1 else float(equal)
        if number == equal and canonical(number) is not None:
            return canonical(number)
    return Decimal, sign, kept, power


def _instant(value: date) -> object:
    """Seconds since 1970 and what is left of one, in time zones or without; a day is its midnight."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    zone = None if value.tzinfo is None else UTC
    try:
        since = value - datetime(1970, 1, 1, tzinfo=zone)
    except (OverflowError, ValueError):  # beyond what can be counted from there
        return datetime, zone is not None, value.isoformat()
    parts = since.microseconds * 10**12 + getattr(value, "nanosecond", 0) * 10**9
    return datetime, zone is not None, since.days * 86_400 + since.seconds, parts


def _numpy_instant(value: np.datetime64) -> object:
    if np.isnat(value):
        return None
    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value, unit, step = value.astype("datetime64[D]"), "D", 1
    count = int(value.astype(np.int64)) * step
    if unit in _SECONDS:
        return datetime, False, count * _SECONDS[unit], 0
    seconds, parts = divmod(count, 10 ** _DIGITS[unit])
    return datetime, False, seconds, parts * 10 ** (18 - _DIGITS[unit])
