"""How often to run before the best is kept: drawn exactly, since the cost of private selection rests on it."""

import functools
import math
from typing import Any

import numpy as np

from reticent.gate.noise import NoiseSource
from reticent.numerics import precision
from reticent.privacy import events, repeats


def number_of_runs(event: events.PrivateSelection, *, rng: NoiseSource) -> int:
    """Draws how many runs to make; spend the event first, and never tell the number.

    Run k is the last with probability Pr[K = k | K >= k]: one coin after each run.

    Guarantees:
      - Exactly the truncated negative binomial law.    test_number_of_runs_follows_its_pmf

    Example:
        >>> event = events.PrivateSelection(run=events.Public(), eta=0.0, gamma=0.5)
        >>> number_of_runs(event, rng=NoiseSource.from_os()) >= 1
        True
    """
    k = 1
    while True:
        hazard = _hazard(event, k)
        low, high = np.array([math.nextafter(hazard, 0)]), np.array([math.nextafter(hazard, 1)])
        if rng.below(low, high, functools.partial(_exact, event, k))[0]:
            return k
        k += 1


@functools.lru_cache(maxsize=4096)
def _hazard(event: events.PrivateSelection, k: int) -> float:
    with precision.bits(128) as mp:
        return float(repeats.hazard(event, k, mp))


def _exact(event: events.PrivateSelection, k: int, _: int, mp: Any) -> Any:
    return repeats.hazard(event, k, mp)
