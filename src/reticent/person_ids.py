"""Person ids: the text that says whose an example is, one rule for every container and type."""

import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

import numpy as np

from reticent.labels import canonical
from reticent.numerics.coded import MISSING

_WITH_ZEROS = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
_LONGEST = 640  # digits of a Decimal that is written out
_SECONDS = {"W": 604_800, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
_DIGITS = {"ms": 3, "us": 6, "ns": 9, "ps": 12, "fs": 15, "as": 18}
_BEGIN = datetime(1970, 1, 1)


def person_id(value: object) -> str | None:
    """Returns an id as its canonical text, or None where it is missing; never raises. Equal texts are one person.

    - A text has no whitespace around it and is composed (Unicode NFC). Else it stays as it is: P7 and p7 are two.
    - A whole number and its plain decimal text are one: 7, 7.0, "7" and "7.0", as programs write numbers once one is
      missing. No digit is lost, however many. Other texts are ids of their own: 007, +7, -0, 7., 1e3, and 1e+16, as
      which pandas writes the float 10^16.
    - Another number, a truth value, a UUID, a date and an instant are the text that Python prints. One instant in two
      time zones is one, and midnight without a zone is its date.
    - Bytes are the visible text that they are in UTF-8, else their hexadecimal digits. A tuple has an id for each part.
    - Missing are None, NaN, NaT, pandas' NA, blank texts and those of `coded.MISSING` (NA, nan, NULL, ...), a text that
      no UTF-8 file can hold, and any other object. `unknown` is an id.

    Guarantees:
      - The id of a row depends on its cell alone, and is the same through every container.
                                                             test_a_table_keeps_the_same_rows_through_every_container
      - Its text is an id with the same text.                                               test_the_text_is_the_id

    >>> [person_id(value) for value in (7, 7.0, " 7.0 ", "007", True, "NA", "unknown", None)]
    ['7', '7', '7', '007', 'True', None, 'unknown', None]
    """
    try:
        return _text(value) if isinstance(value, str) else _other(value)
    except Exception:  # of the code of an object that a private row holds
        return None


def person_ids(entries: Sequence[object]) -> list[str | None]:
    """Returns the canonical text of each entry, or None; faster than one by one.

    >>> person_ids(["x", " y", "NA"]), person_ids([7, 8])
    (['x', 'y', None], ['7', '8'])
    """
    kinds = set(map(type, entries))
    if kinds == {str}:
        texts = map(str.strip, cast(Sequence[str], entries))
        return [
            (text if ".0" not in text else _whole(text)) if text.isascii() and text not in MISSING else person_id(text)
            for text in texts
        ]
    with suppress(ValueError):  # of a number too long to print
        if kinds == {int}:
            return list(map(str, entries))
    return list(map(person_id, entries))


def _text(value: str) -> str | None:
    text = str.__str__(value)  # the text itself, whatever __str__ of a subclass (an enumeration) returns
    if not text.isascii():
        text.encode()  # half a character, or bytes of a CSV file that are not UTF-8, are no text
        text = unicodedata.normalize("NFC", text)
    text = text.strip()
    return None if text in MISSING else _whole(text)


def _whole(text: str) -> str:
    """Returns the plain text of a whole number that is written with zeros after its point, and any other as it is."""
    found = _WITH_ZEROS.fullmatch(text)
    return text if found is None else "0" if found[1] == "-0" else found[1]


def _other(value: object) -> str | None:
    if isinstance(value, np.datetime64):
        return _numpy_instant(value)
    if isinstance(value, np.generic) and not isinstance(value, bytes | np.timedelta64):
        value = value.item()
    if isinstance(value, bool | UUID):
        return str(value)
    if isinstance(value, int):
        return str(int.__int__(value))
    if isinstance(value, float):
        number = float.__float__(value)
        return None if number != number else str(int(number) if number.is_integer() else number)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, bytes):
        return _of_bytes(bytes(value))
    if isinstance(value, date):
        return _instant(value) if str(value) != "NaT" else None
    if isinstance(value, tuple) and (parts := canonical(value)) is not None:  # no more parts than memory holds
        return repr(_parts(parts))
    return None


def _decimal(value: Decimal) -> str | None:
    if not value.is_finite():
        return _other(float(value))
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    power = int(exponent) + len(text) - len(kept)
    if not kept:
        return "0"
    if 0 <= power <= _LONGEST:
        return "-" * sign + kept + "0" * power
    return str(Decimal((sign, tuple(map(int, kept)), power)))


def _of_bytes(value: bytes) -> str | None:
    """Returns a text where it is one; numbers of a fixed length have zeros and other characters that are none."""
    try:
        text = value.decode().strip()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    return _text(text) if text.isprintable() else f"0x{value.hex()}"


def _parts(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_parts, value))
    text = person_id(value)
    if text is None:
        raise ValueError("a part is missing")
    return text


def _instant(value: date) -> str:
    if not isinstance(value, datetime):
        return str(value)
    parts = value.microsecond * 10**12 + getattr(value, "nanosecond", 0) * 10**9
    zoned = value.tzinfo is not None
    moment = (value.astimezone(UTC) if zoned else value).timetuple()[:6]
    return _written(datetime(*moment, tzinfo=UTC if zoned else None), parts)


def _numpy_instant(value: np.datetime64) -> str | None:
    if np.isnat(value):
        return None
    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value, unit, step = value.astype("datetime64[D]"), "D", 1
    count = int(value.astype(np.int64)) * step
    whole = count * _SECONDS[unit] if unit in _SECONDS else count // 10 ** _DIGITS[unit]
    parts = 0 if unit in _SECONDS else count % 10 ** _DIGITS[unit] * 10 ** (18 - _DIGITS[unit])
    return _written(_BEGIN + timedelta(seconds=whole), parts)


def _written(moment: datetime, parts: int) -> str:
    """Returns an instant, given to the second, and what is left of one in parts of 10^-18."""
    if moment.tzinfo is None and not parts and moment.time() == time.min:
        return str(moment.date())
    fraction = f".{parts:018d}".rstrip("0") if parts else ""
    return f"{moment.replace(tzinfo=None)}{fraction}{'' if moment.tzinfo is None else '+00:00'}"
