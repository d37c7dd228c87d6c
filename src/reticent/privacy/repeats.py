"""How many runs private selection makes: the truncated negative binomial distribution, from which the gate draws.

Pr[K = k] is proportional to (1 - gamma)^k (eta)(eta + 1)...(eta + k - 1) / k! on k = 1, 2, ...; eta = 0 is the
logarithmic distribution and eta = 1 the geometric one.

Reference: Papernot and Steinke 2022, Definition 1.
"""

import math
from typing import Any

from reticent import errors
from reticent.numerics.roots import root
from reticent.privacy import events


def mean(eta: float, gamma: float) -> float:
    """Returns the expected number of runs.

    >>> round(mean(1.0, 0.05), 9)
    20.0
    """
    if eta == 0:
        return (1 - gamma) / (gamma * -math.log(gamma))
    return eta * (1 - gamma) / (gamma * -math.expm1(eta * math.log(gamma)))


def gamma(eta: float, runs: float) -> float:
    """Returns the parameter with this expected number of runs.

    >>> round(gamma(0.0, 20.0), 4)
    0.011
    """
    runs = errors.real("runs", runs, above=1, below=math.inf)

    def gap(log_gamma: float) -> float:
        return math.log(mean(eta, math.exp(log_gamma)) / runs)

    low, high = math.log(1e-9), math.log1p(-1e-9)
    if not gap(high) < 0 < gap(low):
        raise errors.InvalidValue(f"No gamma gives {runs:g} expected runs at eta {eta:g}. Change either.")
    return math.exp(root(gap, low, high, xtol=1e-15))


def hazard(event: events.PrivateSelection, k: int, mp: Any) -> Any:
    """Returns Pr[K = k | K >= k] to the precision of the context: the chance that run k is the last.

    Pr[K = j + 1] / Pr[K = j] = (1 - gamma)(j + eta)/(j + 1), so Pr[K >= k] / Pr[K = k] is a hypergeometric series of
    positive terms: nothing cancels, however far out k is.
    """
    return 1 / mp.hyp2f1(1, k + mp.mpf(event.eta), k + 1, 1 - mp.mpf(event.gamma))
