"""The noise source at a billion draws: its bits, and its rounded Gaussians against their exact distribution.

Each check gives the chance of what was found, or of anything less likely, if the source is as promised. It fails below
ALPHA. Every check is shown a broken twin too, which it must reject.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2, norm, poisson

from reticent.gate.noise import NoiseSource
from tests.assurance.part import Part
from tests.conftest import ALPHA

Words = npt.NDArray[np.uint64]
Draw = Callable[[int], Words]

BILLION = 1_000_000_000
SIGMAS = (0.5, 1.0, 7.3, 3.73 * 2**20)
_AT_ONCE = 1 << 20
_REACH = 7  # standard deviations that have cells
_CELLS = 8  # in a standard deviation, or twice as many
_RARE = 100  # draws: cells that expect fewer are tails
_SHORT = 36  # bits of a word that are compared for equality: a few words in a million agree by chance


# --- bits


def check_bits(draw: Draw, n: int) -> dict[str, float]:
    """Tests n words, some at a time, and returns a p-value by check.

    - ones: how many bits are 1.
    - places: the same for each of the 64 places of a word.
    - pairs of bytes: the 65,536 values of each quarter of a word.
    - runs: how often a bit differs from the next one, across words too.
    - lags: how often a bit differs from that of the word before it, or some words before.
    - weights: numbers of ones in a word and in the next one, as a table.
    - repeats: words of a million that agree in 36 bits.
    """
    pairs = np.zeros((4, 1 << 16), np.int64)
    changes, found = 0, 0
    lags = dict.fromkeys((1, 2, 3, 64, 1 << 14), 0)
    weights = np.zeros((6, 6), np.int64)
    for words in _parts(draw, n):
        for quarter in range(4):
            pairs[quarter] += np.bincount(words.view(np.uint16)[quarter::4], minlength=1 << 16)
        changes += _ones(words ^ (words >> np.uint64(1))) - int(
            (words >> np.uint64(63)).sum()
        )  # no bit follows the last
        changes += int(((words[1:] ^ (words[:-1] >> np.uint64(63))) & np.uint64(1)).sum())  # but that of the next word
        for lag in lags:
            lags[lag] += _ones(words[lag:] ^ words[:-lag])
        cell = np.searchsorted(_WEIGHTS, np.bitwise_count(words), side="right")
        weights += np.bincount(cell[1:] * 6 + cell[:-1], minlength=36).reshape(6, 6)
        found += int((np.diff(np.sort(words >> np.uint64(64 - _SHORT))) == 0).sum())
    parts = len(list(_sizes(n)))
    places = np.array([(pairs * _bit(place)).sum(axis=1) for place in range(16)]).T.ravel()
    share = np.diff(np.concatenate([[0], _binomial_cdf(_WEIGHTS - 1), [1]]))
    return {
        "ones": _two_sided((places.sum() - 32 * n) / math.sqrt(16 * n)),
        "places": _of_several(_two_sided(float(np.max(np.abs(places - n / 2))) / math.sqrt(n / 4)), 64),
        "pairs of bytes": _chi_square(pairs.ravel(), np.full(4 << 16, n / (1 << 16)), 4 * ((1 << 16) - 1)),
        "runs": _two_sided((changes - (64 * n - parts) / 2) / math.sqrt((64 * n - parts) / 4)),
        "lags": _of_several(min(_two_sided(_agreement(n, lag, lags[lag])) for lag in lags), len(lags)),
        "weights": _chi_square(weights.ravel(), (np.outer(share, share) * (n - parts)).ravel(), 35),
        "repeats": _poisson(found, sum(size * (size - 1) / 2 for size in _sizes(n)) * 2.0**-_SHORT),
    }


_WEIGHTS = np.array([28, 30, 32, 34, 36])  # ends of cells for the number of ones in a word


def _bit(place: int) -> npt.NDArray[np.int64]:
    return np.arange(1 << 16) >> place & 1


def _ones(words: Words) -> int:
    return int(np.bitwise_count(words).sum(dtype=np.int64))


def _binomial_cdf(at: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    law = np.array([math.comb(64, k) / 2.0**64 for k in range(65)])
    return np.cumsum(law)[at]


def _agreement(n: int, lag: int, differ: int) -> float:
    bits = 64 * sum(max(0, size - lag) for size in _sizes(n))
    return (differ - bits / 2) / math.sqrt(bits / 4)


def _sizes(n: int) -> Iterator[int]:
    for start in range(0, n, _AT_ONCE):
        yield min(_AT_ONCE, n - start)


def _parts(draw: Draw, n: int) -> Iterator[Words]:
    for size in _sizes(n):
        yield draw(size)


# --- rounded Gaussians


def check_gaussians(draw: Callable[[int], npt.NDArray[np.int64]], sigma: float, n: int) -> dict[str, float]:
    """Tests n draws against round(N(0, sigma^2)), and returns a p-value by check.

    - cells: chi-square, in cells of an eighth of a standard deviation or less (of one integer, where sigma is small).
    - beyond 5.5: how many are beyond 5.5 standard deviations, where draws are settled in high precision.
    """
    shift = max(0, math.floor(math.log2(sigma / _CELLS)))
    reach = math.ceil(_REACH * sigma) >> shift
    found, far = np.zeros(2 * reach + 3, np.int64), 0
    edge = math.floor(5.5 * sigma)
    for size in _sizes(n):
        drawn = draw(size)
        found += np.bincount(np.clip(drawn >> shift, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
        far += int((np.abs(drawn) > edge).sum())
    ends = ((np.arange(-reach, reach + 2) << shift) - 0.5) / sigma
    left, right = np.concatenate([[-np.inf], ends]), np.concatenate([ends, [np.inf]])
    each = np.where(right <= 0, norm.cdf(right) - norm.cdf(left), norm.sf(left) - norm.sf(right))
    observed, expected = _tails_together(found, each * n)
    return {
        "cells": _chi_square(observed, expected, len(expected) - 1),
        "beyond 5.5": _poisson(far, 2 * float(norm.sf((edge + 0.5) / sigma)) * n),
    }


def _tails_together(
    found: npt.NDArray[np.int64], expected: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Adds up the rare cells of each side: the approximation by chi-square needs enough draws in a cell."""
    usual = np.flatnonzero(expected >= _RARE)
    first, last = usual[0] + 1, usual[-1]
    starts = np.concatenate([[0], np.arange(first, last + 1)])
    return np.add.reduceat(found, starts), np.add.reduceat(expected, starts)


# --- chances


def _two_sided(z: float) -> float:
    return float(2 * norm.sf(abs(z)))


def _of_several(smallest: float, checks: int) -> float:
    return min(1.0, checks * smallest)


def _poisson(found: int, mean: float) -> float:
    return float(min(1.0, 2 * min(poisson.cdf(found, mean), poisson.sf(found - 1, mean))))


def _chi_square(found: npt.NDArray[np.int64], expected: npt.NDArray[np.float64], freedom: int) -> float:
    """Both sides: frequencies that fit too well are wrong too."""
    statistic = float((np.square(found - expected) / expected).sum())
    return min(1.0, 2 * float(min(chi2.sf(statistic, freedom), chi2.cdf(statistic, freedom))))


# --- broken twins


def biased(draw: Draw, one_in: int) -> Draw:
    """The lowest bit of one word in so many is 1."""

    def twin(n: int) -> Words:
        words = draw(n)
        words[::one_in] |= np.uint64(1)
        return words

    return twin


def repeating(draw: Draw, one_in: int) -> Draw:
    """One word in so many is the word before it: noise that is used twice."""

    def twin(n: int) -> Words:
        words = draw(n)
        words[1::one_in] = words[: len(words[:-1]) : one_in][: len(words[1::one_in])]
        return words

    return twin


def sticky(draw: Draw, one_in: int) -> Draw:
    """In one word in so many every other bit is that before it."""

    def twin(n: int) -> Words:
        words = draw(n)
        even = words[::one_in] & np.uint64(0x5555555555555555)
        words[::one_in] = even | even << np.uint64(1)
        return words

    return twin


BIT_TWINS: Mapping[str, Callable[[Draw], Draw]] = {
    "one word in 1,000 has its lowest bit set": partial(biased, one_in=1_000),
    "one word in 20,000 repeats the word before": partial(repeating, one_in=20_000),
    "one word in 2,000 has 32 independent bits": partial(sticky, one_in=2_000),
}


def measure() -> Part:
    """Draws a billion words, and as many rounded Gaussians at each sigma; shows broken twins to the checks."""
    rng, rows = NoiseSource.from_os(), []
    twins = BILLION // 5  # enough to reject those of the words

    def row(what: str, n: int, found: Mapping[str, float], *, broken: bool) -> None:
        worst = min(found, key=lambda check: found[check])
        right = (found[worst] < ALPHA) == broken
        verdict = ("rejected" if broken else "as promised") if right else _WRONG
        rows.append((what, f"{n:,}", worst, f"{found[worst]:.1e}", verdict))

    row("64-bit words", BILLION, check_bits(rng.words, BILLION), broken=False)
    for says, twin in BIT_TWINS.items():
        row(f"twin: {says}", twins, check_bits(twin(rng.words), twins), broken=True)
    for sigma in SIGMAS:
        found = check_gaussians(partial(rng.rounded_gaussian, sigma), sigma, BILLION)
        row(f"rounded Gaussians, sigma {sigma:g}", BILLION, found, broken=False)
        less = check_gaussians(partial(rng.rounded_gaussian, 0.999 * sigma), sigma, BILLION)
        row(f"twin: 0.1 % less noise, sigma {sigma:g}", BILLION, less, broken=True)
    return Part(
        title="Noise",
        says=(
            "Draws of the noise source. Words are tested for ones, places, pairs of bytes, runs, lags, weights and "
            "repeats; rounded Gaussians against their exact distribution, tails included. The smallest of the p-values "
            "is shown; a check of a source that is as promised falls below 1e-6 once in a million times."
        ),
        header=("what is drawn", "draws", "least likely check", "p-value", "found"),
        rows=tuple(rows),
        passed=all(verdict != _WRONG for *_, verdict in rows),
    )


_WRONG = "WRONG"
