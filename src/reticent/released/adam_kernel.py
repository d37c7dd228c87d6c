"""The loop of Adam: one pass over parameters and moments."""

import math

import numpy as np
import numpy.typing as npt
from numba import types

from reticent.numerics.loops import compiled, given

Floats = npt.NDArray[np.float64]


@compiled(
    types.void(types.float64[::1], given(types.float64, 1), *[types.float64[::1]] * 2, *[types.float64] * 4),
    fastmath=(),
)
def adam_step(
    point: Floats, gradient: Floats, first: Floats, second: Floats, beta: float, other: float, by: float, plus: float
) -> None:
    """Moves parameters by the first moment over the root of the second, which is multiplied and added to."""
    for i in range(len(point)):
        g = gradient[i]
        first[i] = first[i] * beta + g
        second[i] = second[i] * other + g * g
        point[i] -= first[i] / (math.sqrt(second[i]) * by + plus)
