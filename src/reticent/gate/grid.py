"""Integers in, integers out: sums on a public integer grid are exact and independent of order.

One unit of length is 2^20 grid steps. A row whose integer norm could exceed the unit contributes nothing and is not
counted; there is no exception and no message, because both would reveal that there was such a row.

Steps of DP-SGD have a grid of their own, 2^24 steps to the clipping norm, for one reason: rows of features are snapped
one by one, and their sums are exact at any scale; clipped gradients are whole numbers too, 2^40 to the clipping norm,
and their exact sum is snapped once more, which costs sqrt(parameters) grid steps of extra noise: 3e-4 of it for 115,300
parameters at 2^20, 2e-5 at 2^24. A finer grid would make more draws need high precision.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.privacy.selection import SCALE, count_step

__all__ = ["SCALE", "STEP_SCALE", "TERM_SCALE", "Rows", "scale_and_room", "snap"]

STEP_SCALE = 2.0**24  # grid steps per clipping norm
TERM_SCALE = 2.0**40  # one clipping norm, in whole numbers of a clipped gradient

_SQUARED_LIMIT = SCALE * SCALE
_SHRINK = 1 - 2.0**-18
_MOST_COLUMNS = 1 << 22


@dataclass(frozen=True)
class Rows:
    """Rows on the grid: `kept` marks those that count; the others are zero."""

    values: npt.NDArray[np.int64]
    kept: npt.NDArray[np.bool_]

    def __repr__(self) -> str:
        return "Rows(<sensitive>)"


def snap(rows: npt.NDArray[np.floating], *, count_weight: float = 0.0) -> Rows:
    """Returns rows of at most unit norm as integers, with room for the count slot.

    Guarantees:
      - Every kept row and its count slot have squared integer norm at most 2^40.   test_snapped_rows_never_exceed
      - A row with NaN, infinity or an entry above 1 is zero and not kept, silently. test_unusable_rows_become_zero

    Args:
        rows: Shape (n, K), norm about 1 or less.
        count_weight: c^2; rows are scaled by sqrt(1 - c^2), the count slot by c.
    """
    if rows.ndim != 2 or rows.shape[1] > _MOST_COLUMNS:
        raise errors.InvalidValue(f"Expected rows of shape (n, K) with K at most {_MOST_COLUMNS}.")
    scale, room = scale_and_room(count_weight)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.multiply(rows, scale, dtype=np.float64)
        whole = np.trunc(scaled)
        # in float64: squares of integers up to 2^20 and their sums up to 2^40 are exact, NaN and infinity fail here,
        # and nothing is cast before it passed (int64 squares wrap)
        usable: npt.NDArray[np.bool_] = _squares(whole) <= room
        for i in np.flatnonzero(~usable):
            shrunk = np.trunc(scaled[i] * _SHRINK)
            usable[i] = bool(np.all(np.abs(scaled[i]) <= SCALE) and float(shrunk @ shrunk) <= room)
            whole[i] = shrunk if usable[i] else 0.0
    return Rows(whole.astype(np.int64), usable)


def scale_and_room(count_weight: float) -> tuple[float, float]:
    """Returns grid steps per unit of a row, and the largest squared norm that leaves room for the count slot."""
    return math.sqrt(1 - count_weight) * SCALE, float(_SQUARED_LIMIT - count_step(count_weight) ** 2)


def _squares(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    squares: npt.NDArray[np.float64] = np.einsum("ij,ij->i", values, values)
    return squares
