"""What is drawn from given bits, at the very places where float64 cannot decide; found by mutants that survived."""

import math
import random

import mpmath
import numpy as np
import pytest

from reticent.gate.noise import NoiseSource
from reticent.numerics import precision
from tests.gate.told import Words

TOP = (1 << 64) - 1


def below(word: int, chance: float, *more: int) -> tuple[bool, bool, int]:
    """Whether a coin is true, whether its exact chance was asked for, and how many words were drawn."""
    asked = []

    def exact(index, mp):
        asked.append(index)
        return mp.mpf(chance)

    source = Words(word, *more)
    (found,) = source.below(np.array([chance]), np.array([chance]), exact).tolist()
    return found, bool(asked), source.drawn


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (3 * 2**61 - 3 * 2**12, (True, False, 1)),  # 2^-49 below 0.375: clear
        (3 * 2**61 - 3 * 2**9, (True, True, 1)),  # 2^-52: float64 may be wrong
        (3 * 2**61 + 3 * 2**9, (False, True, 1)),
        (3 * 2**61 + 3 * 2**12, (False, False, 1)),
    ],
)
def test_coins_next_to_their_chance_are_settled_exactly(word, expected):
    assert below(word, 0.375) == expected


def test_the_last_bit_of_a_coin_counts():
    """A chance of 16 / 2^64: the uniform number is in [word, word + 1) / 2^64."""
    assert below(12, 2.0**-60) == (True, False, 1)
    assert below(14, 2.0**-60) == (True, True, 1)
    assert below(15, 2.0**-60, 0) == (True, True, 2)
    assert below(15, 2.0**-60, TOP, 0) == (True, True, 3)  # still open after 128 bits
    assert below(16, 2.0**-60, 5) == (False, True, 2)
    assert below(18, 2.0**-60) == (False, False, 1)


def test_bounds_that_differ_leave_the_decision_to_the_exact_chance():
    chances = []

    def exact(index, mp):
        chances.append(index)
        return mp.mpf(0.5)

    words = Words(2**62, 2**63 - 2**61, 2**63 + 2**61, 2**63 + 2**62)
    found = words.below(np.full(4, 0.3), np.full(4, 0.7), exact)
    assert found.tolist() == [True, True, False, False]
    assert chances == [1, 2]


def by_hand(words: list[int], n: int, chance: float) -> list[int]:
    """Places of successes from the same words, one after the other, with mpmath alone."""
    places, at = list[int](), -1
    with mpmath.workprec(300):
        decay = mpmath.log1p(-mpmath.mpf(chance))
        for word in words:
            at += int(mpmath.floor(mpmath.log(mpmath.ldexp(word + mpmath.mpf(0.5), -64)) / decay)) + 1
            if at >= n:
                return places
            places.append(at)
    raise AssertionError("too few words")


@pytest.mark.parametrize(("n", "chance"), [(1, 0.5), (2_000, 0.3), (10**6, 1e-4), (10**9, 1e-8), (50, 0.999)])
def test_successes_are_those_of_their_words(n, chance):
    draw = random.Random(n)
    words = [draw.getrandbits(64) for _ in range(10_000)]
    source = Words(*words)
    assert source.successes(n, lambda mp: mp.mpf(chance)).tolist() == by_hand(words, n, chance)


def test_successes_are_drawn_until_none_fits():
    """A batch of words that ends short of n is followed by another."""
    lucky = [TOP] * 50 + [1] * 50
    source = Words(*lucky)
    assert source.successes(20, lambda mp: mp.mpf(0.5)).tolist() == list(range(20))


@pytest.mark.parametrize("places", [1, 2, 7, 40])
def test_gaps_at_a_whole_number_are_settled_exactly(places):
    """(1 - p)^k for p = 1/2 is a word itself: one word below it the gap is k, at it k - 1, with whatever follows."""
    edge = 1 << (64 - places)
    half = mpmath.mpf(0.5)
    assert Words(0)._gap(edge - 1, lambda mp: half) == places
    assert Words(TOP, 5)._gap(edge, lambda mp: half) == places - 1
    source = Words(edge - 1, *[1] * 200)
    assert source.successes(places + 1, lambda mp: half).tolist() == [places]
    source = Words(edge, *([1] * 200))
    assert source.successes(places, lambda mp: half).tolist()[:1] == [places - 1]


def test_a_word_of_zeros_draws_more():
    assert Words(3 << 62)._gap(0, lambda mp: mpmath.mpf(0.5)) == 64
    source = Words(0, *[3 << 62] * 200)
    assert source.successes(65, lambda mp: mp.mpf(0.5)).tolist() == [64]


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_chances_at_the_ends_are_refused(chance):
    with pytest.raises((ValueError, ZeroDivisionError)):
        Words().successes(5, lambda mp: mp.mpf(chance))


def side(j: int, bits: int, sigma: float) -> int:
    return NoiseSource._side(j, bits, 64, sigma)


@pytest.mark.parametrize(("j", "sigma"), [(0, 1.0), (3, 2.5), (40, 12.0), (7, 1000.0)])
def test_sides_are_decided_up_to_the_last_bit(j, sigma):
    with precision.bits(256) as mp:
        boundary = int(mp.floor(mp.ldexp(mp.ncdf(-(mp.mpf(j) + 0.5) / sigma), 64)))
    assert [side(j, boundary + k, sigma) for k in (-2, -1, 0, 1, 2)] == [1, 1, 0, -1, -1]


@pytest.mark.parametrize("sigma", [0.7, 3.0, 1000.0, 2.0**26])
def test_settled_integers_are_those_of_the_bits(sigma):
    draw = random.Random(7)
    with precision.bits(256) as mp:
        for _ in range(10):
            bits = draw.getrandbits(63)
            tail = mp.ldexp(bits + mp.mpf(0.5), -64)
            quantile = mp.findroot(
                lambda z, t=tail: mp.ncdf(-z) - t, -float(mpmath.erfinv(2 * float(tail) - 1)) * 2**0.5
            )
            assert Words(*[1 << 63] * 4)._settle(bits, sigma) == int(mp.nint(sigma * quantile))


def test_coins_have_256_bits_each_and_a_type():
    number = sum(word << (64 * i) for i, word in enumerate([7, 0, 0, 1 << 63]))
    for threshold, expected in ((number, False), (number + 1, True), (0, False), (1 << 256, True)):
        assert Words(7, 0, 0, 1 << 63).coins([threshold]).tolist() == [expected]
    assert Words().coins([]).dtype == np.bool_
    assert Words(*[0] * 8).coins([1, 0]).tolist() == [True, False]


def test_draws_beyond_a_chunk_and_of_any_shape_are_those_of_their_words():
    """Words are taken in order, chunk by chunk, whatever the shape."""
    draw = random.Random(3)
    words = [draw.getrandbits(64) for _ in range((1 << 14) + 7)]
    flat = Words(*words).rounded_gaussian(50.0, len(words))
    assert Words(*words).rounded_gaussian(50.0, (len(words), 1)).ravel().tolist() == flat.tolist()
    for index in (0, 1, (1 << 14) - 1, 1 << 14, len(words) - 1):
        assert Words(words[index]).rounded_gaussian(50.0, 1).tolist() == [flat[index]]
    mirrored = Words(*[word ^ TOP for word in words[:100]]).rounded_gaussian(50.0, 100)
    assert mirrored.tolist() == (-flat[:100]).tolist()


def test_sigma_may_reach_its_largest():
    largest = 2.0**52
    assert abs(int(Words(1 << 62).rounded_gaussian(largest, 1)[0])) == pytest.approx(0.6744897501960817 * largest)
    with pytest.raises(ValueError, match="sigma"):
        Words(1 << 62).rounded_gaussian(math.nextafter(largest, math.inf), 1)
