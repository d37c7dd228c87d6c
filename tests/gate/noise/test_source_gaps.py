"""Draws next to where they change: what float64 would round to the wrong side is settled exactly."""

import mpmath
import numpy as np
import pytest

from reticent.gate.noise import NoiseSource, source


class Near(NoiseSource):
    """Draws given words; what is asked for one by one are the bits that settle a draw."""

    def __init__(self, words: list[int], more: int) -> None:
        super().__init__(seed=0)
        self._given, self._more_bits = words, more

    def words(self, n: int) -> np.ndarray:
        if n == 1:
            return np.array([self._more_bits], dtype=np.uint64)
        taken, self._given = self._given[:n], self._given[n:]
        return np.array(taken + [1 << 63] * (n - len(taken)), dtype=np.uint64)


def edges(chance: float, gaps: range) -> list[int]:
    """The words at which a gap ends."""
    with mpmath.workprec(256):
        decay = mpmath.log1p(-mpmath.mpf(chance))
        return [int(mpmath.floor(mpmath.ldexp(mpmath.exp(k * decay), 64))) for k in gaps]


@pytest.mark.parametrize(
    ("chance", "gaps"),
    [
        (1e-3, range(1, 40)),
        (1e-3, range(430, 570, 3)),  # where two parts of the margin are the same size
        (1e-3, range(3_000, 9_000, 150)),
        (0.3, range(1, 40)),
        (1e-6, range(1, 2_000_000, 50_001)),
    ],
)
@pytest.mark.parametrize("more", [1, (1 << 64) - 2], ids=["low", "high"])
def test_gaps_next_to_a_whole_number_are_exact(chance, gaps, more):
    """One word below the edge of a gap, at it, and as many away as float64 cannot tell apart."""
    for away in (-300, -40, -3, -1, 0, 1, 3, 40, 300):
        words = [edge + away for edge in edges(chance, gaps)]
        with mpmath.workprec(300):
            decay = mpmath.log1p(-mpmath.mpf(chance))
            rests = (mpmath.ldexp((word << 128) + (more << 64) + more, -192) for word in words)
            expected = [int(mpmath.floor(mpmath.log(rest) / decay)) for rest in rests]
        n = sum(gap + 1 for gap in expected)
        found = Near(words, more).successes(n, lambda mp: mp.mpf(chance))
        assert (np.diff(found[: len(words)], prepend=-1) - 1).tolist() == expected


@pytest.mark.parametrize("sigma", [1.0, 1_000.0, 3e7])
def test_gaussians_next_to_a_half_are_exact(sigma):
    """The words on both sides of where the rounded value changes, and as many away as float64 cannot tell apart."""
    for z in (0.01, 0.3, 1.0, 2.5, 4.0):
        j = max(0, round(z * sigma))
        with mpmath.workprec(256):
            edge = int(mpmath.floor(mpmath.ldexp(mpmath.ncdf(-(mpmath.mpf(j) + 0.5) / sigma), 64)))
        for away in (1, 3, 40, 300):
            words = [edge - away, edge + away]  # below the edge the tail is smaller, and so the value larger
            assert Near(words, 1).rounded_gaussian(sigma, 2).tolist() == [j + 1, j]
            other = [(1 << 64) - 1 - word for word in words]  # the other sign
            assert Near(other, 1).rounded_gaussian(sigma, 2).tolist() == [-j - 1, -j]


def test_bits_beyond_a_row_follow_its_words():
    keys = [bytes([i]) * 32 for i in range(3)]
    followed = source._Followed(keys.__getitem__, 4)
    for row in (0, 2):
        whole = np.empty(9, np.uint64)
        source._fill(whole, source._keystream(keys[row], bytes(16)))
        mine = followed.of(4 * row + 3)
        assert mine.words(2).tolist() == whole[4:6].tolist()
        assert followed.of(4 * row) is mine  # and goes on where it was
        assert mine.words(3).tolist() == whole[6:9].tolist()
    later = source._Followed(keys.__getitem__, 4, first=1)  # of a part that begins with the second row
    assert later.of(7).words(2).tolist() == source._Followed(keys.__getitem__, 4).of(8).words(2).tolist()
