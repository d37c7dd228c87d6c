"""Integers in, integers out: sums on a public integer grid are exact and independent of order.

One unit of length is 2^20 grid steps. A row whose integer norm could exceed the unit contributes nothing and is not
counted; no exception, no message, because both would tell that there was such a row.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.selection import SCALE, count_step

__all__ = ["SCALE", "Rows", "snap"]

_SQUARED_LIMIT = SCALE * SCALE
_SHRINK = 1 - 2.0**-18
_MOST_COLUMNS = 1 << 22


@dataclass(frozen=True)
class Rows:
    """Rows on the grid: `kept` marks those that count; the others are zero."""

    values: npt.NDArray[np.int64]
    kept: npt.NDArray[np.bool_]


def snap(rows: npt.NDArray[np.floating], *, count_weight: float = 0.0) -> Rows:
    """Returns rows of at most unit norm as integers, with room for the count slot.

    Guarantees:
      - Every kept row and its count slot have squared integer norm at most 2^40.   test_snapped_rows_never_exceed
      - A row with NaN, infinity or an entry above 1 is zero and not kept, silently. test_bad_rows_vanish

    Args:
        rows: Shape (n, K), norm about 1 or less.
        count_weight: c^2; rows are scaled by sqrt(1 - c^2), the count slot by c.
    """
    if rows.ndim != 2 or rows.shape[1] > _MOST_COLUMNS:
        raise errors.InvalidValue(f"Expected rows of shape (n, K) with K at most {_MOST_COLUMNS}.")
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = rows.astype(np.float64) * (math.sqrt(1 - count_weight) * SCALE)
        # before any cast: int64 squares wrap, and NaN or infinity would pass a later check
        usable: npt.NDArray[np.bool_] = np.all(np.abs(scaled) <= SCALE, axis=1)
    scaled[~usable] = 0.0
    room = _SQUARED_LIMIT - count_step(count_weight) ** 2
    values = np.trunc(scaled).astype(np.int64)
    tight = _squares(values) > room
    if tight.any():
        values[tight] = np.trunc(scaled[tight] * _SHRINK).astype(np.int64)
        over = _squares(values) > room
        values[over] = 0
        usable &= ~over
    return Rows(values, usable)


def _squares(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    squares: npt.NDArray[np.int64] = np.einsum("ij,ij->i", values, values)
    return squares
