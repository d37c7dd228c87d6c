"""The one loop whose speed is that of memory: normalise, snap to the grid, add up."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from reticent.numerics.loops import compiled, given

WORDS, FLAGS = types.int64[::1], types.boolean[::1]
RECENT = 2_047
"""Rows, each entry of which is at most 2^20, whose sum fits into 32 bits."""
_IN_ANY_ORDER = ("reassoc", "contract")  # sums may change their order, so that they fill vector registers


@compiled(types.void(given(types.int64, 1), WORDS, types.int64, FLAGS), fastmath=())
def count_rows(
    places: npt.NDArray[np.int64], seen: npt.NDArray[np.int64], most: int, kept: npt.NDArray[np.bool_]
) -> None:
    """Marks the rows of persons of whom fewer than `most` were seen before, in their order, and counts all of them.

    A row whose place is negative has no person: it stays unmarked.
    """
    for i in range(len(places)):
        place = places[i]
        if place >= 0:
            kept[i] = seen[place] < most
            seen[place] += 1


@compiled(types.float64(given(types.float32, 1)), types.float64(given(types.float64, 1)), fastmath=_IN_ANY_ORDER)
def squared_length(row: npt.NDArray[Any]) -> float:
    """Returns the sum of squares, in float64."""
    square = 0.0
    for j in range(len(row)):
        value = np.float64(row[j])
        square += value * value
    return square


@compiled(
    *(types.float64(given(kind, 1), types.float64, types.int32[::1]) for kind in (types.float32, types.float64)),
    fastmath=_IN_ANY_ORDER,
)
def snap(row: npt.NDArray[Any], factor: float, whole: npt.NDArray[np.int32]) -> float:
    """Truncates a scaled row to whole steps, and returns their squared length: exact up to 2^53 in any order."""
    length = 0.0
    for j in range(len(row)):
        step = np.int32(np.float64(row[j]) * factor)
        whole[j] = step
        length += np.float64(step) * np.float64(step)
    return length


@compiled(
    *(
        types.void(
            types.int32[:, ::1],
            types.int64[:, ::1],
            WORDS,
            given(kind, 2),
            given(types.int64, 1),
            given(types.int64, 1),
            FLAGS,
            *[types.float64] * 2,
        )
        for kind in (types.float32, types.float64)
    ),
    fastmath=(),  # else the factor would be moved into the loop, where it costs a division for each entry
)
def add_unit_rows(
    recent: npt.NDArray[np.int32],
    sums: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    features: npt.NDArray[Any],
    rows: npt.NDArray[np.int64],
    targets: npt.NDArray[np.int64],
    kept: npt.NDArray[np.bool_],
    scale: float,
    room: float,
) -> None:
    """Adds features[rows], scaled to unit norm and truncated to the grid, to the sums and counts of their labels.

    Leaves out (kept stays False) every row that is zero, not finite, of extreme norm, or whose squared norm on the
    grid exceeds `room`. All of it is exact: squares of whole numbers up to 2^20 and their sums up to 2^40 in float64,
    sums of rows in integers. Half as wide they take half the memory traffic: `recent` holds what was added since the
    count of a label last was a multiple of `RECENT`, and is added to `sums` when it is one. Whoever changes a count in
    another way empties `recent`, else it would hold more rows than fit.
    """
    width = features.shape[1]
    whole = np.empty(width, np.int32)
    for i in range(len(rows)):
        row = features[rows[i]]
        square = squared_length(row)
        if not 1e-200 < square < 1e200:
            continue
        if snap(row, scale / np.sqrt(square), whole) <= room:
            target = targets[i]
            for j in range(width):
                recent[target, j] += whole[j]
            counts[target] += 1
            if counts[target] % RECENT == 0:
                for j in range(width):
                    sums[target, j] += recent[target, j]
                    recent[target, j] = 0
            kept[i] = True
