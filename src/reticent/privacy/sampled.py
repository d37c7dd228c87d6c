"""Privacy loss of many steps of a Poisson-sampled Gaussian: the dots of one step in NumPy, all steps by one transform.

The library computes the same distribution of one step point by point in Python, and composes it on a grid many times as
wide as its losses are. Both are most of a calibration where the rate is small; here they are a tenth of that.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

Floats = npt.NDArray[np.float64]

TAIL = 1e-15  # of all steps' losses may lie outside the grid; it counts as infinite loss
_ORDERS = 2.0 ** np.arange(-10, 10)  # of the bound on the tails, over a step's largest loss: e^512 is a float64


def distribution(noise: float, rate: float, steps: int, width: float) -> Any:
    """Returns the library's distribution of this many steps, sampled at a rate below 1, on a grid of this width.

    Guarantees:
      - One step is the library's connect-the-dots distribution, which dominates the true one.
                                                                    test_dots_are_those_of_the_library
      - All steps are its convolutions with itself.                 test_steps_are_convolved
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution  # takes a second to import; rarely needed
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    directions = []
    for adjacency, curve in ((AdjacencyType.REMOVE, removed), (AdjacencyType.ADD, added)):
        ends = GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=adjacency).connect_dots_bounds()
        lowest, highest = math.floor(ends.epsilon_lower / width), math.ceil(ends.epsilon_upper / width)
        deltas = curve(np.arange(lowest, highest + 1) * width, noise, rate)
        lower, masses = repeated(lowest, connected(deltas, width), steps)
        infinite = TAIL - math.expm1(steps * math.log1p(-deltas[-1]))
        directions.append(pld_pmf.DensePLDPmf(width, lower, masses, infinite, True))
    return privacy_loss_distribution.PrivacyLossDistribution(*directions)


# --- one step


def removed(epsilons: Floats, noise: float, rate: float) -> Floats:
    """Returns the divergence of (1 - rate) N(0, noise^2) + rate N(-1, noise^2) from N(0, noise^2) at each epsilon.

    >>> removed(np.array([0.0, 1.0]), 1.0, 0.5).round(4).tolist()
    [0.1915, 0.0289]
    """
    inside = epsilons > math.log1p(-rate)
    deltas = np.zeros_like(epsilons)
    deltas[~inside] = -np.expm1(epsilons[~inside])  # no loss is that small
    epsilon = epsilons[inside]
    x = -0.5 / noise - noise * _unsampled(epsilon, rate)  # where the loss is epsilon, in standard deviations
    above = (1 - rate) * ndtr(x) + rate * ndtr(x + 1 / noise)
    deltas[inside] = above - np.exp(epsilon + log_ndtr(x))
    return np.maximum(deltas, 0.0)  # below 0 by rounding alone


def added(epsilons: Floats, noise: float, rate: float) -> Floats:
    """Returns the divergence of N(0, noise^2) from (1 - rate) N(0, noise^2) + rate N(1, noise^2) at each epsilon.

    >>> added(np.array([0.0, 1.0]), 1.0, 0.5).round(4).tolist()
    [0.1915, 0.0]
    """
    inside = epsilons < -math.log1p(-rate)
    deltas = np.zeros_like(epsilons)  # no other loss is that large
    epsilon = epsilons[inside]
    x = 0.5 / noise + noise * _unsampled(-epsilon, rate)
    below = np.logaddexp(math.log1p(-rate) + log_ndtr(x), math.log(rate) + log_ndtr(x - 1 / noise))
    deltas[inside] = ndtr(x) - np.exp(epsilon + below)
    return np.maximum(deltas, 0.0)  # below 0 by rounding alone


def _unsampled(losses: Floats, rate: float) -> Floats:
    """Returns ln(1 + (e^loss - 1) / rate): the loss of a Gaussian that has this loss when it is sampled.

    Written so that nothing overflows at large losses, nor cancels near the smallest one, ln(1 - rate).
    """
    with np.errstate(divide="ignore"):  # of the smallest loss itself
        return np.asarray(losses + np.log(-np.expm1(math.log1p(-rate) - losses)) - math.log(rate))


def connected(deltas: Floats, width: float) -> Floats:
    """Returns the masses on a grid of at least two losses whose divergence is these deltas at each loss of the grid.

    Between the dots it is the straight line in e^epsilon, above the true and convex curve. What is left has infinite
    loss, the last delta. (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, Algorithm 1.)

    >>> connected(np.array([0.5, 0.2, 0.1]), math.log(2)).round(2).tolist()
    [0.2, 0.5, 0.2]
    """
    falls = np.diff(np.minimum.accumulate(deltas))
    masses = np.empty_like(deltas)
    masses[0] = 1 - deltas[0] + falls[0] / math.expm1(width)
    masses[1:-1] = (falls[1:] - falls[:-1] * math.exp(width)) / math.expm1(width)
    masses[-1] = falls[-1] / math.expm1(-width)
    return np.maximum(masses, 0.0)  # below 0 by rounding alone


# --- all steps


def repeated(lowest: int, masses: Floats, steps: int) -> tuple[int, Floats]:
    """Returns the lowest point and the masses of the sum of independent steps; at most TAIL of it is in wrong places.

    A circle of points holds all but TAIL of the sum (`_reach`), and a transform on that circle is exact but for what
    wraps around. One step may be wider than the circle: it is wound around it.

    >>> lower, found = repeated(-1, np.array([0.5, 0.25, 0.25]), 2)
    >>> lower, found.round(4).tolist()
    (-2, [0.25, 0.25, 0.3125, 0.125, 0.0625])
    """
    from scipy import fft  # with the library, when it is first needed

    lower, upper = _reach(lowest, masses, steps)
    size = int(fft.next_fast_len(upper - lower + 1, real=True))
    wound = np.zeros(-(-len(masses) // size) * size)
    wound[: len(masses)] = masses
    circle = fft.irfft(fft.rfft(wound.reshape(-1, size).sum(axis=0)) ** steps, size)
    found = np.roll(circle, (steps * lowest - lower) % size)[: upper - lower + 1]
    return lower, np.maximum(found, 0.0)


def _reach(lowest: int, masses: Floats, steps: int) -> tuple[int, int]:
    """Returns points below and above which the sum of all steps has less than TAIL / 2 each, by Chernoff's bound."""
    points = lowest + np.arange(len(masses))
    orders = _ORDERS / np.abs(points).max()

    def end(side: int) -> int:
        moments = (float(masses @ np.exp(side * order * points)) for order in orders)
        bounds = (
            (steps * math.log(moment) - math.log(TAIL / 2)) / order
            for order, moment in zip(orders, moments, strict=True)
        )
        return int(min(steps * (side * points).max(), *map(math.ceil, bounds)))

    return -end(-1), end(1)
