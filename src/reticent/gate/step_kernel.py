"""The loops of a step of DP-SGD on a head: rows to whole numbers, softmax, clipped gradients, the noisy sum.

Every loop goes row by row, with the same instructions for each row: what a row gets is a function of that row and of
public numbers, to the bit, wherever it stands and however many rows there are. That is what the sensitivity of a step
asks of gradients. Loops over the columns may change the order of their sums, as the width says and nothing else.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from reticent.gate.kernel import FLAGS, WORDS, squared_length
from reticent.numerics.loops import compiled, given

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_NUMBERS, _TABLE = types.float64[::1], types.float64[:, ::1]
_IN_ANY_ORDER = ("reassoc",)

_LEAST_EXPONENT = -900  # smaller rows are scaled by as much; 2^900 is a float
_BELOW = -700.0  # exp of less is as good as zero, and of this a float that is not subnormal
_PER_LOG2 = 1 / math.log(2.0)
_LOG2_HIGH = math.floor(math.log(2.0) * 2.0**32) / 2.0**32  # its product with a whole number up to 2^20 is exact
_LOG2_LOW = 1.9082149292705877e-10  # what is left of the logarithm of 2
_WHOLE = 1.5 * 2.0**52  # floats about this are whole numbers, and its own last 12 bits are 0
_MAGNITUDE = 2**63 - 1  # all bits but the sign


# --- rows as whole numbers


@compiled(
    *(
        types.void(given(kind, 2), types.float64, types.int16[:, ::1], _NUMBERS)
        for kind in (types.float32, types.float64)
    ),
    fastmath=(),
)
def snap_rows(rows: npt.NDArray[Any], longest: float, values: npt.NDArray[np.int16], units: Floats) -> None:
    """Writes rows as whole numbers of norm `longest` before rounding, and what 1 is in each: NaN if not finite.

    Rows whose squares overflow or vanish are scaled by a power of two first, which changes no bit of the others.
    """
    for i in range(len(rows)):
        row = rows[i]
        exponent, factor = 0, 1.0
        square = squared_length(row)
        if not 1e-200 < square < 1e200:
            largest = 0.0
            for j in range(len(row)):
                size = np.float64(abs(row[j]))
                largest = np.inf if np.isnan(size) else max(largest, size)
            if largest == np.inf:
                units[i] = np.nan
                values[i] = 0
                continue
            exponent = max(math.frexp(largest)[1], _LEAST_EXPONENT)
            factor = math.ldexp(1.0, -exponent)
            square = 0.0
            for j in range(len(row)):
                square += (np.float64(row[j]) * factor) ** 2
        length = math.sqrt(square) if square > 0 else 1.0
        unit = length * (1.0 / longest)
        units[i] = math.ldexp(unit, exponent)
        whole = 1.0 / unit  # not times the factor: that may be no float, and no number is made of infinity
        for j in range(len(row)):
            values[i, j] = np.int16(np.rint(np.float64(row[j]) * factor * whole))


@compiled(types.void(given(types.int16, 2), types.float32[:, ::1]), fastmath=())
def eighths(values: npt.NDArray[np.int16], out: npt.NDArray[np.float32]) -> None:
    """Writes whole numbers divided by 8 and rounded, off by half at most."""
    for i in range(len(values)):
        for j in range(values.shape[1]):
            out[i, j] = (np.int32(values[i, j]) + 4) >> 3


# --- softmax


@compiled(types.float64(types.float64), fastmath=())
def exp(x: float) -> float:
    """Returns the exponential of a number up to 0, off by a part 2^-41 at most; NaN stays NaN.

    exp(x) = 2^k exp(r) with |r| at most log(2) / 2, where the term of the series that is left out is a part 3e-13.
    """
    x = _BELOW if x < _BELOW else x
    shifted = x * _PER_LOG2 + _WHOLE  # its last bits are a whole number; a NaN must not be cast to one
    k = shifted - _WHOLE
    r = x - k * _LOG2_HIGH - k * _LOG2_LOW
    series = 1 / 3628800
    series = series * r + 1 / 362880
    series = series * r + 1 / 40320
    series = series * r + 1 / 5040
    series = series * r + 1 / 720
    series = series * r + 1 / 120
    series = series * r + 1 / 24
    series = series * r + 1 / 6
    series = series * r + 0.5
    series = series * r + 1.0
    series = series * r + 1.0
    return series * np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)


@compiled(types.float64(_NUMBERS, types.float64), fastmath=_IN_ANY_ORDER)
def _exponentials(row: Floats, largest: float) -> float:
    """Takes the exponentials of a row, less its largest number, and returns their sum."""
    total = 0.0
    for j in range(len(row)):
        row[j] = exp(row[j] - largest)
        total += row[j]
    return total


@compiled(
    types.void(given(types.float32, 2), *[given(types.float64, 1)] * 3, given(types.int64, 1), _TABLE),
    fastmath=(),
)
def softmax_errors(
    products: npt.NDArray[np.float32], units: Floats, their_units: Floats, bias: Floats, labels: Ints, out: Floats
) -> None:
    """Writes p - onehot of each row: p is the softmax of products times both units, plus bias.

    A row of NaN stands for what has no probabilities (not finite) and for labels that are no class; the gate leaves it
    out. Rows beyond the labels fill a block up: they get p alone.
    """
    classes = products.shape[1]
    for i in range(len(products)):
        row, unit = out[i], units[i]
        highest = np.int64(-(2**63))
        for j in range(classes):
            x = np.float64(products[i, j]) * unit * their_units[j] + bias[j]
            row[j] = x
            word = np.float64(x).view(np.int64)
            highest = max(highest, word ^ ((word >> 63) & _MAGNITUDE))  # as whole numbers floats have the same order
        largest = np.int64(highest ^ ((highest >> 63) & _MAGNITUDE)).view(np.float64)
        part = 1.0 / _exponentials(row, largest)
        for j in range(classes):
            row[j] *= part
        if i < len(labels):
            if 0 <= labels[i] < classes:
                row[labels[i]] -= 1.0
            else:
                row[:] = np.nan


# --- clipped gradients


@compiled(types.void(given(types.float64, 2), _NUMBERS), fastmath=())
def squared_lengths(rows: Floats, out: Floats) -> None:
    """Writes the squared norm of each row."""
    for i in range(len(rows)):
        out[i] = squared_length(rows[i])


@compiled(types.void(given(types.float64, 2), types.float64, types.float64, _NUMBERS), fastmath=())
def clipping_scales(norms: Floats, most: float, rounding: float, out: Floats) -> None:
    """Writes factors between 0 and 1 after which no example's norms exceed `most` together, see `step.bounded`.

    Args:
        norms: Shape (parameters, n).
        most: Above 0.
        rounding: A part of `most` that is more than all rounding here and where norms were computed.
        out: Shape (n,).
    """
    limit = most * (1 - rounding)
    for i in range(len(out)):
        square = scaled = 0.0
        for name in range(len(norms)):
            square += norms[name, i] ** 2
        scale = min(1.0, limit / max(math.sqrt(square), limit * 0.5))
        for name in range(len(norms)):
            scaled += (norms[name, i] * scale) ** 2
        usable = square < np.inf and math.sqrt(scaled) <= most * (1 - rounding / 2)  # neither is true of NaN
        out[i] = scale if usable else 0.0


@compiled(types.void(given(types.float64, 2), *[given(types.float64, 1)] * 3, _TABLE, _NUMBERS), fastmath=_IN_ANY_ORDER)
def whole_factors(
    errors: Floats, on_weight: Floats, on_bias: Floats, right_squares: Floats, left: Floats, squares: Floats
) -> None:
    """Writes errors times their scales as whole numbers, and the squared norms of what weights and bias get of them."""
    for i in range(len(errors)):
        of_weight = of_bias = 0.0
        for j in range(errors.shape[1]):
            weight, bias = np.trunc(errors[i, j] * on_weight[i]), np.trunc(errors[i, j] * on_bias[i])
            left[i, j] = weight
            of_weight += weight * weight
            of_bias += bias * bias
        squares[i] = of_weight * right_squares[i] + of_bias


@compiled(types.void(given(types.float64, 2), given(types.float64, 1), FLAGS, _TABLE, WORDS), fastmath=())
def keep(errors: Floats, on_bias: Floats, kept: npt.NDArray[np.bool_], left: Floats, bias: Ints) -> None:
    """Adds the bias of rows that are kept, in whole numbers as `whole_factors` measured them; clears the others."""
    for i in range(len(errors)):
        if kept[i]:
            for j in range(errors.shape[1]):
                bias[j] += np.int64(errors[i, j] * on_bias[i])  # towards zero, as np.trunc
        else:
            left[i] = 0.0


@compiled(types.void(WORDS, given(types.float64, 1)), fastmath=())
def add_whole(sums: Ints, whole: Floats) -> None:
    """Adds whole numbers that float64 holds exactly."""
    for i in range(len(sums)):
        sums[i] += np.int64(whole[i])


@compiled(types.void(*[given(types.int64, 1)] * 2, types.int64, types.float64, _NUMBERS), fastmath=())
def noisy_on_grid(total: Ints, noise: Ints, spare: int, step: float, out: Floats) -> None:
    """Writes exact sums without their spare bits plus noise, times a step of the grid; it wraps around as sums do."""
    for i in range(len(total)):
        out[i] = ((((total[i] >> spare) + noise[i]) << spare) >> spare) * step
