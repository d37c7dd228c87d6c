"""Private rows that try to be noticed: what hypothesis puts in place of one row of a data set."""

import datetime
import decimal
import enum
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
from hypothesis import strategies as st

Row = TypeVar("Row")


class Odd(str, enum.Enum):  # noqa: UP042 (its __str__ differs from the text)
    """A text whose str() is another text."""

    A = "a"


NUMBERS = [0.0, -0.0, 1.0, np.nan, -np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e-300, 1e200, 3.5e38, 1e-40]
TEXTS = [
    "",
    " ",
    "a",
    "A",
    "a ",
    "\u0301a",
    "\ud800",
    "a\x00b",
    "a\nb",
    "a\r",
    '"',
    ",",
    "=1+1",
    "x" * 200_000,
    "\ufeffa",
]
TEXTS += ["\x1b[2J", "<script>", "../../etc", "\u202egnp.", "nan", "None", "1", "1.0", "1e400", "-inf"]
_SAME = [1, 1.0, True, np.int8(1), np.float32(1), np.float64(1), np.bool_(True), "1", np.str_("1"), decimal.Decimal(1)]
_MISSING = [
    None,
    float("nan"),
    np.nan,
    pd.NA,
    pd.NaT,
    np.datetime64("NaT"),
    np.timedelta64("NaT"),
    decimal.Decimal("nan"),
]
_DATES = [
    datetime.date(2026, 1, 1),
    datetime.datetime.max,
    pd.Timestamp.max,
    np.datetime64("2026"),
    datetime.timedelta(1),
]
_DATES += [datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=23)))]
_NESTED = [(), ("a",), ("a", ("b", 1)), ("a", None), [], ["a"], {"a": 1}, {"a"}, (((((((((1,),),),),),),),),)]
_ODD = [b"", b"a", b"\xff", bytearray(b"a"), 10**700, 2**64, -1, 0.5, 1j, np.inf, Odd.A, object(), Ellipsis, int]
_ODD += [uuid.UUID(int=1), np.array(["a"]), np.array(3), np.void(b"a"), range(3), slice(1)]

numbers = st.sampled_from(NUMBERS) | st.floats(allow_subnormal=True)
texts = st.sampled_from(TEXTS) | st.text(st.characters(), max_size=20)  # surrogates too
labels: st.SearchStrategy[Any] = st.sampled_from([*TEXTS, *_SAME, *_MISSING, *_DATES, *_NESTED, *_ODD]) | texts
"""A label, or a person's id."""


def vectors(width: int) -> st.SearchStrategy[list[float]]:
    """Features that are hard to scale."""
    return st.lists(numbers, min_size=width, max_size=width) | numbers.map(lambda x: [x] * width)


@dataclass(frozen=True)
class Change(Generic[Row]):
    """One row less, more or other.

    Args:
        at: A place between 0 and 1.
        removes: Whether the row at this place goes.
        row: What comes there; None for nothing.
        turned: Whether the order of all rows is turned around.
    """

    at: float
    removes: bool
    row: Row | None
    turned: bool = False

    def of(self, base: Sequence[Row]) -> list[Row]:
        """Returns the neighbour of a data set."""
        place = round(self.at * (len(base) - 1))
        new = [] if self.row is None else [self.row]
        rows = [*base[:place], *new, *base[place + self.removes :]]
        return rows[::-1] if self.turned else rows


def changes(rows: st.SearchStrategy[Row]) -> st.SearchStrategy[Change[Row]]:
    """A row removed, added anywhere, or replaced by a hostile one (mostly the last two), in this order or another."""
    places, turned = st.floats(0, 1), st.sampled_from([False, False, False, True])
    hostile = st.builds(Change, places, st.booleans(), rows, turned)
    return hostile | hostile | hostile | st.builds(Change, places, st.just(True), st.none(), turned)
