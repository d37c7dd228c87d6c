import copy
import math
import os
import pickle
import threading

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import chisquare, norm

from reticent import errors
from reticent.gate.noise import NoiseSource, source
from tests.conftest import ALPHA


def rounded_pmf(k: np.ndarray, sigma: float) -> np.ndarray:
    """The exact distribution of round(N(0, sigma^2)), each side from its own tail."""
    k = np.abs(k)
    law: np.ndarray = np.where(
        k == 0, norm.cdf(0.5 / sigma) - norm.cdf(-0.5 / sigma), norm.sf((k - 0.5) / sigma) - norm.sf((k + 0.5) / sigma)
    )
    return law


def fits(draws: np.ndarray, sigma: float) -> bool:
    """Chi-square against the pmf, with both tails as cells of their own."""
    edge = math.floor(4.2 * sigma)
    cells = np.arange(-edge, edge + 1)
    if len(cells) > 101:  # large sigma: group neighbours into about 100 cells
        edges = np.unique(np.linspace(-edge, edge, 100).astype(np.int64))
        expected = np.diff(norm.cdf((np.concatenate([[-np.inf], edges + 0.5, [np.inf]])) / sigma))
        observed = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=len(edges) + 1)
    else:
        inside = rounded_pmf(cells, sigma)
        tail = norm.sf((edge + 0.5) / sigma)
        expected = np.concatenate([[tail], inside, [tail]])
        observed = np.bincount(np.clip(draws, -edge - 1, edge + 1) + edge + 1, minlength=len(cells) + 2)
    return bool(chisquare(observed, expected / expected.sum() * len(draws)).pvalue >= ALPHA)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 7.3, 1000.0, 3.73 * 2**20])
def test_rounded_gaussian_follows_its_pmf(sigma, rng):
    draws = rng.rounded_gaussian(sigma, 1_000_000)
    assert fits(draws, sigma)


@pytest.mark.parametrize("sigma", [1.0, 7.3, 3.73 * 2**20])
def test_one_percent_less_noise_is_rejected(sigma, rng):
    assert not fits(rng.rounded_gaussian(sigma * 0.99, 1_000_000), sigma)


@pytest.mark.parametrize("sigma", [0.4, 2.0, 50.0])
def test_exact_path_alone_follows_the_pmf(sigma, rng):
    """Every draw settled in high precision, which the fast path uses where it cannot decide."""
    words = rng.words(10_000).view(np.int64).tolist()
    draws = np.array([rng._settle(w, sigma) if w >= 0 else -rng._settle(~w, sigma) for w in words])
    assert fits(draws, sigma)


def test_both_paths_agree_on_the_same_bits(rng, monkeypatch):
    sigma = 3.73 * 2**20
    words = NoiseSource.seeded(5).words(3_000).view(np.int64).tolist()
    fast = NoiseSource.seeded(5).rounded_gaussian(sigma, 3_000)
    exact = [rng._settle(w, sigma) if w >= 0 else -rng._settle(~w, sigma) for w in words]
    assert fast.tolist() == exact
    monkeypatch.setattr(source, "_NEAR_HALF", -1.0)  # everything is doubtful
    assert NoiseSource.seeded(5).rounded_gaussian(sigma, 500).tolist() == exact[:500]


def test_settling_deep_in_the_tail_draws_more_bits(rng):
    deep = [rng._settle(0, 100.0) for _ in range(200)]
    assert min(deep) >= math.floor(-float(ndtri(2.0**-64)) * 100.0)
    assert len(set(deep)) > 20


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, 2.0**53])
def test_sigma_out_of_range_is_refused(sigma, rng):
    with pytest.raises(errors.InvalidValue, match="Expected 0 < sigma"):
        rng.rounded_gaussian(sigma, 3)


@pytest.mark.parametrize("shape", [0, 1, (0, 5), (3, 0), (7, 5), 40_000])
def test_shapes(shape, rng):
    drawn = rng.rounded_gaussian(10.0, shape)
    assert drawn.shape == np.empty(shape).shape
    assert drawn.dtype == np.int64


def test_coins_are_exact_in_the_tail():
    """A coin of 1e-15 must not become 1.11e-15, as 53 bits would make it: the comparison is on integers."""
    draws = [0, 1, 2**255, 2**256 - 1, 2**256]
    drawn = NoiseSource.seeded(3).words(4 * len(draws)).reshape(-1, 4)
    numbers = [sum(int(word) << (64 * i) for i, word in enumerate(row)) for row in drawn]
    assert NoiseSource.seeded(3).coins(draws).tolist() == [n < t for n, t in zip(numbers, draws, strict=True)]
    assert NoiseSource.seeded(3).coins([n + 1 for n in numbers]).all()
    assert not NoiseSource.seeded(3).coins(numbers).any()


@pytest.mark.parametrize("p", [0.03, 0.5, 0.98])
def test_coins_follow_their_probability(p, rng):
    heads = int(rng.coins([int(p * 2**256)] * 100_000).sum())
    assert abs(heads - 100_000 * p) < 5.2 * math.sqrt(100_000 * p * (1 - p))


def test_words_are_uniform(rng):
    words = rng.words(200_000)
    for shift in (0, 8, 32, 56):
        cells = np.bincount(((words >> np.uint64(shift)) & np.uint64(255)).astype(np.int64), minlength=256)
        assert chisquare(cells).pvalue >= ALPHA


def test_seeded_is_repeatable_and_says_so(rng):
    assert NoiseSource.seeded(1).words(100).tolist() == NoiseSource.seeded(1).words(100).tolist()
    assert NoiseSource.seeded(1).words(100).tolist() != NoiseSource.seeded(2).words(100).tolist()
    assert not NoiseSource.seeded(1).private
    assert "NOT PRIVATE" in repr(NoiseSource.seeded(1))
    assert rng.private
    assert NoiseSource.from_os().words(4).tolist() != NoiseSource.from_os().words(4).tolist()
    with pytest.raises(errors.InvalidValue, match="seed"):
        NoiseSource.seeded(-1)


def test_chunks_do_not_repeat(rng):
    words = rng.words(3 * source._CHUNK + 5)
    assert len(np.unique(words)) == len(words)


def test_source_cannot_be_copied(rng):
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="never be used twice"):
            attempt(rng)


@pytest.mark.posix
def test_forked_child_draws_other_noise(rng):
    rng.words(3)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, rng.words(8).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    from_child = os.read(read, 64)
    os.close(read)
    os.close(write)
    assert len(from_child) == 64
    assert from_child != rng.words(8).tobytes()


def test_threads_share_a_source_without_sharing_noise(rng):
    found: list[np.ndarray] = []
    workers = [threading.Thread(target=lambda: found.append(rng.words(20_000))) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(np.unique(np.concatenate(found))) == 6 * 20_000
