"""Chances and edges of sparse sums, in 200 bits."""

import mpmath
import numpy as np
import pytest

from reticent.gate import grid, sparse
from reticent.privacy import events


@pytest.mark.parametrize("edge", [0, 1, 5, 40])
def test_labels_that_their_first_coordinate_does_not_keep_get_more_proposals(edge):
    """C / (1 - q), q the chance of a rounded first coordinate beyond the edge."""
    tail = sparse.Tail(10.0, 4, 40_000, edge)
    with mpmath.workprec(200):
        kept = sum(
            mpmath.ncdf((k + 0.5) / mpmath.mpf(10)) - mpmath.ncdf((k - 0.5) / mpmath.mpf(10))
            for k in range(-edge, edge + 1)
        )
        found = tail._chance_of_the_rest(mpmath.mp)
        assert abs(found * kept / tail.chance(mpmath.mp) - 1) < 1e-30
    plain = sparse.Tail(10.0, 4, 40_000)
    assert plain._chance_of_the_rest(mpmath.mp) == plain.chance(mpmath.mp)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_first_edges_are_rounded_down(share):
    found = sparse.SparseGaussian(events.Gaussian(noise_multiplier=3.7), space=50_000, first_share=share).first_edge
    assert type(found) is int
    with mpmath.workprec(200):
        sigma = mpmath.mpf(3.7) * grid.SCALE
        assert 2 * mpmath.ncdf(-found / sigma) >= mpmath.mpf(share) * (1 - mpmath.mpf(2) ** -45)
        assert 2 * mpmath.ncdf(-(found + 1) / sigma) < mpmath.mpf(share)


def test_first_coordinates_are_compared_with_their_edge():
    blocks = np.array([[5, 0], [6, 0], [-5, 9], [-6, 0]])
    assert sparse.Tail(10.0, 2, 10**9, 5).keeps(blocks).tolist() == [False, True, False, True]
