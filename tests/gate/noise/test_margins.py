"""Margins of what is settled in high precision: a logarithm or a tail that the test chooses, next to the margin."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri

from reticent.gate.noise import NoiseSource
from reticent.numerics import precision
from tests.gate.told import Words

HAIR = mpmath.ldexp(1, -32)


def use(monkeypatch, **functions: Callable[[Any, Any], Any]) -> None:
    """Gives high precision other functions, each of the context and one number."""

    @contextlib.contextmanager
    def bits(count: int) -> Iterator[Any]:
        mp = type(mpmath.mp)()
        mp.prec = count
        for name, function in functions.items():
            setattr(mp, name, functools.partial(function, mp))
        yield mp

    monkeypatch.setattr(precision, "bits", bits)


def side(monkeypatch, bits: int, boundary: int, beyond: float) -> int:
    """Of bits and a boundary that lies beyond a whole number by parts of 2^-32, out of 64 bits."""
    use(monkeypatch, ncdf=lambda mp, z: mp.ldexp(boundary + mp.ldexp(mp.mpf(beyond), -32), -64))
    return NoiseSource._side(3, bits, 64, 1.0)


def test_sides_are_open_within_a_margin_of_their_boundary(monkeypatch):
    """Of 2^-32, and a part 2^-32 of what was drawn."""
    for beyond, above, below in ((0.75, 0, 0), (1.5, 1, 0), (-0.75, 0, 0), (-1.5, 0, -1)):
        assert side(monkeypatch, 1_000, 1_001, beyond) == above
        assert side(monkeypatch, 1_001, 1_001, beyond) == below
    large = 1 << 63  # here the second part is half of the first
    for beyond, expected in ((1.3, 0), (1.7, 1)):
        assert side(monkeypatch, large - 1, large, beyond) == expected
    for beyond, expected in ((-1.3, 0), (-1.7, -1)):
        assert side(monkeypatch, large, large, beyond) == expected


def gap(monkeypatch, bits: int, most: float, least: tuple[int, float], decay: float = -2.0) -> int:
    """Where the ends of the interval have these gaps, the lower one a whole number and parts of 2^-96."""
    asked = []

    def log(mp, x):
        asked.append(float(x * 2**64))
        whole, parts = least
        return decay * (mp.mpf(most) if len(asked) == 1 else whole + mp.ldexp(mp.mpf(parts), -96))

    use(monkeypatch, log=log, log1p=lambda mp, x: mp.mpf(decay))
    found = Words()._gap(bits, lambda mp: mp.mpf(0.5))
    assert asked == [bits, bits + 1]
    return found


def test_gaps_are_open_within_a_margin_of_a_whole_number(monkeypatch):
    """(gap + 1 - 1/decay) 2^-96: here 5.25 + 1 + 1/2 parts."""
    assert gap(monkeypatch, 9, 5.25, (5, 6.9)) == 5
    assert gap(monkeypatch, 1, 5.25, (5, 6.9)) == 5
    for parts in (6.6, 0.0, -3.0):
        with pytest.raises(EOFError):
            gap(monkeypatch, 9, 5.25, (5, parts))


def test_gaps_of_zero_bits_draw_before_they_are_computed(monkeypatch):
    use(monkeypatch, log=lambda mp, x: pytest.fail("the logarithm of zero"))
    with pytest.raises(EOFError):
        Words()._gap(0, lambda mp: mp.mpf(0.5))


def test_coins_at_their_margin_are_decided():
    source = Words()
    with mpmath.workprec(200):
        above, below = mpmath.ldexp(16 + HAIR, -64), mpmath.ldexp(16 - HAIR, -64)
    assert source._is_below(15, lambda mp: above)
    assert not source._is_below(16, lambda mp: below)


@pytest.mark.parametrize(
    ("word", "low", "high", "expected"),
    [
        (0, 2.0**-63, 1.0, True),  # two units of the last bit: just enough
        (13, 2.0**-60, 1.0, True),
        (1 << 63, 0.25, 0.5 - 2.0**-52, False),
    ],
)
def test_coins_at_the_edge_of_their_bounds_need_no_more(word, low, high, expected):
    def exact(index, mp):
        raise AssertionError("float64 is enough")

    assert Words(word).below(np.array([low]), np.array([high]), exact).tolist() == [expected]


@pytest.mark.parametrize(("sigma", "bits"), [(3.0, 1 << 60), (3e7, 1 << 60), (1e3, (1 << 63) - 5)])
def test_searches_begin_around_the_quantile(sigma, bits, monkeypatch):
    """Between two integers that float64 cannot have missed; what is decided on the way is the rest."""
    start = -float(ndtri(math.ldexp(bits, -64))) * sigma
    slack = 2 + 1e-6 * sigma
    for answer, expected in ((1, math.ceil(start + slack)), (-1, max(-1, math.floor(start - slack)) + 1)):
        monkeypatch.setattr(NoiseSource, "_side", staticmethod(lambda *_, answer=answer: answer))
        assert Words()._settle(bits, sigma) == expected


@pytest.mark.parametrize(("bits", "drawn"), [(1 << 24, 0), ((1 << 24) - 1, 1), (1 << 23, 1), (0, 1)])
def test_the_deep_tail_draws_more_bits_before_it_starts(bits, drawn, monkeypatch):
    monkeypatch.setattr(NoiseSource, "_side", staticmethod(lambda *_: 1))
    source = Words(1 << 60)
    source._settle(bits, 1.0)
    assert source.drawn == drawn
