"""The one loop whose speed is that of memory: normalise, snap to the grid, add up."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt


def compiled(*fastmath: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles a loop when it is first called, and caches the result on disk where a folder can be written.

    Args:
        *fastmath: What the compiler may assume, by LLVM's names; never anything about NaN or infinity.
    """
    settings: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath)}

    def compile_loop(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            loop: Callable[..., Any] = numba.njit(cache=True, **settings)(function)
        except RuntimeError:  # read-only installation, no home directory
            loop = numba.njit(**settings)(function)
        return loop

    return compile_loop


@compiled("reassoc", "contract")  # sums may change their order, so that they fill vector registers
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
