"""The compiled quantile: its error against mpmath, and its integers against SciPy's quantile, bit by bit."""

import subprocess
import sys

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri

from reticent.gate.noise import NoiseSource, normal, source

SIGMAS = [0.3, 0.5, 1.0, 7.3, 1000.0, 3.73 * 2**20, 4.0 * 2**24, 2.0**32, 1.7 * 2**40]


def settled(words: np.ndarray, sigma: float, source: NoiseSource) -> np.ndarray:
    """Every word settled in high precision."""
    exact = [source._settle(w, sigma) if w >= 0 else -source._settle(~w, sigma) for w in words.tolist()]
    return np.array(exact, dtype=np.int64)


def rounded_by_scipy(words: np.ndarray, sigma: float, source: NoiseSource) -> np.ndarray:
    """The slow oracle: SciPy's quantile, with a wide margin around half-integers for high precision."""
    z = sigma * np.abs(ndtri(np.abs(words * 2.0**-64)))
    with np.errstate(invalid="ignore"):  # a word of zeros is infinity
        doubtful = (np.abs(z - np.rint(z)) >= 0.5 - 1e-14 * sigma) | (z >= 4.6 * sigma)
    out: np.ndarray = np.copysign(np.rint(np.where(doubtful, 0, z)), words).astype(np.int64)
    out[doubtful] = settled(words[doubtful], sigma, source)
    return out


def rounded(words: np.ndarray, sigma: float, source: NoiseSource) -> np.ndarray:
    out = np.empty_like(words)
    source._round(words, sigma, out)
    return out


def awkward_words(sigma: float) -> np.ndarray:
    """Words around half-integers, in the tails and around the ends of octaves, on both sides."""
    largest = min(8 * sigma, 2.0**53)
    halves = np.unique(np.concatenate([[0, 1], np.geomspace(1, largest + 1, 10), np.linspace(0, largest, 14)]) // 1)
    with mpmath.workdps(50):
        at = [int(mpmath.floor(mpmath.ldexp(mpmath.ncdf(-(mpmath.mpf(h) + 0.5) / sigma), 64))) for h in halves]
    words = [a + d for a in at for d in (-300, -1, 0, 1, 300)] + [0, 1 << 24, (1 << 63) - 600, (1 << 63) - 1]
    words += [(1 << e) - d for e in range(30, 63) for d in (0, 1)]
    return np.array([w for word in words if 0 <= word < 1 << 63 for w in (word, ~word)], dtype=np.int64)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_same_integers_as_by_scipy(sigma):
    n = 10_000 if sigma > 2**40 else 1_000_000
    fast = NoiseSource.seeded(11).rounded_gaussian(sigma, n)
    bits, chunk = NoiseSource.seeded(11), source._CHUNK
    slow = [rounded_by_scipy(bits.words(min(chunk, n - at)).view(np.int64), sigma, bits) for at in range(0, n, chunk)]
    assert np.array_equal(fast, np.concatenate(slow))


@pytest.mark.parametrize("sigma", SIGMAS)
def test_same_integers_next_to_half_integers_and_in_the_tails(sigma):
    words = awkward_words(sigma)
    exact = settled(words, sigma, NoiseSource.seeded(3))
    assert np.array_equal(rounded(words, sigma, NoiseSource.seeded(3)), exact)
    assert np.array_equal(rounded_by_scipy(words, sigma, NoiseSource.seeded(3)), exact)


@pytest.mark.parametrize("sigma", [7.3, 4.0 * 2**24])
def test_without_its_bound_the_kernel_rounds_to_the_wrong_side(sigma, monkeypatch):
    words = awkward_words(sigma)
    polynomials, bound = normal.pieces()
    monkeypatch.setattr(normal, "pieces", lambda: (polynomials, 0 * bound))
    monkeypatch.setattr(source, "_NEAR_HALF", 1.0)
    assert not np.array_equal(
        rounded(words, sigma, NoiseSource.seeded(3)), settled(words, sigma, NoiseSource.seeded(3))
    )


def test_one_wrong_coefficient_changes_integers(monkeypatch):
    polynomials, bound = normal.pieces()
    wrong = polynomials.copy()
    wrong[-normal._PIECES, 4] *= 1 + 1e-3
    words = NoiseSource.seeded(7).words(200_000).view(np.int64)
    right = rounded(words, 2.0**32, NoiseSource.seeded(3))
    monkeypatch.setattr(normal, "pieces", lambda: (wrong, bound))
    assert not np.array_equal(rounded(words, 2.0**32, NoiseSource.seeded(3)), right)


# --- the error of the kernel


def words_in_all_pieces() -> np.ndarray:
    """Both ends of every piece, its middle and a point at random; the last row has one word alone."""
    middle = normal.pieces()[0][:-1, 0].astype(np.int64)
    half = (1 << np.int64(62) - normal.OCTAVES - normal._PIECE_BITS + np.arange(len(middle)) // normal._PIECES).astype(
        np.int64
    )
    random = middle - half + (np.random.default_rng().random(len(middle)) * 2 * half).astype(np.int64)
    return np.concatenate([middle - half, random, middle, middle + half - 1, [(1 << 63) - 1]])


@pytest.fixture(scope="module")
def exact_quantiles() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Words, their quantiles in units of 2^-60, how far the last bit moves them, their octaves."""
    words = words_in_all_pieces()
    start = -ndtri(words * 2.0**-64)
    units, width = [], []
    with mpmath.workdps(45):
        for z, word in zip(start.tolist(), words.tolist(), strict=True):
            density = mpmath.npdf(z)
            units.append(mpmath.nint(mpmath.ldexp(z + (mpmath.ncdf(-z) - mpmath.ldexp(word, -64)) / density, 60)))
            width.append(float(mpmath.ldexp(1 / density, -64)))
    octave = np.array([w.bit_length() for w in words.tolist()]) + normal.OCTAVES - 64
    return words, np.array([int(u) for u in units], dtype=np.int64), np.array(width), octave


def worst_share(polynomials: np.ndarray, exact_quantiles) -> float:
    """The largest error of the compiled kernel, as a share of the bound of its octave."""
    words, exact, width, octave = exact_quantiles
    everything, found, marks = np.ones(normal.OCTAVES + 1), np.empty_like(words), np.empty_like(words)
    assert normal.round_words(words, 2.0**60, polynomials, everything, found, marks) == 0
    error = np.abs(found - exact) * 2.0**-60 + width + np.abs(exact) * 2.0**-113
    return float((error / normal.pieces()[1][octave]).max())


def test_the_bound_is_twice_the_error_of_the_kernel(exact_quantiles):
    assert len(exact_quantiles[0]) > 6_000
    assert worst_share(normal.pieces()[0], exact_quantiles) <= 0.5


@pytest.mark.parametrize("column", range(8))
@pytest.mark.parametrize("octave", [normal.OCTAVES - 10, normal.OCTAVES - 1])
def test_one_wrong_coefficient_is_noticed(octave, column, exact_quantiles):
    wrong = normal.pieces()[0].copy()
    wrong[octave * normal._PIECES, column] *= 1.25 if column == 7 else 1 + 1e-3
    assert worst_share(wrong, exact_quantiles) > 0.5


def test_the_bound_is_small():
    """A draw needs high precision with probability 2 * sigma * bound: one in six million at sigma = 4 * 2^24."""
    bound = normal.pieces()[1]
    chances = np.append(2.0 ** (np.arange(normal.OCTAVES) - normal.OCTAVES), 0)
    assert (bound * chances).sum() < 1.5e-15


def test_predicting_does_not_load_the_compiler():
    code = "import sys, reticent.gate.noise; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
