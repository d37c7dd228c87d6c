"""The law of a label that gathers evidence over two or three tasks: when it becomes known, and its rows.

Written from THEORY section 10 and apart from the code that draws: real numbers, the inverse of the matrix by linear
algebra, and one integral for each task.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from reticent.privacy import events

Floats = npt.NDArray[np.float64]
_NODES, _REACH = 120, 9.0


@lru_cache(maxsize=1024)
def crossings(event: events.Remembered, counts: tuple[int, ...]) -> tuple[float, ...]:
    """Returns the chance that a label with so many examples in each task becomes known in each, and last in none.

    A look in task t is the sum of noise of earlier rows, weighted, and of row t, weighted 1: given the earlier ones it
    is an upper bound on the last.
    """
    tasks = len(counts)
    matrix = _matrix(event, tasks)
    inverse = np.linalg.inv(matrix)
    c, looks = math.sqrt(event.count_weight) / event.noise, (inverse, np.cumsum(inverse, axis=0))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    found = []
    alive, noise = np.ones(1), np.zeros((1, 0))  # the weight of each combination of earlier noise that crossed nothing
    for t in range(tasks):
        bounds = []
        for look in looks:
            row = look[t, : t + 1]
            threshold = c + event.deviations * float(np.linalg.norm(row))
            bounds.append(threshold - c * float((look[t] @ matrix) @ np.asarray(counts)) - noise @ row[:-1])
        bound = np.minimum(*bounds) if any(counts[: t + 1]) else np.full(len(noise), math.inf)  # not looked at yet
        found.append(float(alive @ ndtr(-bound)))
        if t + 1 == tasks:
            break
        half = (np.clip(bound, -_REACH, _REACH) + _REACH) / 2
        at = half[:, None] * (nodes + 1) - _REACH
        density = np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi)
        alive = (alive[:, None] * half[:, None] * weights * density).ravel()
        noise = np.column_stack([np.repeat(noise, _NODES, axis=0), at.ravel()])
    return (*found, 1 - math.fsum(found))


def divergences(event: events.Remembered, counts: tuple[int, ...], s: int, epsilon: float) -> tuple[float, float]:
    """Returns the divergences between a label with these counts and with one example more in task s, both ways.

    What is seen is when the label becomes known, and from then on all of its rows: noise of every row is independent,
    and the example moves them along one direction.
    """
    more = tuple(n + (t == s) for t, n in enumerate(counts))
    fewer_law, more_law = crossings(event, counts), crossings(event, more)
    column = float(np.linalg.norm(_matrix(event, len(counts))[:, s])) / event.noise
    seen = [column * (1.0 if t < s else math.sqrt(1 - event.count_weight)) for t in range(len(counts))]
    moves = [*seen, 0.0]
    return (
        sum(_shifted(p, q, mu, epsilon) for p, q, mu in zip(fewer_law, more_law, moves, strict=True)),
        sum(_shifted(q, p, mu, epsilon) for p, q, mu in zip(fewer_law, more_law, moves, strict=True)),
    )


def _shifted(p: float, q: float, mu: float, epsilon: float) -> float:
    """The divergence of p times one Gaussian from q times another at distance mu."""
    if mu == 0 or p <= 0 or q <= 0:
        return max(p - math.exp(epsilon) * q, 0.0) if p > 0 else 0.0
    cut = mu / 2 - (epsilon + math.log(q / p)) / mu
    return max(float(p * ndtr(cut) - math.exp(epsilon) * q * ndtr(cut - mu)), 0.0)


def _matrix(event: events.Remembered, tasks: int) -> Floats:
    lags = np.arange(tasks)[:, None] - np.arange(tasks)
    matrix: Floats = np.where(lags >= 0, event.correlation.coefficients[np.abs(lags)], 0) / 256
    return matrix
