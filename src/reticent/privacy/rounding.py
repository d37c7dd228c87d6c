"""Numbers as text, rounded towards privacy: what is lost at most is rounded up, what is lost at least down."""

import math
from collections.abc import Callable
from decimal import MAX_PREC, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_EVERY_DIGIT = Context(prec=MAX_PREC)  # the largest float has 309 before its point


def rounded_up(value: float | None, digits: int = 4) -> str:
    """Returns a number as text that is never below it; None is infinity, as in JSON.

    Guarantees: read back, the text is at least the number.    test_shown_epsilon_is_never_below_the_true_one

    >>> rounded_up(0.93731), rounded_up(1.0), rounded_up(None)
    ('0.9374', '1.0000', 'infinity')
    """
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float | None, digits: int = 4) -> str:
    """Returns a number as text that is never above it; None is infinity.

    >>> rounded_down(0.93739), rounded_down(0.1)
    ('0.9373', '0.1000')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def exact(value: float) -> str:
    """Returns a number as it was given, with all its digits: a budget is rounded in neither direction.

    >>> exact(1.0), exact(1e-5), exact(0.1234564)
    ('1', '1e-05', '0.1234564')
    """
    return repr(float(value)).removesuffix(".0")


def _rounded(value: float | None, digits: int, way: str) -> str:
    if value is None or math.isinf(value):
        return "infinity"
    # of the digits that Python writes: they name this number and no other, so that 0.1 stays 0.1
    place = Decimal(1).scaleb(-digits)
    return f"{Decimal(repr(float(value))).quantize(place, rounding=way, context=_EVERY_DIGIT):f}"


def smallest_epsilon(curve: Callable[[float], float], target: float) -> float:
    """Returns the smallest epsilon at which a curve falls to the target, rounded up; infinity if it never does.

    Small steps first: a group bound falls and then rises again with the rounding error it multiplies.
    """
    if curve(0.0) <= target:
        return 0.0
    low, high = 0.0, 1e-3
    while curve(high) > target:
        low, high = high, high * 1.3
        if high > 2_000:
            return math.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if curve(middle) <= target:
            high = middle
        else:
            low = middle
    return high
