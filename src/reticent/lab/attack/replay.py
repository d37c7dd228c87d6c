"""Replays: the same task learned without noise, with a person and without, and the noise measured beside it.

An attacker who knows everything but the coin can compute what a release would be without noise, in both cases. The
distance of the two over the deviation of the noise is all that a Gaussian release gives away. Here the real code
computes both: once with a source of zeros, and often with real noise, whose deviation is measured from below and above.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2, f, norm, t

from reticent.gate.noise import NoiseSource
from reticent.lab.attack import exact
from reticent.lab.attack.games import ALPHA, CONFIDENCE, Kind, Result, gaussians
from reticent.privacy import accounting, events

Floats = npt.NDArray[np.float64]
Arrays = Mapping[str, npt.NDArray[Any]]
# From a source of noise, and whether the person is there, to what is published.
Learn = Callable[[NoiseSource, bool], Arrays]


class Silent(NoiseSource):
    """A source without noise, for replays of synthetic data. NOT PRIVATE."""

    def __init__(self) -> None:
        super().__init__(seed=0)

    def rounded_gaussian(self, sigma: float, shape: int | tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Returns zeros."""
        return np.zeros(shape, dtype=np.int64)

    def rounded_gaussians(self, keys: Sequence[bytes], sigma: float, width: int) -> npt.NDArray[np.int64]:
        """Returns zeros."""
        return np.zeros((len(keys), width), dtype=np.int64)

    def rounded_words(
        self, words: npt.NDArray[np.uint64], sigma: float, more: Callable[[int], bytes]
    ) -> npt.NDArray[np.int64]:
        """Returns zeros."""
        return np.zeros(len(words), dtype=np.int64)

    def coins(self, thresholds: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Returns the likelier side of each coin."""
        return np.array([2 * t > 1 << 256 for t in thresholds], dtype=np.bool_)

    def successes(self, n: int, chance: object) -> npt.NDArray[np.int64]:
        """Returns nothing: rare blocks of pure noise do not occur."""
        return np.zeros(0, dtype=np.int64)


def replay(game: str, learn: Learn, *, event: events.Event, claimed_mu: float, delta: float, runs: int = 12) -> Result:
    """Measures the distance that one person makes, over the noise.

    Guarantees:
      - What is within its claim is consistent, except with chance ALPHA.   test_replays_measure_the_claim
      - Missing clipping, a wrong sensitivity, values without noise, noise that follows the data and noise that is used
        twice are detected.                                                 test_replays_find_what_is_wrong

    Args:
        game: What is replayed.
        learn: Learns the task, with the person or without.
        event: What is claimed to be spent.
        claimed_mu: The most that a person may move the release, over the noise.
        delta: At which epsilon is to be bounded.
        runs: How often it is learned with real noise, with the person and without.
    """
    found = measured(learn, runs)
    family = gaussians(event)
    assert family is not None  # noqa: S101 (a replay is of Gaussian noise)
    claimed = accounting.epsilon(event, delta)
    low, certain = found.mu(1 - CONFIDENCE), found.mu(ALPHA)
    bound = 0.0
    if math.isinf(low):
        bound = math.inf
    elif low > 0:
        bound = exact.largest_epsilon(exact.curve(family(claimed_mu / low)), delta)
    return Result(
        game=game,
        kind=Kind.REPLAY,
        trials=runs,
        claimed=claimed,
        delta=delta,
        accuracy=float(norm.cdf(min(low, 1e3) / 2)),
        epsilon_lower_bound=bound,
        refuted=certain > claimed_mu * (1 + 1e-5) or found.follows_data(ALPHA) or found.repeats(ALPHA),
    )


class Measured:
    """What replays found: by array, how far the person moves it, and its noise with the person and without."""

    def __init__(self, moved: Mapping[str, Floats], noise: Mapping[str, tuple[Floats, Floats]]) -> None:
        self._moved, self._noise = moved, noise

    def mu(self, alpha: float) -> float:
        """Returns what distance over noise is at least, except with chance alpha; infinity where noise is missing."""
        squares = 0.0
        for name, moved in self._moved.items():
            signal = float(np.sum(np.square(moved)))
            if signal:
                most = self._deviation(name, alpha / len(self._moved))
                if most == 0:
                    return math.inf
                squares += signal / most**2
        return math.sqrt(squares)

    def _deviation(self, name: str, alpha: float) -> float:
        """Returns what the deviation of an array's noise is at most; 0 where an entry that moves has none."""
        drawn = np.concatenate(self._noise[name])
        moving = self._moved[name] != 0
        if moving.shape == drawn.shape[1:] and not drawn[:, moving].any(axis=0).all():
            return 0.0
        return math.sqrt(float(np.sum(np.square(drawn))) / float(chi2.ppf(alpha, drawn.size)))

    def follows_data(self, alpha: float) -> bool:
        """Returns whether noise with the person has another deviation than without, except with chance alpha."""
        for absent, present in self._noise.values():
            if absent.any() and present.any():
                ratio = float(np.mean(np.square(present)) / np.mean(np.square(absent)))
                if 2 * min(f.sf(ratio, present.size, absent.size), f.cdf(ratio, present.size, absent.size)) < alpha:
                    return True
        return False

    def repeats(self, alpha: float) -> bool:
        """Returns whether the noise of one run is that of another, except with chance alpha."""
        for drawn in (np.concatenate(pair) for pair in self._noise.values()):
            first, second = drawn[: len(drawn) // 2].ravel(), drawn[len(drawn) // 2 :][: len(drawn) // 2].ravel()
            size = math.sqrt(float(first @ first) * float(second @ second))
            if size and 2 * t.sf(_student(float(first @ second) / size, len(first)), len(first) - 1) < alpha:
                return True
        return False


def _student(correlation: float, size: int) -> float:
    """The correlation of independent Gaussians of mean zero, as a variable of Student's distribution."""
    return abs(correlation) * math.sqrt((size - 1) / max(1 - correlation**2, 1e-300))


def measured(learn: Learn, runs: int) -> Measured:
    """Replays a task without noise, and often with it."""
    silent, noise = Silent(), NoiseSource.from_os()
    still = [_flat(learn(silent, person)) for person in (False, True)]
    if still[0].keys() != still[1].keys() or any(still[0][n].shape != still[1][n].shape for n in still[0]):
        return Measured({"shapes": np.ones(1)}, {"shapes": (np.zeros((1, 1)), np.zeros((1, 1)))})
    moved = {name: still[1][name] - still[0][name] for name in still[0]}
    drawn: list[list[dict[str, Floats]]] = [[], []]
    for _ in range(runs):
        for person in (False, True):
            found = _flat(learn(noise, bool(person)))
            drawn[person].append({name: found[name] - still[person][name] for name in moved})
    both = {name: tuple(np.stack([one[name] for one in side]) for side in drawn) for name in moved}
    return Measured(moved, {name: (absent, present) for name, (absent, present) in both.items()})


def _flat(arrays: Arrays) -> dict[str, Floats]:
    return {name: np.asarray(value, dtype=np.float64).ravel() for name, value in arrays.items()}
