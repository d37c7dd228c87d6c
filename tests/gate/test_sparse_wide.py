"""Thresholds of wide blocks, where float64 loses most."""

import numpy as np

from reticent.gate.sparse import exceeds


def test_wide_blocks_are_compared_exactly():
    """One large number and thousands of small ones whose squares are lost beside its own."""
    for width in (4_096, 65_536):
        block = np.full((1, width), 22)
        block[0, 0] = 1 << 31
        exact = (1 << 62) + 484 * (width - 1)
        for squared in (exact - 1, exact, exact + 1):
            assert exceeds(block, squared).tolist() == [exact > squared]


def test_float64_alone_would_be_wrong():
    """The twin of the test above: what is lost is beyond a margin for a few rows."""
    block = np.full((1, 65_536), 22.0)
    block[0, 0] = 1 << 31
    lost = ((1 << 62) + 484 * 65_535) - int(np.einsum("ij,ij->i", block, block)[0])
    assert lost > 9 * 2.0**-52 * 2 * (1 << 62)
