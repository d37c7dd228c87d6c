"""Huge label spaces: the formulas of proposals and of their acceptance, and the threshold in whole numbers."""

import math
import random
from typing import Any

import numpy as np
import pytest

from reticent import errors
from reticent.gate.noise import NoiseSource
from reticent.gate.sparse import SparseGaussian, SparseSums, Tail, _cell, exceeds, kept_share
from reticent.numerics import precision
from reticent.privacy import events

GAUSSIAN = events.Gaussian(noise_multiplier=4.0)


@pytest.mark.parametrize("sigma", [0.7, 3.0, 1e6])
def test_cells_are_the_mass_of_their_integer(sigma):
    for k in (-4, -1, 0, 1, 2, 5):
        with precision.bits(300) as mp:
            exact = mp.ncdf((mp.mpf(k) + 0.5) / sigma) - mp.ncdf((mp.mpf(k) - 0.5) / sigma)
            assert abs(_cell(k, sigma, mp) / exact - 1) < 1e-40


@pytest.mark.parametrize(
    ("width", "squared", "inner"),
    [(4, 100, 80), (4, 104, 83), (9, 2**60, (2**30) ** 2 - 3 * 2**30 + 2 - 1), (4, 1, 0), (16, 4, 0), (4, -1, 0)],
)
def test_every_point_of_a_kept_cube_lies_beyond_the_inner_radius(width, squared, inner):
    """r = R - sqrt(K) / 2, its square rounded down and one less."""
    assert Tail(1.0, width, squared).inner == inner


def test_proposals_are_wider_only_where_that_helps():
    assert Tail(1.0, 4, 100).wide == math.sqrt(80 / 4)
    assert Tail(4.45, 4, 100).wide == 4.45  # sqrt(20) is less than 1.01 times that
    assert Tail(4.4, 4, 100).wide == math.sqrt(20)
    assert Tail(3.0, 0, -1).wide == 3.0


def test_chances_of_proposals_are_their_formula():
    tail = Tail(1.5, 6, 400)
    with precision.bits(200) as mp:
        a = (1 / mp.mpf(1.5) ** 2 - 1 / mp.mpf(tail.wide) ** 2) / 2
        expected = (mp.mpf(tail.wide) / 1.5) ** 6 * mp.exp(-a * tail.inner)
        assert abs(tail.chance(mp) / expected - 1) < 1e-50
        assert 0 < expected < 1


@pytest.mark.parametrize("sigma", [3.0, 40.0, 4.0 * 2**20])
def test_acceptance_is_the_ratio_of_the_masses(sigma):
    """p(k) / (C p'(k)) lies between the bounds, which are tight where cubes are small."""
    tail = Tail(sigma, 5, round(30 * sigma**2))
    seen: list[Any] = []

    class Coins(NoiseSource):
        def below(self, low, high, exact):
            with precision.bits(160) as mp:
                seen.extend((float(a), float(b), exact(i, mp)) for i, (a, b) in enumerate(zip(low, high, strict=True)))
            return np.ones(len(low), np.bool_)

    blocks = NoiseSource.seeded(5).rounded_gaussian(tail.wide, (200, 5))
    blocks = blocks[exceeds(blocks, tail.squared)][:8]
    tail._accept(blocks, Coins(seed=1))
    assert len(seen) == len(blocks) > 3
    with precision.bits(400) as mp:
        for block, (low, high, exact) in zip(blocks.tolist(), seen, strict=True):
            p, wide = mp.mpf(1), mp.mpf(1)
            for k in block:
                p *= mp.ncdf((mp.mpf(k) + 0.5) / sigma) - mp.ncdf((mp.mpf(k) - 0.5) / sigma)
                wide *= mp.ncdf((mp.mpf(k) + 0.5) / tail.wide) - mp.ncdf((mp.mpf(k) - 0.5) / tail.wide)
            ratio = p / (tail.chance(mp) * wide)
            assert abs(exact / ratio - 1) < 1e-30
            assert low <= ratio <= high
            assert ratio <= 1
            assert high / low - 1 <= 2 * (5 + 40 * 5) / (24 * sigma**2) * 2 + 1e-10


def test_thresholds_are_exact_for_numbers_of_any_size():
    draw = random.Random(3)
    for bits in (3, 20, 31, 40, 61):
        blocks = [[draw.randrange(-(2**bits), 2**bits) for _ in range(7)] for _ in range(5)]
        for block in blocks:
            square = sum(k * k for k in block)
            for squared in (square - 1, square, square + 1):
                expected = [sum(k * k for k in other) > squared for other in blocks]
                assert exceeds(np.array(blocks), squared).tolist() == expected
    assert exceeds(np.zeros((2, 3), np.int64), -1).tolist() == [True, True]
    assert exceeds(np.zeros((0, 3), np.int64), 5).tolist() == []


def test_places_outside_the_space_are_refused():
    sums = np.zeros((1, 2), np.int64)
    for row in (-1, 10):
        with pytest.raises(errors.InvalidValue, match="inside the label space"):
            SparseGaussian(GAUSSIAN, 10)(SparseSums(np.array([row]), sums), rng=NoiseSource.seeded(1))
    for row in (0, 9):
        kept = SparseGaussian(GAUSSIAN, 10)(SparseSums(np.array([row]), sums), rng=NoiseSource.seeded(1))
        assert kept.rows.tolist() == list(range(10))


def test_shares_of_kept_noise_are_their_formula():
    assert kept_share(1) == kept_share(2_000) == 1.0
    assert kept_share(2_001) == 300 / 2_001
    assert kept_share(10**8) == 300 / 10**8
