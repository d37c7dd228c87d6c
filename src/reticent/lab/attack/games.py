"""From games to a bound: what an attacker saw, with the canary and without, and what epsilon must then be at least.

The first quarter of the games chooses where to cut what the attacker saw; the other games are counted. From the two
error rates follows what epsilon must be at least, except with chance ALPHA.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.privacy import accounting, confidence, events, profiles

ALPHA = 1e-6
CONSISTENT, VIOLATED = "consistent", "VIOLATED"
_CUTS = 65  # odd, so that one lies between two groups that do not overlap
# Where a claimed delta(epsilon) is compared with the attacker's error rates.
_EPSILONS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0)
_LEAST_NOISE, _MOST_NOISE = 1 / 4, 32.0

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of one game.

    Args:
        game: What was played.
        trials: How often with the canary, and as often without.
        claimed: Epsilon of what was spent, at this delta.
        delta: The claimed delta.
        accuracy: How often the attacker was right, over both sides.
        epsilon_lower_bound: What epsilon is at least, except with chance ALPHA. For Gaussian events: of the claimed
            mechanism with as much noise as the error rates allow; for others: of any mechanism.
    """

    game: str
    trials: int
    claimed: float
    delta: float
    accuracy: float
    epsilon_lower_bound: float

    @property
    def limit(self) -> float:
        """The best accuracy that the claim leaves to any attacker."""
        return confidence.accuracy_bound(self.claimed, self.delta)

    @property
    def verdict(self) -> str:
        """Whether the error rates are ones that the claimed event, with its delta for every epsilon, rules out."""
        return VIOLATED if self.epsilon_lower_bound > self.claimed else CONSISTENT

    def json(self) -> dict[str, Any]:
        """Returns the result as plain JSON values."""
        return {
            "game": self.game,
            "trials": self.trials,
            "accuracy": self.accuracy,
            "limit": self.limit,
            "claimed": self.claimed,
            "epsilon_lower_bound": self.epsilon_lower_bound,
            "verdict": self.verdict,
        }


def judge(game: str, present: Floats, absent: Floats, *, event: events.Event, delta: float) -> Result:
    """Turns what the attacker saw into a bound.

    Guarantees:
      - Cuts are chosen on games that are not counted, so a bound above the truth has chance at most ALPHA.
                                                                    test_bounds_stay_below_the_truth
      - Half the noise, and gradients that are not clipped, are detected.
                                                                    test_half_the_noise_is_detected,
                                                                    test_missing_clipping_is_detected

    Args:
        game: What was played.
        present: One number for each game with the canary; larger means more likely present, -inf nothing seen.
        absent: One number for each game without.
        event: What is claimed to be spent.
        delta: At which epsilon is to be bounded.

    Example:
        >>> draw = np.random.default_rng()
        >>> noise, event = draw.normal(size=(2, 4_000)), events.Gaussian(noise_multiplier=1.0)
        >>> judge("one Gaussian", noise[0] + 1.0, noise[1], event=event, delta=1e-5).verdict
        'consistent'
    """
    part = math.ceil(len(present) / 4)
    first, rest = (present[:part], absent[:part]), (present[part:], absent[part:])
    guesses = _counted(*rest, _best_cut(*first, lambda hits, alarms: hits - alarms))
    noise = gaussians(event)
    if noise is not None:
        bound = _by_noise(guesses, noise, delta)
    else:
        present_left, absent_left = len(rest[0]), len(rest[1])

        def expected(hits: float, alarms: float) -> float:
            counts = round(hits * present_left), present_left, round(alarms * absent_left), absent_left
            return _plain(_Counts(*counts), delta)

        bound = max(0.0, _plain(_counted(*rest, _best_cut(*first, expected)), delta))
    return Result(
        game=game,
        trials=len(present),
        claimed=accounting.epsilon(event, delta),
        delta=delta,
        accuracy=(guesses.hits / guesses.present + 1 - guesses.alarms / guesses.absent) / 2,
        epsilon_lower_bound=bound,
    )


def gaussians(event: events.Event) -> Callable[[float], events.Event] | None:
    """Returns the same Gaussians as a function of a factor on the noise, or None where the event has other parts."""
    parts: list[events.Gaussian | events.DpSgd] = []
    for part in profiles.leaves(event):
        match part:
            case events.Gaussian() | events.DpSgd():
                parts.append(part)
            case events.JointGaussian() | events.LabelCounts():
                m = part.examples_per_person
                parts.append(events.Gaussian(noise_multiplier=part.noise_multiplier, examples_per_person=m))
            case events.LabelledTraining():
                counts = part.counts
                parts += [
                    events.Gaussian(
                        noise_multiplier=counts.noise_multiplier, examples_per_person=counts.examples_per_person
                    ),
                    part.training,
                ]
            case _:
                return None
    if not parts:  # nothing was paid for, so no amount of noise is claimed
        return None
    return lambda times: events.compose(
        *(replace(part, noise_multiplier=part.noise_multiplier * times) for part in parts)
    )


@dataclass(frozen=True)
class _Counts:
    """How often the attacker saw more than a cut, with the canary and without."""

    hits: int
    present: int
    alarms: int
    absent: int

    @property
    def limits(self) -> tuple[float, float]:
        """Returns the least hits and the most false alarms; both hold except with chance ALPHA."""
        low, _ = confidence.clopper_pearson(self.hits, self.present, ALPHA / 2)
        _, high = confidence.clopper_pearson(self.alarms, self.absent, ALPHA / 2)
        return low, high


def _counted(present: Floats, absent: Floats, cut: float) -> _Counts:
    return _Counts(int(np.sum(present > cut)), len(present), int(np.sum(absent > cut)), len(absent))


def _best_cut(present: Floats, absent: Floats, worth: Callable[[float, float], float]) -> float:
    pooled = np.sort(np.concatenate([present, absent]))
    cuts = np.unique(pooled[np.linspace(0, len(pooled) - 1, _CUTS).astype(np.int64)])
    return float(max(cuts, key=lambda cut: worth(float(np.mean(present > cut)), float(np.mean(absent > cut)))))


def _plain(counts: _Counts, delta: float) -> float:
    """What any (epsilon, delta)-DP mechanism must satisfy."""
    return confidence.epsilon_lower_bound(
        counts.hits, counts.present, counts.alarms, counts.absent, delta=delta, alpha=ALPHA
    )


def _by_noise(counts: _Counts, noise: Callable[[float], events.Event], delta: float) -> float:
    """Finds the least noise that cannot explain the error rates; epsilon is above that of this much noise.

    An event claims a delta for every epsilon, not for one. Where labels are released too, a chance of at most the
    claimed delta comes on top; it is taken off the hits.
    """
    hits, alarms = counts.limits
    pairs = ((hits - delta, alarms), (1 - alarms - delta, 1 - hits))

    def refuted(times: float) -> bool:
        event = noise(times)
        return any(
            up > math.exp(epsilon) * down + accounting.delta(event, epsilon)
            for epsilon in _EPSILONS
            for up, down in pairs
        )

    low, high = _LEAST_NOISE, _MOST_NOISE
    if not refuted(high):
        return 0.0
    for _ in range(14):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return accounting.epsilon(noise(high), delta)
