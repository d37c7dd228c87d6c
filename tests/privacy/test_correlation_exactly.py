"""The matrix of memory in fractions: weights of looks, what they add, and bounds that are never below."""

from fractions import Fraction

import numpy as np
import pytest

from reticent.privacy.correlation import LOOK_ONE, ONE, Correlation, Look

PLACES = (1, 2, 3, 9, 24)


def inverse(c: Correlation) -> list[Fraction]:
    """The first column of C^-1."""
    column = [Fraction(int(x), ONE) for x in c.coefficients]
    found = [Fraction(1)]
    for k in range(1, c.horizon):
        found.append(-sum((column[j] * found[k - j] for j in range(1, k + 1)), Fraction(0)))
    return found


@pytest.mark.parametrize("eighths", range(5))
def test_weights_are_the_nearest_whole_numbers(eighths):
    c = Correlation(eighths, 24)
    exact = inverse(c)
    for place in PLACES:
        sums = [sum(exact[: k + 1], Fraction(0)) for k in range(place)]
        looks: list[tuple[Look, list[Fraction]]] = [
            (c.inverse_row(place), exact[:place]),
            (c.inverse_prefix(place), sums),
        ]
        for look, wanted in looks:
            assert look.weights == tuple(round(x * LOOK_ONE) for x in reversed(wanted))
            squares = sum(w * w for w in look.weights)
            deviation = Fraction(look.deviation) * LOOK_ONE
            assert squares <= deviation**2 <= squares * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("eighths", range(5))
def test_gamma_is_never_below_the_real_norm(eighths):
    for horizon in (1, 2, 7, 120):
        c = Correlation(eighths, horizon)
        for n in (1, 2, 3, 4):
            most = [0]
            for m in range(1, n + 1):  # m tasks of one epoch, or split over two
                columns = [[0] * s + [int(x) for x in c.coefficients[: horizon - s]] for s in range(min(m, horizon))]
                alone = sum(sum(rows) ** 2 for rows in zip(*columns, strict=True))
                most.append(max(alone, *(most[p] + most[m - p] for p in range(1, m)), 0))
            square = Fraction(c.gamma(n)) ** 2 * ONE**2
            assert most[-1] <= square <= most[-1] * (1 + Fraction(1, 2**50))


def test_coefficients_cannot_be_changed():
    """They are cached, and shared by everything that prices or draws."""
    c = Correlation(2, 12)
    assert c.coefficients.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        c.coefficients[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        c.row(3)[0] = 0
