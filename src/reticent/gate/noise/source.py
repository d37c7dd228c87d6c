"""Where all noise comes from: operating-system entropy, drawn in batches, exact.

Rounded Gaussians: round(s + Z) = s + round(Z) for an integer s, so adding round(Z) to an integer sum is
post-processing of the continuous Gaussian mechanism, and its calibration holds, if round(Z) is sampled exactly.

Nothing is kept between draws: every call asks the operating system for new keys, or for all its bits where they are
few. (A buffer of bits would be faster for small draws. It is left out, since it would be a state.) So threads, forked
children and restored snapshots of the process (a virtual machine, a container checkpoint) have no common state to
repeat. Noise that is drawn again, of memory between tasks, has keys that its caller keeps (`rounded_gaussians`,
`rounded_words`). What stays outside: an operating system that repeats its own random numbers after it was restored
(Linux 5.18 and later notices by VMGENID, where the hypervisor has it), and keys and noise in memory, which is neither
locked nor wiped and may be swapped.
"""

import functools
import hashlib
import math
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from scipy.special import ndtri

from reticent import errors
from reticent.numerics import precision
from reticent.privacy.selection import COIN_BITS

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

_CHUNK = 1 << 14
_FEW = 64  # words that the operating system gives sooner than a key is set up
_ZEROS = bytes(8 * _CHUNK)
_START = bytes(12)  # any will do for a key that is used once
_WORD = 2.0**-64
# A draw is decided in float64 unless it lies as close to a half-integer as `normal.pieces` bounds the error of its
# octave (1e-15 to 3e-12 standard deviations). A small margin on the grid covers the arithmetic of this comparison.
_NEAR_HALF = 0.5 - 2.0**-50
_LARGEST_SIGMA = 2.0**52
# Error of a probability computed with 64 bits more than were drawn, in units of the last bit drawn: far below this.
_HAIR = 2.0**-32


class NoiseSource:
    """A stream of random bits and what is drawn from it.

    Guarantees:
      - `from_os()` holds no state: each call has new bits, or a new key, of the operating system. No two threads,
        forked children or restored snapshots share noise.
        test_threads_share_a_source_without_sharing_noise, test_forked_child_draws_other_noise,
        test_restored_snapshots_draw_other_noise
      - A key of its own is used for one call and stored nowhere.           test_no_key_outlives_its_call
      - It cannot be copied or pickled: the same noise is never used twice.     test_source_cannot_be_copied
      - Only `rounded_gaussians` and `rounded_words` draw noise again, that of the keys and words they are given: a row
        depends on its key alone.     test_keyed_noise_is_that_of_its_key, test_noise_of_words_is_that_of_its_word
      - `rounded_gaussian` has exactly the distribution of round(N(0, sigma^2)).  test_rounded_gaussian_follows_its_pmf
      - It is a function of the random bits alone, whatever the error of float64.   test_same_integers_as_by_scipy
      - `coins` compare 256 bits with a probability given to 256 bits.   test_coins_are_exact_in_the_tail
      - `below` and `successes` have exactly the probabilities they are given: what float64 cannot decide is decided in
        high precision, with more bits.                                  test_fast_and_exact_coins_agree
      - `seeded()` sources say `private = False`; releases and ledger rows repeat it.

    Example:
        >>> NoiseSource.from_os().private, NoiseSource.seeded(1).private
        (True, False)
        >>> NoiseSource.seeded(1).rounded_gaussian(1000.0, 3).dtype
        dtype('int64')
    """

    def __init__(self, *, seed: int | None) -> None:
        self._seed = seed
        self._repeatable: CipherContext | None = None  # of a seeded source: the only kind with a state
        self._lock = threading.Lock()
        if seed is not None:
            key = hashlib.sha256(f"reticent seeded noise {seed}".encode()).digest()
            self._repeatable = _keystream(key, bytes(16))

    @classmethod
    def from_os(cls) -> "NoiseSource":
        """Returns the source for real releases."""
        return cls(seed=None)

    @classmethod
    def seeded(cls, seed: int) -> "NoiseSource":
        """Returns a repeatable source for tests and benchmarks. NOT PRIVATE."""
        return cls(seed=errors.whole("seed", seed, at_least=0))

    @property
    def private(self) -> bool:
        """False for a seeded source: its noise protects nobody."""
        return self._seed is None

    def __repr__(self) -> str:
        return "NoiseSource.from_os()" if self.private else "NoiseSource.seeded(...)  # NOT PRIVATE"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A noise source cannot be copied or pickled: the same noise must never be used twice.")

    def __sklearn_clone__(self) -> "NoiseSource":
        """Returns itself: clones of a classifier draw one after the other from one source, and never the same noise."""
        return self

    def words(self, n: int) -> Words:
        """Returns n uniform 64-bit words of the operating system, many by keys of their own, unless it is seeded."""
        if self._repeatable is None:
            if n <= _FEW:
                return np.ndarray(n, np.uint64, os.urandom(8 * n))
            if n <= _CHUNK:
                return _by_a_new_key(n)
            sizes = [_CHUNK] * (n // _CHUNK) + [n % _CHUNK]
            return np.concatenate([_by_a_new_key(size) for size in sizes])
        out = np.empty(n, dtype=np.uint64)
        with self._lock:
            _fill(out, self._repeatable)
        return out

    def coins(self, thresholds: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Returns for each threshold t in 0..2^256 a coin that is true with probability t / 2^256."""
        drawn = self.words(COIN_BITS // 64 * len(thresholds)).tobytes()
        size = COIN_BITS // 8
        numbers = (int.from_bytes(drawn[at : at + size], "little") for at in range(0, len(drawn), size))
        return np.array([number < t for number, t in zip(numbers, thresholds, strict=True)], dtype=np.bool_)

    def below(self, low: Floats, high: Floats, exact: Callable[[int, Any], Any]) -> npt.NDArray[np.bool_]:
        """Returns coins that are true with probabilities known by bounds, and exactly where the bounds do not decide.

        Args:
            low: Lower bounds of the probabilities.
            high: Upper bounds.
            exact: From the index of a coin and an mpmath context to its probability, to within a part 2^-p for p bits
                of the context.
        """
        words = self.words(len(low))
        uniform = words * _WORD  # the uniform number lies in [word, word + 1) / 2^64; the conversion is off by 2^-53
        true = uniform * (1 + 2.0**-51) + 2 * _WORD <= low
        doubtful = ~true & (uniform * (1 - 2.0**-51) < high)
        for index in np.flatnonzero(doubtful).tolist():
            true[index] = self._is_below(int(words[index]), functools.partial(exact, index))
        return true

    def _is_below(self, bits: int, exact: Callable[[Any], Any]) -> bool:
        """Decides whether the uniform number that begins with these 64 bits is below a probability."""
        drawn = 64
        while True:
            with precision.bits(drawn + 64) as mp:
                boundary = mp.ldexp(exact(mp), drawn)
                if bits + 1 <= boundary - _HAIR:
                    return True
                if bits >= boundary + _HAIR:
                    return False
            bits, drawn = self._more(bits, drawn)

    def successes(self, n: int, chance: Callable[[Any], Any]) -> Ints:
        """Returns which of n independent coins succeed, in order, at a cost that follows the successes alone.

        The number of failures before the next success is floor(ln U / ln(1 - chance)).

        Args:
            n: How many coins.
            chance: From an mpmath context to the probability of success, above 0 and below 1.
        """
        decay = _decay(chance)
        if not -math.inf < decay < 0:
            raise errors.InvalidValue("Expected a chance above 0 and below 1.")
        found: list[Ints] = []
        at = -1
        while at < n:
            expected = -(n - at) * math.expm1(decay)
            words = self.words(math.ceil(expected + 4 * math.sqrt(expected)) + 4)
            uniform = np.maximum(words * _WORD, _WORD)
            tails = np.log(uniform) / decay
            # the conversion, the logarithms and the division are off by a few 2^-53, the uniform number by its last bit
            error = (2.0**-50 + 4 * _WORD / uniform) / -decay + 2.0**-49 * tails
            gaps = np.floor(tails)
            doubtful = (np.floor(tails - error) != gaps) | (np.floor(tails + error) != gaps) | (words == 0)
            for index in np.flatnonzero(doubtful):
                gaps[index] = min(self._gap(int(words[index]), chance), n)
            places = at + np.cumsum(np.minimum(gaps, n).astype(np.int64) + 1)
            found.append(places[places < n])
            at = int(places[-1])
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _gap(self, bits: int, chance: Callable[[Any], Any]) -> int:
        """Returns floor(ln U / ln(1 - chance)) exactly, for U in [bits, bits + 1) / 2^64."""
        drawn = 64
        while True:
            with precision.bits(drawn + 64) as mp:
                if bits > 0:
                    decay = mp.log1p(-chance(mp))
                    most, least = (mp.log(mp.ldexp(end, -drawn)) / decay for end in (bits, bits + 1))
                    error = mp.ldexp(most + 1 - 1 / decay, -drawn - 32)
                    if mp.floor(least - error) == mp.floor(most + error):
                        return int(mp.floor(most))
            bits, drawn = self._more(bits, drawn)

    def rounded_gaussian(self, sigma: float, shape: int | tuple[int, ...]) -> Ints:
        """Returns integers with exactly the distribution of round(N(0, sigma^2))."""
        _refuse_sigma(sigma)
        out = np.empty(shape, dtype=np.int64)
        flat = out.reshape(-1)
        if flat.size <= _CHUNK:  # without slices, which take as long as a draw
            self._round(self.words(flat.size).view(np.int64), float(sigma), flat)
            return out
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK]
            self._round(self.words(part.size).view(np.int64), float(sigma), part)
        return out

    def rounded_gaussians(self, keys: Sequence[bytes], sigma: float, width: int) -> Ints:
        """Returns a row of `rounded_gaussian` for each key, the same whenever the key, sigma and width are the same.

        For noise that is published later, or again; see `keys.derived`. A key is for one row: its bits are those of
        AES-256 in counter mode from zero, and what one draw needs beyond its word follows after the row's words.
        """
        _refuse_sigma(sigma)
        out = np.empty((len(keys), width), dtype=np.int64)
        at_once = max(1, _CHUNK // max(1, width))
        for start in range(0, len(keys), at_once):
            part = keys[start : start + at_once]
            words = np.empty((len(part), width), dtype=np.uint64)
            for row, key in zip(words, part, strict=True):
                _fill(row, _keystream(key, bytes(16)))
            sources = _Followed(part.__getitem__, width)
            self._round(
                words.reshape(-1).view(np.int64), float(sigma), out[start : start + at_once].reshape(-1), sources
            )
        return out

    def rounded_words(self, words: Words, sigma: float, more: Callable[[int], bytes]) -> Ints:
        """Returns the rounded Gaussian of each uniform word, the same whenever the word and sigma are the same.

        Args:
            words: See `keys.words`.
            sigma: Deviation of the noise.
            more: From the place of a word to the key of what its draw needs beyond, as in `rounded_gaussians`: rarely.
        """
        _refuse_sigma(sigma)
        out = np.empty(len(words), dtype=np.int64)
        for start in range(0, len(words), _CHUNK):
            part = words[start : start + _CHUNK]
            sources = _Followed(more, 1, first=start)
            self._round(part.view(np.int64), float(sigma), out[start : start + _CHUNK], sources)
        return out

    def _round(self, words: Ints, sigma: float, out: Ints, sources: "_Followed | None" = None) -> None:
        """Turns one cache-sized chunk of words into rounded Gaussians; undecided draws are settled in high precision.

        63 bits give a tail probability up to 1/2, the sign bit the side. More bits come from this source, or from the
        one of a draw's own key.
        """
        normal, doubtful = _compiled(), np.empty(len(words), np.int64)
        found = normal.round_words(words, sigma, normal.pieces()[0], _decided(_NEAR_HALF, sigma), out, doubtful)
        for index in doubtful[:found].tolist() if found else ():
            word, source = int(words[index]), self if sources is None else sources.of(index)
            out[index] = source._settle(word, sigma) if word >= 0 else -source._settle(~word, sigma)

    def _settle(self, bits: int, sigma: float) -> int:
        """Returns round(|Z|) exactly, for the upper tail probability in [bits, bits + 1) / 2^64.

        round(|Z|) > j  iff  the tail probability is below Q((j + 1/2) / sigma). Compared in high precision; where
        the answer still depends on bits not drawn, draws them.
        """
        drawn = 64
        while bits < 1 << 24:  # deep in the tail: draw until a start in float64 is close enough
            bits, drawn = self._more(bits, drawn)
        start = -float(ndtri(math.ldexp(bits, -drawn))) * sigma
        slack = 2 + 1e-6 * sigma
        low, high = max(-1, math.floor(start - slack)), math.ceil(start + slack)
        while high - low > 1:  # invariant: low < round(|Z|) <= high
            j = (low + high) // 2
            side = self._side(j, bits, drawn, sigma)
            while side == 0:
                bits, drawn = self._more(bits, drawn)
                side = self._side(j, bits, drawn, sigma)
            low, high = (j, high) if side > 0 else (low, j)
        return high

    def _more(self, bits: int, drawn: int) -> tuple[int, int]:
        return bits << 64 | int(self.words(1)[0]), drawn + 64

    @staticmethod
    def _side(j: int, bits: int, drawn: int, sigma: float) -> int:
        """Returns 1 if round(|Z|) > j for every completion of the bits, -1 if for none, 0 if undecided."""
        with precision.bits(drawn + 64) as mp:
            boundary = mp.ldexp(mp.ncdf(-(mp.mpf(j) + 0.5) / sigma), drawn)
            error = mp.ldexp(boundary, -drawn - 32) + mp.ldexp(1, -32)
            if bits + 1 <= boundary - error:
                return 1
            return -1 if bits >= boundary + error else 0


class _Followed:
    """Sources that go on where the words of a row end, made when they are needed."""

    def __init__(self, key_of: Callable[[int], bytes], width: int, *, first: int = 0) -> None:
        self._key_of, self._width, self._first = key_of, width, first
        self._made: dict[int, NoiseSource] = {}

    def of(self, index: int) -> NoiseSource:
        """Returns the source of the row that a draw is in."""
        row = index // self._width
        if row not in self._made:
            source = self._made[row] = NoiseSource.from_os()
            source._repeatable = _keystream(self._key_of(self._first + row), bytes(16))
            source.words(self._width)
        return self._made[row]


@functools.cache
def _compiled() -> Any:
    """Returns the compiled loop's module; an import statement in each call takes a tenth of a small draw."""
    from reticent.gate.noise import normal  # compiled by the gate, before it spends: predicting never needs it

    return normal


@functools.lru_cache(maxsize=16)
def _decay(chance: Callable[[Any], Any]) -> float:
    """Returns ln(1 - chance): the same function gives the same, so that steps of a training compute it once."""
    with precision.bits(128) as mp:
        return float(mp.log1p(-chance(mp)))


@functools.lru_cache(maxsize=16)
def _decided(near_half: float, sigma: float) -> Floats:
    """Returns by octave how near an integer a draw must be to be decided in float64."""
    from reticent.gate.noise import normal

    found: Floats = near_half - sigma * normal.pieces()[1]
    found.setflags(write=False)
    return found


def _refuse_sigma(sigma: float) -> None:
    if not 0 < sigma <= _LARGEST_SIGMA:
        raise errors.InvalidValue(f"Expected 0 < sigma <= 2^52 on the integer grid, got {sigma}.")


def _by_a_new_key(n: int) -> Words:
    """Returns up to a chunk of words of a key that nothing else uses: zeros, enciphered by AES-256 in counter mode.

    In the shape of GCM, whose tag is dropped: OpenSSL sets it up three times as fast as counter mode by itself.
    """
    return np.ndarray(n, np.uint64, AESGCM(os.urandom(32)).encrypt(_START, _ZEROS[: 8 * n], None))


def _keystream(key: bytes, start: bytes) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.CTR(start)).encryptor()


def _fill(words: Words, stream: CipherContext) -> None:
    view = words.data.cast("B")
    for start in range(0, len(view), len(_ZEROS)):
        part = view[start : start + len(_ZEROS)]
        stream.update_into(_ZEROS[: len(part)] if len(part) < len(_ZEROS) else _ZEROS, part)
