"""What every law of label selection has: its protocol, its coin, and the class sizes it releases."""

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from reticent.privacy import events

Floats = npt.NDArray[np.float64]
# A probability is drawn as a numerator over 2^256, and computed with twice the bits.
COIN_BITS = 256
WORKING_BITS = 512


class Law(Protocol):
    """How likely a label with n examples is released."""

    @property
    def event(self) -> events.LabelSelection | events.JointGaussian | events.LabelCounts:
        """What one use costs."""

    @property
    def threshold(self) -> float:
        """The noisy count that must be exceeded, or the count where the law turns, in examples."""

    def release_probability(self, sizes: npt.ArrayLike) -> Floats:
        """Returns the probability of release for each class size."""


class CountLaw(Law, Protocol):
    """A law that decides on the count alone, by one exact coin."""

    def coin(self, size: int) -> int:
        """Returns the probability of release times 2^256, rounded so that the event is never exceeded."""


def with_margin(event: events.LabelSelection, mp: Any) -> tuple[Any, Any]:
    """Returns epsilon and delta less a part 2^-64, so that the rounding of drawn probabilities cannot overspend."""
    margin = 1 - mp.ldexp(1, -64)
    return mp.mpf(event.epsilon) * margin, mp.mpf(event.delta) * margin


def to_coin(probability: Any, mp: Any) -> int:
    """Returns a probability as a numerator over 2^256, rounded down."""
    return int(mp.floor(mp.ldexp(probability, COIN_BITS)))


def turning_point(epsilon: Any, delta: Any, mp: Any) -> Any:
    """Where the optimal law turns, in examples: ln((e^epsilon + 2 delta - 1) / ((e^epsilon + 1) delta)) / epsilon."""
    epsilon, delta = mp.mpf(epsilon), mp.mpf(delta)
    return mp.log((mp.expm1(epsilon) + 2 * delta) / ((mp.exp(epsilon) + 1) * delta)) / epsilon


def smallest_class(law: Law, probability: float) -> int:
    """Returns the smallest class size that is released with at least this probability.

    >>> from reticent.privacy.selection import OptimalLaw
    >>> smallest_class(OptimalLaw(events.OptimalSelection(epsilon=1.0, delta=1e-7)), 0.5)
    16
    """
    high = 1
    while law.release_probability(high) < probability:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if law.release_probability(middle) < probability:
            low = middle
        else:
            high = middle
    return high


def upper_bound(sizes: npt.ArrayLike, epsilon: float, delta: float) -> Floats:
    """Returns the paper's bound on the release probability of any (epsilon, delta)-DP mechanism.

    >>> float(upper_bound(13, 1.0, 1e-7).round(4))
    0.0257
    """
    grown = np.asarray(sizes, dtype=np.float64) * epsilon
    with np.errstate(divide="ignore"):
        # ln(e^x - 1) = x + ln(1 - e^-x) cannot overflow
        log_bound = grown + np.log(-np.expm1(-grown)) - math.log(math.expm1(epsilon)) + math.log(delta)
    return np.exp(np.minimum(log_bound, 0.0))
