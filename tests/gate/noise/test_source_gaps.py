"""Gaps between successes next to a whole number: what float64 would round to the wrong side is settled exactly."""

import mpmath
import numpy as np
import pytest

from reticent.gate.noise import NoiseSource


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
