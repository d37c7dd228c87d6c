import copy
import ctypes
import math
import os
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import CipherContext
from scipy.special import ndtri
from scipy.stats import chisquare, norm

from reticent import errors
from reticent.budget import Budget
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import GaussianSum
from reticent.gate.noise import NoiseSource, normal, source
from reticent.privacy import events
from tests.assurance import noise
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


class Unlocked:
    """A broken twin: reads its place in the stream and moves on, and another thread may come in between."""

    def __init__(self) -> None:
        self._at = 0

    def words(self, n: int) -> np.ndarray:
        at = self._at
        time.sleep(0)
        self._at = at + n
        return np.arange(at, at + n, dtype=np.uint64)


def drawn_by_threads(source: Any) -> np.ndarray:
    """Eight threads that start at once and draw a few words at a time."""
    found: list[np.ndarray] = []
    start = threading.Barrier(8)

    def draw() -> None:
        start.wait()
        for _ in range(300):
            found.append(source.words(3))

    workers = [threading.Thread(target=draw) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return np.concatenate(found)


@pytest.mark.parametrize("kind", [NoiseSource.from_os, lambda: NoiseSource.seeded(4)])
def test_threads_share_a_source_without_sharing_noise(kind):
    words = drawn_by_threads(kind())
    assert len(np.unique(words)) == len(words) == 8 * 300 * 3


def test_threads_that_share_noise_would_be_noticed():
    assert len(np.unique(drawn_by_threads(Unlocked()))) < 8 * 300 * 3


def restored_twice(run: Callable[[], bytes]) -> tuple[bytes, bytes]:
    """Runs on in two copies of this process, as a virtual machine that is restored twice from one snapshot.

    By fork of the C library: it copies all memory, nothing of Python or OpenSSL is told. Both have one process number.
    """
    read, write = os.pipe()
    number = os.getpid()
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        os.getpid = lambda: number
        try:
            os.write(write, run())
        finally:
            os._exit(0)
    here = run()
    os.waitpid(child, 0)
    os.close(write)
    with open(read, "rb") as pipe:
        return here, pipe.read()


@pytest.mark.posix
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.words(4),
        lambda rng: rng.rounded_gaussian(1e6, 8),
        lambda rng: rng.coins([1 << 255] * 64),
        lambda rng: rng.successes(1_000, lambda mp: mp.mpf(0.1)),
    ],
)
def test_restored_snapshots_draw_other_noise(rng, draw):
    draw(rng)
    ours, theirs = restored_twice(lambda: draw(rng).tobytes())
    assert ours
    assert theirs
    assert ours != theirs


@pytest.mark.posix
def test_restored_snapshots_repeat_a_source_that_keeps_its_state():
    """The simulation does copy state: what keeps a key repeats its noise."""
    kept = NoiseSource.seeded(3)
    kept.words(5)
    ours, theirs = restored_twice(lambda: kept.words(4).tobytes())
    assert ours == theirs


@pytest.mark.posix
def test_permits_of_restored_snapshots_draw_other_noise():
    """Spent before the snapshot, drawn after it, twice: two releases, but not one noise on two data sets."""
    event = events.Gaussian(noise_multiplier=4.0)
    gate = Gate(Ledger.create(None, Budget(epsilon=1.0, delta=1e-5)))
    permit = gate.spend(event, task="march")
    ours, theirs = restored_twice(lambda: permit.draw(GaussianSum(event), np.zeros(4, np.int64)).tobytes())
    assert len(ours) == len(theirs) > 0
    assert ours != theirs


def test_no_key_outlives_its_call(rng, monkeypatch):
    """Every call asks the operating system for its bits, or for 32 bytes; the source itself has nothing to remember."""
    asked: list[bytes] = []
    entropy = os.urandom

    def noted(n: int) -> bytes:
        asked.append(entropy(n))
        return asked[-1]

    monkeypatch.setattr(os, "urandom", noted)
    before = dict(vars(rng))
    for _ in range(3):
        rng.words(5)
        rng.rounded_gaussian(10.0, 5)
        rng.coins([1 << 255])
        rng.words(source._FEW)
        rng.words(source._FEW + 1)
        rng.rounded_gaussian(10.0, 5_000)
    assert len(asked) == len(set(asked)) == 3 * 6
    assert [len(part) for part in asked[:6]] == [40, 40, 32, 8 * source._FEW, 32, 32]
    assert vars(rng) == before
    assert not any(isinstance(value, bytes | CipherContext) for value in before.values())


def test_bits_pass_their_checks(rng):
    assert min(noise.check_bits(rng.words, 1 << 20).values()) >= ALPHA


def test_few_words_are_the_bits_of_the_operating_system(rng, monkeypatch):
    """All of them, in order; more are the streams of keys of 32 new bytes, one for each chunk.

    A stream is AES-256 in counter mode, from the counter at which GCM begins.
    """
    keys = [bytes(range(place, place + 32)) for place in range(4)]
    drawn = [bytes(range(24)), keys[0], b"", *keys[1:]]
    monkeypatch.setattr(os, "urandom", lambda n: drawn.pop(0))
    assert rng.words(3).tobytes() == bytes(range(24))

    def stream(key: bytes, n: int) -> list[int]:
        expected = np.empty(n, np.uint64)
        source._fill(expected, source._keystream(key, bytes(12) + b"\0\0\0\2"))
        return [int(word) for word in expected]

    assert rng.words(source._FEW + 1).tolist() == stream(keys[0], source._FEW + 1)
    assert rng.words(0).tolist() == []
    sizes = (source._CHUNK, source._CHUNK, 5)
    together = [word for key, size in zip(keys[1:], sizes, strict=True) for word in stream(key, size)]
    assert rng.words(sum(sizes)).tolist() == together
    assert not drawn
    assert source._FEW == 64


def test_what_is_decided_is_computed_once_for_each_sigma():
    one, other = source._decided(0.4, 2.0), source._decided(0.4, 3.0)
    bound = normal.pieces()[1]
    assert one.tolist() == (0.4 - 2.0 * bound).tolist()
    assert other.tolist() == (0.4 - 3.0 * bound).tolist()
    assert source._decided(0.4, 2.0) is one
    with pytest.raises(ValueError, match="read-only"):
        one[0] = 1.0


@pytest.mark.parametrize("twin", [noise.biased, noise.repeating, noise.sticky])
def test_broken_bits_are_rejected(twin, rng):
    assert min(noise.check_bits(twin(rng.words, one_in=50), 1 << 20).values()) < ALPHA


@pytest.mark.slow
def test_a_billion_draws_are_as_promised():
    """Bits, and rounded Gaussians at several sigmas; 0.1 % less noise is rejected."""
    measured = noise.measure()
    assert measured.passed, measured.markdown()


def test_keyed_noise_is_that_of_its_key(rng):
    keys = [bytes([i]) * 32 for i in range(40)]
    rows = rng.rounded_gaussians(keys, 1e9, 500)
    assert (NoiseSource.seeded(1).rounded_gaussians(keys[::-1], 1e9, 500) == rows[::-1]).all()
    assert (rng.rounded_gaussians(keys[7:8], 1e9, 500)[0] == rows[7]).all()
    assert len(np.unique(rows)) > 0.99 * rows.size
    assert fits(rng.rounded_gaussians([rng.words(4).tobytes() for _ in range(100)], 3.0, 2_000).ravel(), 3.0)
    assert rng.rounded_gaussians([], 3.0, 4).shape == (0, 4)
    assert rng.rounded_gaussians(keys[:2], 3.0, 0).shape == (2, 0)
    with pytest.raises(errors.InvalidValue, match="Expected 0 < sigma"):
        rng.rounded_gaussians(keys, math.nan, 1)


@pytest.mark.parametrize("at_once", [1, 7, 1 << 14])
def test_keyed_draws_that_need_more_bits_take_those_after_their_row(at_once, rng, monkeypatch):
    """At 2^52 nearly every draw hangs on its last bits, and more are drawn: whatever else is drawn beside it."""
    keys, sigma = [bytes([i]) * 32 for i in range(4)], 2.0**52
    rows = []
    for key in keys:
        alone = NoiseSource.from_os()
        alone._repeatable = source._keystream(key, bytes(16))
        rows.append(alone.rounded_gaussian(sigma, 5))
    monkeypatch.setattr(source, "_CHUNK", at_once)
    assert (rng.rounded_gaussians(keys, sigma, 5) == np.stack(rows)).all()


def test_noise_of_words_is_that_of_its_word(rng):
    """Whatever else is drawn beside it; uniform words give rounded Gaussians."""
    words, key = rng.words(40_000), bytes(32)
    found = rng.rounded_words(words, 1e9, lambda place: key)
    assert (NoiseSource.seeded(1).rounded_words(words[::-1].copy(), 1e9, lambda place: key) == found[::-1]).all()
    assert fits(rng.rounded_words(words, 3.0, lambda place: key), 3.0)
    assert rng.rounded_words(words[:0], 3.0, lambda place: key).shape == (0,)
    with pytest.raises(errors.InvalidValue, match="Expected 0 < sigma"):
        rng.rounded_words(words, math.nan, lambda place: key)


@pytest.mark.parametrize("at_once", [1, 3, 1 << 14])
def test_words_that_need_more_bits_take_those_of_their_key(at_once, rng, monkeypatch):
    """At 2^52 nearly every draw hangs on its last bits: more come from its own key, after the first word of that."""
    words, sigma, asked = NoiseSource.seeded(4).words(8), 2.0**52, []
    expected = []
    for place, word in enumerate(words.tolist()):
        more = NoiseSource.from_os()
        more._repeatable = source._keystream(bytes([place]) * 32, bytes(16))
        more.words(1)
        signed = word - (1 << 64) if word >> 63 else word
        settled = more._settle(signed if signed >= 0 else ~signed, sigma)
        expected.append(settled if signed >= 0 else -settled)

    def key_of(place: int) -> bytes:
        asked.append(place)
        return bytes([place]) * 32

    monkeypatch.setattr(source, "_CHUNK", at_once)
    assert rng.rounded_words(words, sigma, key_of).tolist() == expected
    assert len(asked) > 5
    assert sorted(asked) == sorted(set(asked))
