"""Hockey-stick divergences between the releases of one label on neighbouring data sets."""

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

from reticent.privacy import events
from reticent.privacy.selection import mechanism_table
from reticent.privacy.selection.gaussian_counts import GaussianLaw
from reticent.privacy.selection.laws import COIN_BITS, CountLaw, Floats


def hockey_stick(p: npt.ArrayLike, q: npt.ArrayLike, epsilon: float) -> Floats:
    """Returns the hockey-stick divergence between discrete distributions, the larger of both directions.

    Outcomes run along the first axis. Give small probabilities as themselves, not as 1 minus a large one: the answer is
    as exact as they are.

    >>> float(hockey_stick([0.5, 0.5], [0.25, 0.75], 0.0))
    0.25
    """
    p, q, scale = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64), math.exp(epsilon)
    forth, back = np.maximum(p - scale * q, 0).sum(axis=0), np.maximum(q - scale * p, 0).sum(axis=0)
    worst: Floats = np.maximum(forth, back)
    return worst


def drawn_law(law: CountLaw, sizes: Iterable[int]) -> Floats:
    """Returns the probabilities of release and of drop that are really drawn, both to full relative precision."""
    coins = [law.coin(int(size)) for size in sizes]
    whole = 1 << COIN_BITS
    return np.array([[coin / whole for coin in coins], [(whole - coin) / whole for coin in coins]])


def divergence(event: events.LabelSelection | events.JointGaussian, size: int, epsilon: float) -> float:
    """Returns the hockey-stick divergence between the releases of one label with n and n + 1 examples.

    The larger of both directions. For the joint Gaussian the release is the noisy count and the noisy sum of a
    label that other persons may have too, behind the threshold.

    >>> divergence(events.LaplaceThreshold(epsilon=1.0, delta=1e-5), 0, 1.0)
    1e-05
    """
    if isinstance(event, events.JointGaussian):
        law = GaussianLaw(event)
        return _joint_divergence(law, size, epsilon) if size > 0 else law.exposures(1)[1]
    probabilities = drawn_law(mechanism_table.law(event), (size, size + 1))
    return float(hockey_stick(probabilities[:, 0], probabilities[:, 1], epsilon))


def _joint_divergence(law: GaussianLaw, size: int, epsilon: float) -> float:
    """Integrates over the count slot u; beside it the released sum moves by a in one direction.

    Densities differ by the shift (c, a). Where u passes the threshold, both u and the sum are published; else neither.
    """
    sigma = law.event.noise_multiplier
    c = sigma / law.count_noise
    a = math.sqrt(1 - law.event.count_weight)
    gate = c * (law.threshold - size)
    u, weights = _panels(max(gate, -20 * sigma), max(gate, 0.0) + 20 * sigma + 1)
    loss = (c * u - c * c / 2) / sigma**2
    more = np.exp(-((u - c) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    fewer = np.exp(-(u**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    seen_more = float(weights @ (more * _shift_divergence(epsilon - loss, a / sigma)))
    seen_fewer = float(weights @ (fewer * _shift_divergence(epsilon + loss, a / sigma)))
    hidden_fewer, hidden_more = ndtr((law.threshold - np.array([size, size + 1])) / law.count_noise)
    scale = math.exp(epsilon)
    return max(
        seen_more + max(0.0, float(hidden_more - scale * hidden_fewer)),
        seen_fewer + max(0.0, float(hidden_fewer - scale * hidden_more)),
    )


def _panels(low: float, high: float) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss-Legendre quadrature on 64 panels."""
    nodes, weights = np.polynomial.legendre.leggauss(32)
    edges = np.linspace(low, high, 65)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (nodes + 1)).ravel(), (half * weights).ravel()


def _shift_divergence(epsilon: Floats, mu: float) -> Floats:
    """delta_G(epsilon; mu) for any real epsilon, in float64."""
    upper, lower = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    value: Floats = np.exp(upper) * -np.expm1(np.minimum(lower - upper, 0.0))
    return value


def sizes_to_check(turn: float) -> npt.NDArray[np.int64]:
    """Returns every class size to 2k+1 that a check should visit: all for k up to 10^4, else about 1,000 of them."""
    turn = max(turn, 0.0)
    last = 2 * math.ceil(turn) + 1
    if turn <= 10_000:
        return np.arange(last + 1)
    spread = np.unique(np.linspace(0, last, 994).astype(np.int64))
    turning = math.floor(turn) + np.arange(-3, 4)
    return np.unique(np.concatenate([spread, turning]))
