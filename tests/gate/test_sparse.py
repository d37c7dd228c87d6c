import dataclasses
import math

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, chi2, chisquare, ks_2samp, norm

from reticent import errors
from reticent.gate import grid, sparse
from reticent.gate.noise import NoiseSource
from reticent.gate.sparse import Kept, SparseGaussian, SparseSums, Tail, exceeds
from reticent.privacy import events
from tests.conftest import ALPHA
from tests.gate.noise.test_source import rounded_pmf

Ints = npt.NDArray[np.int64]


def noise(sigma: float) -> events.Gaussian:
    """Noise of so many grid steps."""
    return events.Gaussian(noise_multiplier=sigma / grid.SCALE)


def nothing(width: int) -> SparseSums:
    return SparseSums(np.zeros(0, np.int64), np.zeros((0, width), np.int64))


def dense(mechanism: SparseGaussian, value: SparseSums, rng: NoiseSource) -> Kept:
    """The slow obvious version: noise on every block, then the rule, in Python integers."""
    width = value.sums.shape[1]
    blocks = rng.rounded_gaussian(mechanism.event.noise_multiplier * grid.SCALE, (mechanism.space, width))
    blocks[value.rows] += value.sums
    limit = mechanism.squared_threshold(width)
    kept = np.array([sum(k * k for k in block) > limit for block in blocks.tolist()], dtype=np.bool_)
    if mechanism.first_edge is not None:
        kept |= np.array([abs(block[0]) > mechanism.first_edge for block in blocks.tolist()], dtype=np.bool_)
    if mechanism.kept_before is not None:
        kept[mechanism.kept_before] = True
    return Kept(np.flatnonzero(kept), blocks[kept])


def features(sums: Ints) -> list[npt.NDArray[np.float64]]:
    """Norm, first coordinate, largest coordinate, and a sum that sees whether coordinates go together."""
    s = sums.astype(np.float64)
    return [np.sum(s**2, axis=1), s[:, 0], np.abs(s).max(axis=1), s[:, s.shape[1] // 2 :].sum(axis=1)]


def same_law(ours: Kept, theirs: Kept, space: int) -> bool:
    """Compares how many blocks are kept, which rows, their norms and their coordinates."""
    a, b = len(ours.rows), len(theirs.rows)
    number = binomtest(a, a + b, 0.5).pvalue if a + b else 1.0
    cells = [np.bincount(kept.rows * 10 // space, minlength=10) for kept in (ours, theirs)]
    rows = chisquare(cells[0], np.full(10, cells[0].sum() / 10)).pvalue if a else 1.0
    checks = [number, rows]
    if a and b:
        checks += [ks_2samp(*pair).pvalue for pair in zip(features(ours.sums), features(theirs.sums), strict=True)]
    return min(checks) >= ALPHA / len(checks)


def repeated(run, draws: int) -> Kept:
    kept = [run() for _ in range(draws)]
    return Kept(np.concatenate([k.rows for k in kept]), np.concatenate([k.sums for k in kept]))


CASES = [(1, 40.0), (2, 40.0), (3, 40.0), (3, 2.0), (8, 1000.0), (40, 3.73 * grid.SCALE)]


@pytest.mark.parametrize(("width", "sigma"), CASES)
@pytest.mark.parametrize("share", [0.3, 0.02])
@pytest.mark.parametrize("first", [0.0, 0.1])
def test_sparse_and_dense_paths_have_one_distribution(width, sigma, share, first, rng):
    """Several empty spaces, one after the other; K = 1, 2, 3 and a grid so coarse that rounding matters."""
    space, draws = 2_000, 8
    mechanism = SparseGaussian(noise(sigma), space, share=share, first_share=first)
    assert Tail(sigma, width, mechanism.squared_threshold(width)).wide > sigma or sigma == 2.0
    ours = repeated(lambda: mechanism(nothing(width), rng=rng), draws)
    theirs = repeated(lambda: dense(mechanism, nothing(width), rng), draws)
    assert same_law(ours, theirs, space)
    if sigma > 100 and not first:  # the number is known beforehand, too
        assert binomtest(len(ours.rows), draws * space, share).pvalue >= ALPHA


def test_real_size_has_the_right_number_and_radius(rng):
    """K = 384, a million labels: norms against the truncated chi-square distribution."""
    sigma, width, space = 3.73 * grid.SCALE, 384, 1_000_000
    mechanism = SparseGaussian(noise(sigma), space, share=2e-4)
    kept = mechanism(nothing(width), rng=rng)
    assert binomtest(len(kept.rows), space, 2e-4).pvalue >= ALPHA
    tails = chi2.sf(np.sum((kept.sums / sigma) ** 2, axis=1), width) / 2e-4
    assert chisquare(np.histogram(tails, bins=5, range=(0, 1))[0]).pvalue >= ALPHA
    assert np.all(np.diff(kept.rows) > 0)
    signs = int(np.sum(kept.sums > 0))
    assert binomtest(signs, kept.sums.size, 0.5).pvalue >= ALPHA


@pytest.mark.parametrize("sigma", [1.5, 3.0])
def test_single_coordinates_follow_their_pmf(sigma, rng):
    """K = 1 on a coarse grid: every kept value as often as its exact probability says."""
    space = 40_000
    mechanism = SparseGaussian(noise(sigma), space, share=0.05)
    edge = math.isqrt(mechanism.squared_threshold(1)) + 1
    assert Tail(sigma, 1, mechanism.squared_threshold(1)).wide > sigma
    kept = mechanism(nothing(1), rng=rng).sums[:, 0]
    assert np.abs(kept).min() == edge
    values = np.arange(edge, edge + 3)
    inside = np.concatenate([rounded_pmf(-values, sigma), rounded_pmf(values, sigma)])
    beyond = norm.sf((values[-1] + 0.5) / sigma)
    expected = np.concatenate([inside, [beyond, beyond, 1 - inside.sum() - 2 * beyond]]) * space
    observed = [np.sum(kept == k) for k in (*-values, *values)]
    observed += [np.sum(kept < -values[-1]), np.sum(kept > values[-1]), space - len(kept)]
    assert chisquare(observed, expected).pvalue >= ALPHA


# --- broken twins: each must be told from the dense path


class NotTruncated(Tail):
    """Keeps every proposal beyond the threshold, as if its radius were right."""

    def _accept(self, blocks, rng):
        return np.ones(len(blocks), dtype=np.bool_)


class WrongCount(Tail):
    """Labels get proposals half as often."""

    def chance(self, mp):
        return super().chance(mp) / 2

    def _accept(self, blocks, rng):
        return Tail(self.sigma, self.width, self.squared)._accept(blocks, rng)


class WrongRadius(Tail):
    """The right number, but blocks as wide as the proposals."""

    def draw(self, space, apart, rng):
        rows, _ = super().draw(space, apart, rng)
        wide = rng.rounded_gaussian(self.wide, (20 * len(rows) + 20, self.width))
        return rows, wide[exceeds(wide, self.squared)][: len(rows)]


class FirstRows(Tail):
    """The right number and radius, in the first half of the space."""

    def draw(self, space, apart, rng):
        rows, blocks = super().draw(space, apart, rng)
        return rows // 2, blocks


@pytest.mark.parametrize("twin", [NotTruncated, WrongCount, WrongRadius, FirstRows])
def test_broken_twins_are_rejected(twin, rng, monkeypatch):
    space, draws, width = 2_000, 40, 8
    mechanism = SparseGaussian(noise(1000.0), space, share=0.1)
    theirs = repeated(lambda: dense(mechanism, nothing(width), rng), draws)
    assert same_law(repeated(lambda: mechanism(nothing(width), rng=rng), draws), theirs, space)
    monkeypatch.setattr(sparse, "Tail", twin)
    assert not same_law(repeated(lambda: mechanism(nothing(width), rng=rng), draws), theirs, space)


# --- blocks that are kept for their first coordinate


def test_first_coordinates_keep_their_share(rng):
    """K = 384, a hundred thousand labels: how many are kept for it, with plain noise in the other coordinates."""
    sigma, width, space = 3.73 * grid.SCALE, 384, 100_000
    mechanism = SparseGaussian(noise(sigma), space, share=2e-3, first_share=1e-3)
    kept = mechanism(nothing(width), rng=rng).sums
    edge = mechanism.first_edge
    assert edge is not None
    by_first = np.abs(kept[:, 0]) > edge
    assert binomtest(int(by_first.sum()), space, 1e-3).pvalue >= ALPHA
    tails = chi2.sf(np.sum((kept[by_first, 1:] / sigma) ** 2, axis=1), width - 1)
    assert chisquare(np.histogram(tails, bins=4, range=(0, 1))[0]).pvalue >= ALPHA  # plain noise


class NotMadeUpFor(Tail):
    """The other labels get proposals as if none had been kept for its first coordinate."""

    def _chance_of_the_rest(self, mp):
        return self.chance(mp)


class NotExcluded(Tail):
    """The other labels may have a first coordinate beyond the edge as well."""

    def _by_first(self, blocks):
        return np.zeros(len(blocks), np.bool_)


class Leaning(Tail):
    """The other coordinates of blocks that are kept for their first are those of proposals."""

    def draw(self, space, apart, rng):
        rows, blocks = super().draw(space, apart, rng)
        if self.width > 1 and self.edge is not None:
            leading = np.abs(blocks[:, 0]) > self.edge
            blocks[leading, 1:] = rng.rounded_gaussian(self.wide, (int(leading.sum()), self.width - 1))
        return rows, blocks


@pytest.mark.parametrize("twin", [None, NotMadeUpFor, NotExcluded, Leaning])
def test_broken_first_coordinates_are_rejected(twin, rng, monkeypatch):
    space, draws, width = 4_000, 40, 4
    mechanism = SparseGaussian(noise(1000.0), space, share=0.1, first_share=0.25)
    theirs = repeated(lambda: dense(mechanism, nothing(width), rng), draws)
    if twin is not None:
        monkeypatch.setattr(sparse, "Tail", twin)
    ours = repeated(lambda: mechanism(nothing(width), rng=rng), draws)
    assert same_law(ours, theirs, space) == (twin is None)


def test_labels_with_examples_are_kept_for_their_first_coordinate(rng):
    """Far beyond the edge, far from the energy's threshold."""
    sigma, width = 1000.0, 20_000
    mechanism = SparseGaussian(noise(sigma), 50_000, share=1e-9, first_share=1e-3)
    sums = np.zeros((1, width), np.int64)
    sums[0, 0] = 9_000
    assert 17 in mechanism(SparseSums(np.array([17]), sums), rng=rng).rows
    without = dataclasses.replace(mechanism, first_share=0.0)
    assert 17 not in without(SparseSums(np.array([17]), sums), rng=rng).rows


# --- labels with examples, labels published before


def test_one_example_changes_no_support(rng):
    """Each second label has one example: kept as often and distributed as by the dense path; the others like noise."""
    sigma, width, space, share, draws = grid.SCALE / 2, 3, 4_000, 0.05, 5
    mechanism = SparseGaussian(noise(sigma), space, share=share)
    rows = np.arange(0, space, 2)
    value = SparseSums(rows, np.tile([grid.SCALE, 0, 0], (len(rows), 1)))
    kept = repeated(lambda: mechanism(value, rng=rng), draws)
    ours = kept.sums[kept.rows % 2 == 0]
    blocks = rng.rounded_gaussian(sigma, (draws * len(rows), width)) + value.sums[0]
    theirs = blocks[exceeds(blocks, mechanism.squared_threshold(width))]
    assert 0 < len(ours) < draws * len(rows)  # an example decides nothing for certain
    assert binomtest(len(ours), len(ours) + len(theirs), 0.5).pvalue >= ALPHA
    assert ks_2samp(ours[:, 0], theirs[:, 0]).pvalue >= ALPHA
    assert binomtest(int(np.sum(kept.rows % 2)), draws * space // 2, share).pvalue >= ALPHA


def test_other_labels_are_unaffected(rng):
    """Rows with examples and rows published before get at most one block; the rest follow the dense distribution."""
    space, draws, width = 1_000, 20, 4
    rows = np.arange(0, space, 3)
    mechanism = SparseGaussian(noise(1000.0), space, kept_before=np.arange(0, space, 7), share=0.1)
    value = SparseSums(rows, np.full((len(rows), width), 500))
    ours = repeated(lambda: mechanism(value, rng=rng), draws)
    theirs = repeated(lambda: dense(mechanism, value, rng), draws)
    for mine in (0, 1, 2):  # with examples, and without
        a, b = (Kept(k.rows[k.rows % 3 == mine], k.sums[k.rows % 3 == mine]) for k in (ours, theirs))
        assert same_law(a, b, space)
    single = mechanism(value, rng=rng)
    assert len(np.unique(single.rows)) == len(single.rows)


def test_published_labels_keep_their_blocks(rng):
    """Once passed, always kept: an empty task gives a label published before its noise, with no threshold."""
    sigma, width, space = 1000.0, 5, 12_000
    first = SparseGaussian(noise(sigma), space)(nothing(width), rng=rng)
    assert 200 < len(first.rows) < 400  # 300 expected
    again = SparseGaussian(noise(sigma), space, kept_before=first.rows)(nothing(width), rng=rng)
    assert set(first.rows) <= set(again.rows)
    blocks = np.concatenate(
        [
            kept.sums[np.isin(kept.rows, first.rows)]
            for kept in (
                SparseGaussian(noise(sigma), space, kept_before=first.rows)(nothing(width), rng=rng) for _ in range(40)
            )
        ]
    )
    assert ks_2samp(blocks.ravel(), rng.rounded_gaussian(sigma, 10_000)).pvalue >= ALPHA


@pytest.mark.parametrize("space", [0, 1, 150, sparse.ALL_KEPT])
def test_small_spaces_keep_every_block(space, rng):
    kept = SparseGaussian(noise(1000.0), space)(nothing(6), rng=rng)
    assert kept.rows.tolist() == list(range(space))
    assert kept.sums.shape == (space, 6)


def test_rows_outside_the_space_are_refused(rng):
    with pytest.raises(errors.InvalidValue, match="inside the label space"):
        SparseGaussian(noise(1000.0), 3)(SparseSums(np.array([3]), np.zeros((1, 2), np.int64)), rng=rng)


def test_sums_are_opaque():
    assert repr(nothing(3)) == "SparseSums(<sensitive>)"
    assert SparseGaussian(noise(1.0), 3, kept_before=np.arange(2)) == SparseGaussian(
        noise(1.0), 3, kept_before=np.arange(3)
    )


# --- exactness


@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1, max_size=5), st.integers(-1, 1))
def test_threshold_is_exact(block, off):
    squared = sum(k * k for k in block)
    assert exceeds(np.array([block], dtype=np.int64), squared + off).tolist() == [off < 0]


def test_bounds_of_acceptance_hold(rng, monkeypatch):
    """The exact probability lies within the bounds that decide in float64, on fine and coarse grids."""
    seen = 0

    def check(low, high, exact):
        nonlocal seen
        for i in range(min(len(low), 20)):
            with mpmath.workprec(300):
                value = exact(i, mpmath.mp)
                assert low[i] <= value <= min(high[i], 2)
                assert value <= 1
            seen += 1
        return np.zeros(len(low), dtype=np.bool_)

    monkeypatch.setattr(rng, "below", check)
    for sigma, width, share in ((2.0, 3, 0.01), (30.0, 6, 0.01), (3.73 * grid.SCALE, 20, 1e-3)):
        SparseGaussian(noise(sigma), 20_000, share=share)(nothing(width), rng=rng)
    assert seen > 20


def test_share_falls_with_the_space():
    shares = [sparse.kept_share(space) for space in (2_000, 2_001, 10_000, 10**6, 10**7, 10**9)]
    assert shares[0] == 1
    assert shares[1] == pytest.approx(0.15, rel=0.01)
    assert shares == sorted(shares, reverse=True)
    wide = SparseGaussian(noise(1000.0), 10**9).squared_threshold(384)
    assert wide == pytest.approx(chi2.isf(3e-7, 384) * 1e6)
    assert SparseGaussian(noise(1000.0), 100).squared_threshold(384) == -1


def test_successes_follow_their_distribution(rng):
    n, p = 5_000, 0.013
    found = [rng.successes(n, lambda mp: mp.mpf(p)) for _ in range(400)]
    numbers = np.array([len(places) for places in found])
    edges = binom.ppf(np.linspace(0.1, 0.9, 9), n, p)
    expected = np.diff(np.concatenate([[0], binom.cdf(edges, n, p), [1]]))
    observed = np.bincount(np.searchsorted(edges, numbers), minlength=10)
    assert chisquare(observed, expected * len(found)).pvalue >= ALPHA
    places = np.concatenate(found)
    assert chisquare(np.bincount(places * 20 // n, minlength=20)).pvalue >= ALPHA
    assert all(np.all(np.diff(p) > 0) for p in found)


def test_fast_and_exact_coins_agree(rng, monkeypatch):
    """High precision, on bits that float64 decides too."""
    words = NoiseSource.seeded(5).words(300)
    fast = [math.floor(math.log(int(w) / 2**64) / math.log1p(-0.01)) for w in words]
    assert [rng._gap(int(w), lambda mp: mp.mpf(0.01)) for w in words] == fast
    unsure = np.zeros(300), np.ones(300)
    chances = np.linspace(0.1, 0.9, 300)
    slow = NoiseSource.seeded(5).below(*unsure, lambda i, mp: mp.mpf(chances[i]))
    sure = NoiseSource.seeded(5).below(chances, chances, lambda i, mp: mp.mpf(chances[i]))
    assert slow.tolist() == sure.tolist() == [int(w) < c * 2**64 for w, c in zip(words, chances, strict=True)]


def test_undecided_coins_draw_more_bits(rng):
    """A boundary inside the last bit drawn: heads with the chance that the missing bits give."""
    third = [rng._is_below(0, lambda mp: mp.mpf(1) / (3 * mp.mpf(2) ** 64)) for _ in range(2_000)]
    assert binomtest(sum(third), 2_000, 1 / 3).pvalue >= ALPHA
    assert {rng._gap(0, lambda mp: mp.mpf(0.5)) >= 64 for _ in range(20)} == {True}


@pytest.mark.parametrize("chance", [0, 1])
def test_impossible_chances_are_refused(chance, rng):
    with pytest.raises(errors.InvalidValue, match="above 0 and below 1"):
        rng.successes(10, lambda mp: mp.mpf(chance))


def test_mechanism_is_a_value():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SparseGaussian(noise(1.0), 3).space = 4  # type: ignore[misc]
