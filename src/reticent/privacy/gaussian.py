"""The Gaussian mechanism in closed form (Balle and Wang 2018, Theorem 8).

mu = sensitivity / sigma. Gaussians compose to one Gaussian with mu^2 added up, so one number describes them.
Searches run in float64; every answer is checked in high precision and moved until it is on the safe side.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from scipy.special import log_ndtr

from reticent.numerics import precision
from reticent.numerics.roots import root

_WORKING_BITS = 160
_NUDGE = 1e-13


@lru_cache(maxsize=4096)
def delta(mu: float, epsilon: float) -> float:
    """Returns the smallest delta at this epsilon, rounded up.

    >>> round(delta(1 / 3.730632, 1.0) / 1e-5, 4)
    1.0
    """
    if mu == 0:
        return 0.0
    with precision.bits(_WORKING_BITS + int(2 * abs(math.log2(mu)))) as mp:
        ratio, half = mp.mpf(epsilon) / mu, mp.mpf(mu) / 2
        exact = float(mp.ncdf(half - ratio) - mp.exp(epsilon) * mp.ncdf(-half - ratio))
    return min(1.0, math.nextafter(max(exact, 0.0), 2.0))


def epsilon(mu: float, target: float) -> float:
    """Returns the smallest epsilon at this delta, rounded up; infinity where no epsilon is enough."""
    if mu == 0 or delta(mu, 0.0) <= target:
        return 0.0
    if target <= 0:
        return math.inf
    low = high = 1e-15 * min(mu, 1.0)  # not 0, which no factor would move
    while _log_delta(mu, high) > math.log(target):
        low, high = high, 2 * high
    found = high
    if low < high:
        found = root(lambda e: _log_delta(mu, e) - math.log(target), low, high, xtol=1e-300, rtol=1e-14)
    return _nudged(found, lambda e: delta(mu, e) <= target, 1 + _NUDGE)


def largest_mu(epsilon: float, target: float) -> float:
    """Returns the largest mu whose delta at this epsilon is at most the target, rounded down."""

    def gap(log_mu: float) -> float:
        return _log_delta(math.exp(log_mu), epsilon) - math.log(target)

    low = high = math.log(epsilon) / 2
    while gap(low) > 0:
        low -= 1
    while gap(high) < 0:
        high += 1
    found = math.exp(root(gap, low, high, xtol=1e-15, rtol=1e-14))
    return _nudged(found, lambda mu: delta(mu, epsilon) <= target, 1 - _NUDGE)


def _log_delta(mu: float, epsilon: float) -> float:
    """Ln delta in float64, for searches only."""
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    rest = -math.expm1(min(lower - upper, -1e-300))
    return upper + math.log(rest)


def _nudged(value: float, safe: Callable[[float], bool], factor: float) -> float:
    """Moves a searched value by this factor, then by growing ones, until the high-precision check holds."""
    step = factor - 1
    while not safe(value):
        value *= 1 + step
        step *= 2
    return value
