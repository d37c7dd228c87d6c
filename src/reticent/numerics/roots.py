"""Roots of functions of one number; scipy's solvers take a third of a second to import, so they wait until needed."""

from collections.abc import Callable


def root(gap: Callable[[float], float], low: float, high: float, *, xtol: float, rtol: float = 8.9e-16) -> float:
    """Returns where a function of float64 crosses zero, by Brent's method.

    Args:
        gap: Has different signs at the two ends.
        low: One end.
        high: The other.
        xtol: Absolute tolerance.
        rtol: Relative tolerance; four times the precision of float64 is the least.

    >>> root(lambda x: x - 3, 0.0, 10.0, xtol=1e-12)
    3.0
    """
    from scipy.optimize import brentq

    found: float = brentq(gap, low, high, xtol=xtol, rtol=rtol)
    return found
