"""Confidence limits for membership games and audits."""

import math

from scipy.stats import beta


def clopper_pearson(wins: int, trials: int, alpha: float) -> tuple[float, float]:
    """Returns an interval that misses the true probability with chance at most alpha.

    >>> low, high = clopper_pearson(50, 100, 0.05)
    >>> round(low, 3), round(high, 3)
    (0.398, 0.602)
    """
    low = float(beta.ppf(alpha / 2, wins, trials - wins + 1)) if wins > 0 else 0.0
    high = float(beta.isf(alpha / 2, wins + 1, trials - wins)) if wins < trials else 1.0
    return low, high


def accuracy_bound(epsilon: float, delta: float) -> float:
    """Returns the best accuracy of any attacker in the balanced membership game against (epsilon, delta)-DP.

    >>> round(accuracy_bound(1.0, 0.0), 3)
    0.731
    """
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))


def epsilon_lower_bound(hits: int, present: int, alarms: int, absent: int, *, delta: float, alpha: float) -> float:
    """Returns an epsilon that the mechanism exceeds, except with chance alpha.

    Args:
        hits: How often an event was seen with the person present, out of `present` trials.
        alarms: How often it was seen with the person absent, out of `absent` trials.
        present: Trials with the person.
        absent: Trials without.
        delta: The delta the mechanism claims.
        alpha: Chance of a false alarm.

    Example:
        >>> epsilon_lower_bound(1000, 1000, 0, 1000, delta=1e-5, alpha=1e-6) > 4
        True
    """
    hit_low, hit_high = clopper_pearson(hits, present, alpha / 2)
    alarm_low, alarm_high = clopper_pearson(alarms, absent, alpha / 2)
    directions = [
        (hit_low - delta, alarm_high),
        (alarm_low - delta, hit_high),
        (1 - alarm_high - delta, 1 - hit_low),
        (1 - hit_high - delta, 1 - alarm_low),
    ]
    return max((math.log(up / down) for up, down in directions if up > 0 and down > 0), default=0.0)
