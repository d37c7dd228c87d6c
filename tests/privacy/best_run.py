"""The best of a random number of runs, as a distribution that can be written down exactly."""

import math

import numpy as np
import numpy.typing as npt

from reticent import Budget
from reticent.privacy import accounting, events

Floats = npt.NDArray[np.float64]
BUDGET = Budget(epsilon=1.0, delta=1e-5)
SHAPES = [(0.0, 0.01), (1.0, 0.05), (-0.5, 0.02), (2.5, 0.3)]  # eta and gamma
RUN = events.Gaussian(noise_multiplier=accounting.gaussian_sigma(BUDGET))


def best_of(run: Floats, eta: float, gamma: float) -> Floats:
    """The distribution of the best run, where outcomes are listed from the worst score to the best.

    Pr[best <= y] = f(Pr[run <= y]) with the generating function f of the number of runs.
    """
    upto = np.concatenate([[0.0], np.cumsum(run)])
    if eta == 0:
        grown = np.log1p(-(1 - gamma) * upto) / math.log(gamma)
    else:
        grown = np.expm1(-eta * np.log1p(-(1 - gamma) * upto)) / math.expm1(-eta * math.log(gamma))
    law: Floats = np.diff(grown)
    return law
