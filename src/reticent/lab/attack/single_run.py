"""Auditing in one run: many canaries in one training, each there by its own fair coin; the attacker guesses the coins.

One training is enough, because the canaries are independent: under (epsilon, delta)-DP the number of right guesses is
hardly ever larger than that of as many coins with probability e^epsilon / (1 + e^epsilon).
Reference: Steinke, Nasr and Jagielski 2023, Theorem 5.2.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from reticent.lab.attack.games import ALPHA, CONFIDENCE, Kind, Result, gaussians
from reticent.privacy import accounting, events, pld, profiles

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]
Guesses = list[tuple[int, int]]  # how many were made, and how many were right
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
_DELTAS = (1e-7, 1e-9, 1e-11)  # where else a claim is looked at: the bound adds up delta over all canaries


def one_run(game: str, train: Callable[[Bits], Floats], canaries: int, *, event: events.Event, delta: float) -> Result:
    """Plays one training with many canaries.

    Guarantees:
      - A claim that is true is refuted with chance at most ALPHA.          test_one_run_stays_below_the_truth
      - Training without noise is detected.                                 test_one_run_finds_missing_noise

    Args:
        game: What was played.
        train: From which canaries are there to one number for each; larger means more likely there.
        canaries: How many.
        event: What is claimed to be spent.
        delta: At which epsilon is to be bounded.
    """
    there = np.random.default_rng().integers(2, size=canaries).astype(bool)
    scores = train(there)
    # how many to guess is fixed before: one half of each share at either end, all shares by a union bound
    guesses = [_right(scores, there, max(1, int(share * canaries / 2))) for share in (*_SHARES, 1.0)]
    made, right = guesses[-1]
    return Result(
        game=game,
        kind=Kind.ONE_RUN,
        trials=canaries,
        claimed=accounting.epsilon(event, delta),
        delta=delta,
        accuracy=right / made,
        epsilon_lower_bound=_bound(canaries, guesses, event, delta),
        refuted=_refutes(canaries, guesses, profiles.of(event), delta, ALPHA),
    )


def _refutes(canaries: int, guesses: Guesses, claim: profiles.Profile, delta: float, alpha: float) -> bool:
    """Returns whether so many right guesses rule a claim out, except with chance alpha.

    A claim has an epsilon for every delta. For each share the rejected numbers of right guesses are those from some
    number on, so all deltas together reject as often as the one that rejects most: no union bound over them.
    """
    parameters = [(claim.epsilon(small), small) for small in (delta, *_DELTAS) if small <= delta]
    return any(
        p_value(canaries, made, right, epsilon, small) < alpha / len(guesses)
        for made, right in guesses
        for epsilon, small in parameters
        if math.isfinite(epsilon)
    )


def _bound(canaries: int, guesses: Guesses, event: events.Event, delta: float) -> float:
    """Returns the epsilon of the claimed mechanism with as much noise as the guesses allow, or of any mechanism."""
    alpha = 1 - CONFIDENCE
    family = gaussians(event)
    if family is None:
        return max(epsilon_of_guesses(canaries, *one, delta, alpha / len(guesses)) for one in guesses)
    low, high = 1 / 4, 32.0
    if not _refutes(canaries, guesses, profiles.of(family(high), pld.COARSE), delta, alpha):
        return 0.0
    for _ in range(10):
        middle = math.sqrt(low * high)
        refuted = _refutes(canaries, guesses, profiles.of(family(middle), pld.COARSE), delta, alpha)
        low, high = (low, middle) if refuted else (middle, high)
    return accounting.epsilon(family(high), delta)


def _right(scores: Floats, there: Bits, each: int) -> tuple[int, int]:
    """Guesses the highest scores present and the lowest absent; returns how many guesses, and how many are right."""
    order = np.argsort(scores)
    low, high = order[:each], order[-each:]
    return len(low) + len(high), int(there[high].sum() + (~there[low]).sum())


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Returns the chance that any (epsilon, delta)-DP training lets so many guesses be right, or an upper bound.

    >>> round(p_value(100, 100, 100, 0.0, 0.0) * 2**100, 6)
    1.0
    """
    share = 1 / (1 + math.exp(-epsilon))
    beyond = float(binom.sf(right - 1, guesses, share))
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, share))
    steepest = float(np.max(below / np.arange(1, right + 1), initial=0.0))
    return min(1.0, beyond + 2 * canaries * delta * steepest)


def epsilon_of_guesses(canaries: int, guesses: int, right: int, delta: float, alpha: float) -> float:
    """Returns an epsilon that the training exceeds, except with chance alpha."""
    if p_value(canaries, guesses, right, 0.0, delta) >= alpha:
        return 0.0
    low, high = 0.0, 50.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(canaries, guesses, right, middle, delta) < alpha else (low, middle)
    return low
