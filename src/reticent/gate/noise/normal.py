"""The loop that turns random bits into rounded Gaussians: a normal quantile by pieces, whose error is known.

A tail probability below 1/2 lies in an octave [2^-(j+1), 2^-j), and each octave is cut into equal pieces. On a piece
the quantile is its Taylor polynomial about the middle. Around the middle it is analytic in a disc that reaches to
probability 0 or 1 (the distribution function is entire, its derivative is never 0 and its only finite asymptotic values
are 0 and 1), and a piece takes 1/127 of that radius at most: every term is about 127 times smaller than the one before.
"""

import functools
import math

import numpy as np
import numpy.typing as npt
from numba import types
from scipy.special import ndtri

from reticent.gate.kernel import WORDS
from reticent.numerics import precision
from reticent.numerics.loops import compiled, given

Floats = npt.NDArray[np.float64]

# Tail probabilities below 2^-OCTAVES (one draw in 30 million) are settled in high precision.
OCTAVES = 26
_PIECE_BITS = 6
_PIECES = 1 << _PIECE_BITS
_GROUP = 8  # pieces that share one quantile in high precision
_DEGREE = 6
_EPS = 2.0**-53
_SAFETY = 2.1  # twice the errors that add up, and 5 % for how they change from the middle of a piece to its ends


def series(z: Floats, tail: Floats, terms: int) -> Floats:
    """Returns Taylor coefficients, one row each, of s -> quantile of the upper tail probability tail * (1 + s).

    With w = z' = -tail / density(z): w' = z w^2.
    """
    a = np.zeros((terms, len(z)))
    w, square = np.zeros_like(a), np.zeros_like(a)
    a[0], w[0] = z, -tail * math.sqrt(2 * math.pi) * np.exp(z * z / 2)
    for n in range(terms - 1):
        a[n + 1] = w[n] / (n + 1)
        square[n] = (w[: n + 1] * w[n::-1]).sum(axis=0)
        w[n + 1] = (a[: n + 1] * square[n::-1]).sum(axis=0) / (n + 1)
    return a


@functools.cache
def pieces() -> tuple[Floats, Floats]:
    """Returns the polynomials and, by octave, a bound on all errors up to sigma * z, in standard deviations.

    A row of polynomials is the middle of the piece in units of 2^-64, then the coefficients. The last row is for a
    probability of 1/2 itself. The bound is _SAFETY times the sum of what can go wrong:
      - the coefficient of degree 0, the last addition and sigma * z are rounded: three times z * 2^-53;
      - the probability is rounded to 53 bits, and so are the terms of degree 1 and up, which are small: twice
        2^-53 * |dz/ds|, where s is the relative change of the probability;
      - the probability has more bits than were drawn: 2^-64 / density(z);
      - the polynomial ends: the next term at the end of the piece.
    """
    row = np.arange(OCTAVES * _PIECES + 1)
    octave = 2.0 ** (row // _PIECES - OCTAVES - 1)
    middle = octave * (1 + (row % _PIECES + 0.5) / _PIECES)
    group = row // _GROUP
    anchor = octave[::_GROUP] * (1 + (row[::_GROUP] % _PIECES + 0.5 * _GROUP) / _PIECES)
    start = -ndtri(anchor)
    with precision.bits(128) as mp:  # a Newton step from float64 doubles its digits
        steps = [float((mp.ncdf(-z) - p) / mp.npdf(z)) for z, p in zip(start.tolist(), anchor.tolist(), strict=True)]
    s = middle / anchor[group] - 1
    offset = np.zeros(len(row))
    for coefficient in series(start, anchor, 18)[:0:-1]:
        offset = (offset + coefficient[group]) * s
    z = start[group] + (np.array(steps)[group] + offset)
    taylor = series(z, middle, _DEGREE + 2)
    end = octave / (2 * _PIECES * middle)
    slope = np.abs(taylor[1])
    error = _EPS * (3 * np.abs(z) + 2 * slope) + 2.0**-64 * slope / middle + np.abs(taylor[-1]) * end ** (_DEGREE + 1)
    middle *= 2.0**64
    polynomials = np.column_stack([middle, (taylor[:-1] / middle ** np.arange(_DEGREE + 1)[:, None]).T])
    return np.ascontiguousarray(polynomials), _SAFETY * np.maximum.reduceat(error, row[::_PIECES])


_FIRST = (1023 + 63 - OCTAVES) << _PIECE_BITS  # exponent and leading bits of 2^(63 - OCTAVES) as float64


@compiled(
    types.int64(given(types.int64, 1), types.float64, given(types.float64, 2), given(types.float64, 1), WORDS, WORDS),
    fastmath=("contract",),  # sums keep their order: the bound on errors counts on it
)
def round_words(
    words: npt.NDArray[np.int64],
    sigma: float,
    polynomials: Floats,
    decided: Floats,
    out: npt.NDArray[np.int64],
    marks: npt.NDArray[np.int64],
) -> int:
    """Writes the rounded Gaussians of random words; returns how many it cannot decide.

    A word is a sign and 63 bits of tail probability. What lies beyond the octaves, or not closer to an integer than
    `decided` says for its octave, is left out, and its place is noted in `marks`.
    """
    found = 0
    for i in range(len(words)):
        word = words[i]
        sign = word >> 63
        x = np.float64(word ^ sign)
        row = (x.view(np.int64) >> (52 - _PIECE_BITS)) - _FIRST
        if row >= 0:
            c = polynomials[row]
            r = x - c[0]
            z = c[1] + r * (c[2] + r * (c[3] + r * (c[4] + r * (c[5] + r * (c[6] + r * c[7])))))
            y = sigma * z
            k = np.rint(y)
            if abs(y - k) < decided[row >> _PIECE_BITS]:
                out[i] = (np.int64(k) ^ sign) - sign
                continue
        marks[found] = i
        found += 1
    return found
