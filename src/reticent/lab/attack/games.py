"""From games to a bound: what an attacker saw, with the canary and without, and what epsilon must then be at least.

The first games choose where to cut what the attacker saw; the other games are counted. From the two error rates follows
what epsilon must be at least, at 99.9 % confidence. Whether a claim is violated is asked at a confidence of 1 - ALPHA:
an audit has many games, and the best of many is above 99.9 % by luck alone.
"""

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.privacy import accounting, confidence, events, pld, profiles

ALPHA = 1e-6
CONFIDENCE = 0.999
CONSISTENT, VIOLATED = "consistent", "VIOLATED"
# From this epsilon on, games tell a mechanism that keeps its promise from none at all, and little in between.
LARGE_EPSILON = 4.0
_STRONG, _FAIR = 0.75, 0.25
_CUTS = 65  # odd, so that one lies between two groups that do not overlap
_CHOOSING = 5_000  # games that choose the cut, at most
# Where a claimed delta(epsilon) is compared with the attacker's error rates.
_EPSILONS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0)
_LEAST_NOISE, _MOST_NOISE = 1 / 4, 32.0

Floats = npt.NDArray[np.float64]


class Kind(enum.Enum):
    """How a lower bound came about."""

    EXACT = "exact"
    REPLAY = "replay"
    GAMES = "games"
    ONE_RUN = "one run"


@dataclass(frozen=True, kw_only=True)
class Result:
    """One lower bound on epsilon, against what is claimed.

    Args:
        game: What was played or computed.
        kind: How.
        trials: Games with the canary, and as many without; canaries of one run; 0 where nothing was drawn.
        claimed: Epsilon of what was spent, at this delta.
        delta: The claimed delta.
        accuracy: How often the attacker was right, over both sides; of the best attacker where it is computed.
        epsilon_lower_bound: What epsilon is at least, at 99.9 % confidence. For Gaussian events: of the claimed
            mechanism with as much noise as the error rates allow; for others: of any mechanism.
        refuted: Whether the claim cannot be true, except with chance ALPHA.
    """

    game: str
    kind: Kind = Kind.GAMES
    trials: int
    claimed: float
    delta: float
    accuracy: float
    epsilon_lower_bound: float
    refuted: bool

    @property
    def limit(self) -> float:
        """The best accuracy that the claim leaves to any attacker."""
        return confidence.accuracy_bound(self.claimed, self.delta)

    @property
    def tightness(self) -> float:
        """The lower bound over the claim: near 1, the attack finds nearly all that is claimed."""
        if self.epsilon_lower_bound <= 0:
            return 0.0
        return self.epsilon_lower_bound / self.claimed if self.claimed > 0 else math.inf

    @property
    def verdict(self) -> str:
        """Whether the claim is ruled out."""
        return VIOLATED if self.refuted else CONSISTENT

    @property
    def evidence(self) -> str:
        """How strong the evidence is, in words.

        Guarantees: a bound of zero never sounds like a proof.    test_evidence_is_stated_in_words
        """
        share = f"measures {math.floor(self.tightness * 100) / 100:.2f} of the claim"
        if self.refuted and self.kind is Kind.EXACT:
            return "proof of a fault: more is lost than is claimed"
        if self.refuted:
            return "proof of a fault: chance explains it once in a million"
        if self.kind is Kind.EXACT:
            return f"exact: the computed law {share.replace('measures', 'has')}"
        if self.epsilon_lower_bound > self.claimed:
            return "suspicious: above the claim, as one game in 1,000 is by chance; play more"
        if self.tightness >= _STRONG:
            return f"strong: the attack {share}"
        if self.tightness >= _FAIR:
            return f"fair: the attack {share}"
        if self.epsilon_lower_bound > 0:
            return f"weak: the attack {share}"
        return "weak: a lower bound of 0.000 excludes nothing"

    def json(self) -> dict[str, Any]:
        """Returns the result as plain JSON values."""
        return {
            "game": self.game,
            "kind": self.kind.value,
            "trials": self.trials,
            "accuracy": self.accuracy,
            "limit": self.limit,
            "claimed": self.claimed,
            "delta": self.delta,
            "epsilon_lower_bound": self.epsilon_lower_bound,
            "confidence": 1.0 if self.kind is Kind.EXACT else CONFIDENCE,
            "tightness": self.tightness,
            "evidence": self.evidence,
            "verdict": self.verdict,
        }


def judge(game: str, present: Floats, absent: Floats, *, event: events.Event, delta: float) -> Result:
    """Turns what the attacker saw into a bound.

    Guarantees:
      - Cuts are chosen on games that are not counted, so a claim that is true is refuted with chance at most ALPHA.
                                                                    test_bounds_stay_below_the_truth
      - Half the noise, and gradients that are not clipped, are detected.
                                                                    test_half_the_noise_is_detected,
                                                                    test_missing_clipping_is_detected

    Args:
        game: What was played.
        present: One number for each game with the canary; larger means more likely present, -inf nothing seen.
        absent: One number for each game without; of the side with more games the first ones count.
        event: What is claimed to be spent.
        delta: At which epsilon is to be bounded.

    Example:
        >>> draw = np.random.default_rng()
        >>> noise, event = draw.normal(size=(2, 4_000)), events.Gaussian(noise_multiplier=1.0)
        >>> judge("one Gaussian", noise[0] + 1.0, noise[1], event=event, delta=1e-5).verdict
        'consistent'
    """
    games = min(len(present), len(absent))  # as many on both sides, as the accuracy of all guesses together needs
    present, absent = present[:games], absent[:games]
    part = min(math.ceil(games / 4), _CHOOSING)
    first, rest = (present[:part], absent[:part]), (present[part:], absent[part:])
    left = len(rest[0])

    def expected(hits: float, alarms: float) -> float:
        return _plain(_Counts(round(hits * left), left, round(alarms * left), left), delta, 1 - CONFIDENCE)

    middle = _counted(*rest, _best_cut(*first, lambda hits, alarms: hits - alarms))
    tail = _counted(*rest, _best_cut(*first, expected))
    claimed = accounting.epsilon(event, delta)
    family = gaussians(event)
    if family is None:
        bound = max(0.0, _plain(tail, delta, 1 - CONFIDENCE))
        refuted = _plain(tail, delta, ALPHA) > claimed
    else:
        bound = _by_noise(middle, tail, family, delta)
        refuted = _refutes(middle, tail, profiles.of(family(1.0)), delta, ALPHA)
    return Result(
        game=game,
        trials=len(present),
        claimed=claimed,
        delta=delta,
        accuracy=middle.accuracy,
        epsilon_lower_bound=bound,
        refuted=refuted,
    )


def gaussians(event: events.Event) -> Callable[[float], events.Event] | None:
    """Returns the event as a function of a factor on the noise of its Gaussians, or None where it has none.

    Labels chosen by another mechanism keep theirs; that a new label is exposed is taken off the hits.
    """
    parts: list[events.Event] = []
    for part in profiles.leaves(event):
        match part:
            case events.Gaussian() | events.DpSgd() | events.LabelSelection():
                parts.append(part)
            case events.JointGaussian() | events.LabelCounts() | events.Remembered():
                m = part.examples_per_person
                parts.append(events.Gaussian(noise_multiplier=part.noise_multiplier, examples_per_person=m))
            case events.LabelledTraining():
                counts, m = part.counts, part.examples_per_person
                parts += [
                    events.Gaussian(noise_multiplier=counts.noise_multiplier, examples_per_person=m),
                    part.training,
                ]
            case _:
                return None
    if not any(isinstance(part, events.Gaussian | events.DpSgd) for part in parts):
        return None
    return lambda times: events.compose(*(_louder(part, times) for part in parts))


def _louder(part: events.Event, times: float) -> events.Event:
    if isinstance(part, events.Gaussian | events.DpSgd):
        return replace(part, noise_multiplier=part.noise_multiplier * times)
    return part


@dataclass(frozen=True)
class _Counts:
    """How often the attacker saw more than a cut, with the canary and without."""

    hits: int
    present: int
    alarms: int
    absent: int

    @property
    def accuracy(self) -> float:
        return (self.hits / self.present + 1 - self.alarms / self.absent) / 2

    def limits(self, alpha: float) -> tuple[float, float]:
        """Returns the least hits and the most false alarms; both hold except with chance alpha."""
        low, _ = confidence.clopper_pearson(self.hits, self.present, alpha)
        _, high = confidence.clopper_pearson(self.alarms, self.absent, alpha)
        return low, high

    def least_accuracy(self, alpha: float) -> float:
        """Returns what the accuracy is at least, except with chance alpha, where both sides have as many games.

        All right guesses together: a sum of coins with two probabilities is less spread than one of coins with their
        mean (Hoeffding 1956, Theorem 4), so the limit of Clopper and Pearson holds for their mean.
        """
        wins = self.hits + self.absent - self.alarms
        return confidence.clopper_pearson(wins, self.present + self.absent, 2 * alpha)[0]


def _counted(present: Floats, absent: Floats, cut: float) -> _Counts:
    return _Counts(int(np.sum(present > cut)), len(present), int(np.sum(absent > cut)), len(absent))


def _best_cut(present: Floats, absent: Floats, worth: Callable[[float, float], float]) -> float:
    pooled = np.sort(np.concatenate([present, absent]))
    cuts = np.unique(pooled[np.linspace(0, len(pooled) - 1, _CUTS).astype(np.int64)])
    return float(max(cuts, key=lambda cut: worth(float(np.mean(present > cut)), float(np.mean(absent > cut)))))


def _plain(counts: _Counts, delta: float, alpha: float) -> float:
    """What any (epsilon, delta)-DP mechanism must satisfy."""
    return confidence.epsilon_lower_bound(
        counts.hits, counts.present, counts.alarms, counts.absent, delta=delta, alpha=alpha
    )


def _refutes(middle: _Counts, tail: _Counts, claim: profiles.Profile, delta: float, alpha: float) -> bool:
    """Returns whether these error rates rule a claim out, except with chance alpha.

    A claim is a delta for every epsilon. At epsilon 0 it bounds the accuracy, counted at one cut; at others it bounds
    hits by false alarms, counted at a second cut. Each gets half of alpha. Where labels are released too, a chance of
    at most the claimed delta comes on top; it is taken off.
    """
    if 2 * middle.least_accuracy(alpha / 2) - 1 - delta > claim.delta(0.0):
        return True
    hits, alarms = tail.limits(alpha / 2)
    pairs = ((hits - delta, alarms), (1 - alarms - delta, 1 - hits))
    return any(
        up > math.exp(epsilon) * down and up > math.exp(epsilon) * down + claim.delta(epsilon)
        for epsilon in _EPSILONS
        for up, down in pairs
    )


def _by_noise(middle: _Counts, tail: _Counts, family: Callable[[float], events.Event], delta: float) -> float:
    """Finds the least noise that cannot explain the error rates; epsilon is above that of this much noise."""

    def refuted(times: float) -> bool:
        # a coarse grid only overestimates delta, so it refutes less
        return _refutes(middle, tail, profiles.of(family(times), pld.COARSE), delta, 1 - CONFIDENCE)

    low, high = _LEAST_NOISE, _MOST_NOISE
    if not refuted(high):
        return 0.0
    for _ in range(12):
        middle_noise = math.sqrt(low * high)
        low, high = (low, middle_noise) if refuted(middle_noise) else (middle_noise, high)
    return accounting.epsilon(family(high), delta)
