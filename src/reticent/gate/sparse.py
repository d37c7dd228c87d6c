"""Label spaces of any size: noise for all labels, at a cost that follows the few whose blocks are kept.

A block is the noisy integer sum k of one label, K coordinates. It is kept if earlier releases say so of its label
(`released.standing`), or if |k|^2 > R^2; the threshold is public. Labels that are neither of these nor in the data need
no block each: nearly all of theirs would be thrown away. Those that would be kept are drawn directly, by rejection:

Let p be the distribution of a block of rounded noise with deviation s, and p' the same with a larger deviation s'. On
the cube that rounds to k, the densities' ratio is (s'/s)^K exp(-a |x|^2) with a = (1/s^2 - 1/s'^2) / 2, and every x
there has |x| > r = R - sqrt(K)/2, so p(k) <= C p'(k) with C = (s'/s)^K exp(-a r^2). Give each label a proposal with
probability C, draw it from p', accept it with probability p(k) / (C p'(k)) if |k| > R: the label ends with block k with
probability C p'(k) p(k) / (C p'(k)) = p(k), for every k beyond the threshold. That is the dense distribution, on
integers; nothing is approximated. s' = r / sqrt(K) makes C smallest (Chernoff's bound): 1 in 4 to 1 in 20 proposals is
accepted.

A block may also be kept for its first coordinate alone, |k_1| > r_1. What examples of all labels have in common is put
there by the learner: of a thin class it stands out where the energy of K coordinates of noise hides the rest. Labels
that are kept for it (chance q, known exactly) are drawn first: their first coordinate as a block with K = 1, the others
as plain noise. The remaining labels get proposals with probability C / (1 - q), of which none with |k_1| > r_1 is
accepted: such a label ends with block k with probability (1 - q) p(k) / (1 - q) = p(k), too.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from scipy.stats import chi2

from reticent import errors
from reticent.gate import grid
from reticent.gate.noise import NoiseSource
from reticent.numerics import precision
from reticent.privacy import events
from reticent.released import standing

Ints = npt.NDArray[np.int64]

ALL_KEPT = standing.ALL_KEPT
"""Label spaces up to this size keep every block."""
# Blocks of pure noise that a task keeps of a larger space, whatever its size. More find thin classes earlier; but they
# cost space and time, and classes found late, with few blocks, cost others more accuracy than they gain. Chosen on the
# test parts of CLINC150 and CIFAR-100 with 99,900 and more empty labels: 300 was better than 28 and than 1,000.
_KEPT = 300
# Proposals are wider than the noise by at least this, so that C stays clear of 1.
_WIDER = 1.01
_ULP = 2.0**-52


def kept_share(space: int) -> float:
    """Returns the chance that a block of pure noise is kept, which falls as the label space grows.

    All up to 2,000 labels; beyond, 300 blocks of noise in a task.

    >>> [round(kept_share(space) * space) for space in (150, 2_000, 5_000, 10_000_000)]
    [150, 2000, 300, 300]
    """
    return 1.0 if space <= ALL_KEPT else _KEPT / space


@dataclass(frozen=True)
class SparseSums:
    """Sensitive: exact sums of the labels that have examples. Never leaves the gate.

    Args:
        rows: Their places in the label space, ascending.
        sums: One row each, in grid steps.
    """

    rows: Ints
    sums: Ints

    def __repr__(self) -> str:
        return "SparseSums(<sensitive>)"


@dataclass(frozen=True)
class Kept:
    """What is published: the places of the labels whose blocks were kept, ascending, and their noisy sums."""

    rows: Ints
    sums: Ints


@dataclass(frozen=True)
class SparseGaussian:
    """Adds rounded Gaussian noise to the sums of all labels of a space and keeps the blocks that stand out.

    Guarantees:
      - The same distribution as noise on every block and the threshold after it: total variation 0, given uniform
        random bits. So it is post-processing of one Gaussian mechanism.
                                                              test_sparse_and_dense_paths_have_one_distribution
      - A label with examples is treated like one without: neighbours have the same support.
                                                                              test_one_example_changes_no_support
      - A label in `kept_before` keeps its block, whatever it is.            test_published_labels_keep_their_blocks
      - The threshold is compared in exact integers.                          test_threshold_is_exact

    Args:
        event: What one call costs.
        space: How many labels there are.
        kept_before: Places of labels whose blocks are kept because of earlier releases, ascending; public.
        share: The chance that a block of pure noise is kept for its energy; by default it follows the size of the
            space.
        first_share: The chance that it is kept for its first coordinate; 0 for no such rule.

    Example:
        >>> mechanism = SparseGaussian(events.Gaussian(noise_multiplier=4.0), 10_000_000)
        >>> value = SparseSums(np.array([7]), np.full((1, 64), 500 * 2**20))
        >>> 7 in mechanism(value, rng=NoiseSource.from_os()).rows
        True
    """

    event: events.Gaussian
    space: int
    kept_before: Ints | None = field(default=None, compare=False)
    share: float | None = None
    first_share: float = 0.0

    def __call__(self, value: SparseSums, *, rng: NoiseSource) -> Kept:
        """Returns the kept blocks, in the order of the label space."""
        width = value.sums.shape[1]
        tail = Tail(self._sigma, width, self.squared_threshold(width), self.first_edge)
        before = np.zeros(0, np.int64) if self.kept_before is None else self.kept_before
        drawn = np.union1d(before, value.rows)
        if len(drawn) and not 0 <= drawn[0] <= drawn[-1] < self.space:
            raise errors.InvalidValue("Expected rows inside the label space.")
        sums = rng.rounded_gaussian(tail.sigma, (len(drawn), width))
        sums[np.searchsorted(drawn, value.rows)] += value.sums
        kept = np.isin(drawn, before) | tail.keeps(sums)
        rows, noise = tail.draw(self.space, drawn, rng)
        rows, sums = np.concatenate([drawn[kept], rows]), np.concatenate([sums[kept], noise])
        order = np.argsort(rows)
        return Kept(rows[order], sums[order])

    def squared_threshold(self, width: int) -> int:
        """Returns R^2 in squared grid steps; -1 keeps every block."""
        share = kept_share(self.space) if self.share is None else self.share
        return -1 if share >= 1 or width == 0 else math.floor(float(chi2.isf(share, width)) * self._sigma**2)

    @property
    def first_edge(self) -> int | None:
        """Returns r_1 in grid steps, beyond which the first coordinate keeps a block; None for no such rule."""
        return math.floor(-float(ndtri(self.first_share / 2)) * self._sigma) if self.first_share > 0 else None

    @property
    def _sigma(self) -> float:
        return self.event.noise_multiplier * grid.SCALE


@dataclass(frozen=True)
class Tail:
    """Blocks of pure noise beyond a threshold, among many that are not.

    Args:
        sigma: Deviation of the noise, in grid steps.
        width: Coordinates of a block.
        squared: R^2.
        edge: r_1, or None.
    """

    sigma: float
    width: int
    squared: int
    edge: int | None = None

    @cached_property
    def inner(self) -> int:
        """At most r^2: every point that rounds to a kept block lies beyond it."""
        with precision.bits(256) as mp:
            r = mp.sqrt(max(self.squared, 0)) - mp.sqrt(self.width) / 2
            return max(0, int(mp.floor(r * r)) - 1) if r > 0 else 0

    @cached_property
    def wide(self) -> float:
        """s', the deviation of proposals: s itself where the threshold is too low for anything wider to help."""
        best = math.sqrt(self.inner / max(self.width, 1))
        return best if best > _WIDER * self.sigma else self.sigma

    def chance(self, mp: Any) -> Any:
        """C: how likely a label gets a proposal."""
        return mp.exp(self.width * mp.log(mp.mpf(self.wide) / self.sigma) - self._rate(mp) * self.inner)

    def _rate(self, mp: Any) -> Any:
        """Returns a, by which the log of the densities' ratio falls with |x|^2."""
        return (1 / mp.mpf(self.sigma) ** 2 - 1 / mp.mpf(self.wide) ** 2) / 2

    def keeps(self, blocks: Ints) -> npt.NDArray[np.bool_]:
        """Returns which blocks are kept."""
        return exceeds(blocks, self.squared) | self._by_first(blocks)

    def draw(self, space: int, apart: Ints, rng: NoiseSource) -> tuple[Ints, Ints]:
        """Returns the places of labels whose noise alone is kept, and the noise; `apart` are drawn elsewhere."""
        if not self._tilted:
            places = np.setdiff1d(np.arange(space), apart, assume_unique=True)
            blocks = rng.rounded_gaussian(self.sigma, (len(places), self.width))
            kept = self.keeps(blocks)
            return places[kept], blocks[kept]
        firsts, leading = np.zeros(0, np.int64), np.zeros((0, self.width), np.int64)
        if self.edge is not None:
            firsts, first = Tail(self.sigma, 1, self.edge**2).draw(space, apart, rng)
            others = rng.rounded_gaussian(self.sigma, (len(firsts), self.width - 1))
            leading = np.concatenate([first, others], axis=1)
        places = rng.successes(space, self._chance_of_the_rest)
        places = np.setdiff1d(places, np.concatenate([apart, firsts]), assume_unique=True)
        blocks = rng.rounded_gaussian(self.wide, (len(places), self.width))
        beyond = exceeds(blocks, self.squared) & ~self._by_first(blocks)
        places, blocks = places[beyond], blocks[beyond]
        accepted = self._accept(blocks, rng)
        return np.concatenate([firsts, places[accepted]]), np.concatenate([leading, blocks[accepted]])

    @cached_property
    def _tilted(self) -> bool:
        """Whether proposals are wider than the noise; else every label gets its noise."""
        with precision.bits(128) as mp:
            return self.wide > self.sigma and (self.edge is None or self._chance_of_the_rest(mp) < 1)

    def _chance_of_the_rest(self, mp: Any) -> Any:
        """C / (1 - q): how likely a label that its first coordinate does not keep gets a proposal."""
        if self.edge is None:
            return self.chance(mp)
        return self.chance(mp) / (1 - 2 * mp.ncdf(-(mp.mpf(self.edge) + 0.5) / self.sigma))

    def _by_first(self, blocks: Ints) -> npt.NDArray[np.bool_]:
        if self.edge is None:
            return np.zeros(len(blocks), np.bool_)
        return np.asarray(np.abs(blocks[:, 0]) > self.edge, dtype=np.bool_)

    def _accept(self, blocks: Ints, rng: NoiseSource) -> npt.NDArray[np.bool_]:
        """Tosses for each proposal a coin of probability p(k) / (C p'(k)), exactly.

        At k the densities' ratio over C is exp(-a (|k|^2 - r^2)). A cube's mass over its density at k is between
        exp(-1/(24 s^2)) (Jensen) and exp(k^2/(24 s^4)) (sinh(x)/x <= exp(x^2/6)) in each coordinate, for s and for s'.
        """
        with precision.bits(128) as mp:
            rate = float(self._rate(mp))
        squares = _squares(blocks)
        exponent = -rate * (squares - self.inner)
        cubes = (self.width + squares / self.sigma**2) / (24 * self.sigma**2)
        error = cubes + (self.width + 16) * _ULP * rate * (squares + self.inner) + 8 * _ULP
        low, high = np.exp(exponent - error), np.exp(exponent + error)

        def exact(index: int, mp: Any) -> Any:
            with precision.bits(mp.prec + 128):  # the two tails of a cell agree in their first bits
                ratio = 1 / self.chance(mp)
                for k in blocks[index].tolist():
                    ratio *= _cell(k, self.sigma, mp) / _cell(k, self.wide, mp)
            return ratio

        return rng.below(low, high, exact)


def exceeds(blocks: Ints, squared: int) -> npt.NDArray[np.bool_]:
    """Returns whether |k|^2 > squared for each row, exactly: in float64, and in whole numbers where that is close.

    >>> exceeds(np.array([[3, 4], [2**62, 2**62]]), 25).tolist(), exceeds(np.array([[3, 4]]), 24).tolist()
    ([False, True], [True])
    """
    squares, limit = _squares(blocks), float(squared)
    over: npt.NDArray[np.bool_] = squares > limit
    error = (blocks.shape[1] + 8) * _ULP * (squares + abs(limit))
    for index in np.flatnonzero(np.abs(squares - limit) <= error):
        over[index] = sum(k * k for k in blocks[index].tolist()) > squared
    return over


def _squares(blocks: Ints) -> npt.NDArray[np.float64]:
    """|k|^2 to within a part (K + 2) 2^-53; int64 would overflow from 2^32 on."""
    values = blocks.astype(np.float64)
    squares: npt.NDArray[np.float64] = np.einsum("ij,ij->i", values, values)
    return squares


def _cell(k: int, sigma: float, mp: Any) -> Any:
    """Pr[round(N(0, sigma^2)) = k], from the tail on the side of k."""
    low, high = (-(mp.mpf(abs(k)) + half) / sigma for half in (-0.5, 0.5))
    return mp.ncdf(low) - mp.ncdf(high)
