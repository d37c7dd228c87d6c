"""The one loop whose speed is that of memory: normalise, snap to the grid, add up."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba import types

WORDS, FLAGS = types.int64[::1], types.boolean[::1]
SUMS = types.float64[:, ::1]


def given(kind: Any, dimensions: int) -> Any:
    """Returns the type of an array that a loop only reads: one that may not be written to will do."""
    return types.Array(kind, dimensions, "C", readonly=True)


def compiled(*signatures: Any, fastmath: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles a loop when its module is imported: the gate does so before it spends, so it cannot fail afterwards.

    Guarantees:
      - Nothing compiled is kept on disk or read from it: numba would unpickle what it finds in its cache, so anyone
        who can write there could run code.                             test_compiled_loops_never_touch_the_disk

    Args:
        *signatures: What the loop returns and takes.
        fastmath: What the compiler may assume, by LLVM's names; never anything about NaN or infinity.
    """
    loop: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.njit(
        list(signatures), nogil=True, fastmath=set(fastmath)
    )
    return loop


@compiled(
    *(
        types.void(SUMS, given(kind, 2), given(types.int64, 1), given(types.int64, 1), FLAGS, *[types.float64] * 2)
        for kind in (types.float32, types.float64)
    ),
    fastmath=("reassoc", "contract"),  # sums may change their order, so that they fill vector registers
)
def add_unit_rows(
    sums: npt.NDArray[np.float64],
    features: npt.NDArray[Any],
    rows: npt.NDArray[np.int64],
    targets: npt.NDArray[np.int64],
    kept: npt.NDArray[np.bool_],
    scale: float,
    room: float,
) -> None:
    """Adds features[rows], scaled to unit norm and truncated to the grid, to the sums of their labels.

    Leaves out (kept stays False) every row that is zero, not finite, of extreme norm, or whose squared norm on the
    grid exceeds `room`. All of it is exact in float64: squares of integers up to 2^20, their sums up to 2^40, and the
    sums of up to 2^33 rows.
    """
    width = features.shape[1]
    whole = np.empty(width, np.float64)
    for i in range(len(rows)):
        row = rows[i]
        square = 0.0
        for j in range(width):
            value = np.float64(features[row, j])
            square += value * value
        if not 1e-200 < square < 1e200:
            continue
        factor = scale / np.sqrt(square)
        length = 0.0
        for j in range(width):
            step = np.trunc(np.float64(features[row, j]) * factor)
            whole[j] = step
            length += step * step
        if length <= room:
            target = targets[i]
            for j in range(width):
                sums[target, j] += whole[j]
            kept[i] = True
