"""Huge label spaces at their edges: places, thresholds and cells far out."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from reticent import errors
from reticent.gate.grid import SCALE
from reticent.gate.noise import NoiseSource
from reticent.gate.sparse import SparseGaussian, SparseSums, Tail, _cell
from reticent.numerics import precision
from reticent.privacy import events

GAUSSIAN = events.Gaussian(noise_multiplier=4.0)


@pytest.mark.parametrize("rows", [[-1, 5], [5, 10], [-3, 12]])
def test_one_place_outside_the_space_is_refused(rows):
    value = SparseSums(np.array(rows), np.zeros((2, 2), np.int64))
    with pytest.raises(errors.InvalidValue, match="inside the label space"):
        SparseGaussian(GAUSSIAN, 10)(value, rng=NoiseSource.seeded(1))


def test_thresholds_follow_their_share():
    mechanism = SparseGaussian(GAUSSIAN, 10_000, share=0.01)
    expected = math.floor(float(chi2.isf(0.01, 7)) * (4.0 * SCALE) ** 2)
    assert mechanism.squared_threshold(7) == expected
    assert mechanism.squared_threshold(0) == -1
    assert SparseGaussian(GAUSSIAN, 10_000, share=1.0).squared_threshold(7) == -1


@pytest.mark.parametrize(("width", "squared"), [(4, 4), (1, 1), (1, 0), (9, 3)])
def test_small_thresholds_have_no_inner_radius(width, squared):
    assert Tail(1.0, width, squared).inner == 0


@pytest.mark.parametrize("k", [-60, 60, -61])
def test_cells_far_out_keep_their_digits(k):
    with precision.bits(400) as mp:
        exact = mp.ncdf((abs(k) + mp.mpf(0.5)) / 3 * -1) - mp.ncdf((abs(k) - mp.mpf(0.5)) / 3 * -1)
    with precision.bits(64) as mp:
        assert abs(_cell(k, 3.0, mp) / -exact - 1) < 1e-12
