"""The bound on the error of a quantile is made of all that can go wrong, and the loop reads every coefficient."""

import math

import numpy as np

from reticent.gate.noise import normal


def test_the_loop_reads_every_coefficient():
    """Middle and seven coefficients: a bound for more would leave out a term that is not added."""
    assert normal.pieces()[0].shape == (normal.OCTAVES * normal._PIECES + 1, 8)
    assert normal._DEGREE == 6


def test_the_bound_is_twice_what_can_go_wrong_and_five_per_cent():
    polynomials, bound = normal.pieces()
    middle, z = polynomials[:, 0] * 2.0**-64, polynomials[:, 1]
    slope = middle * math.sqrt(2 * math.pi) * np.exp(z * z / 2)
    end = 2.0 ** np.floor(np.log2(middle)) / 128 / middle  # from the middle of a piece to its end, as a part
    last = np.abs(normal.series(z, middle, 8)[7])
    wrong = 2.0**-53 * (3 * np.abs(z) + 2 * slope) + 2.0**-64 * slope / middle + last * end**7
    most = [wrong[at : at + 64].max() for at in range(0, len(wrong), 64)]
    np.testing.assert_allclose(bound, 2.1 * np.array(most), rtol=1e-9)
