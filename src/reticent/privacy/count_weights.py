"""The weight of counts when nobody chose one: a small model of expected accuracy, from public facts alone.

A share c^2 of an example's squared norm counts it; the rest carries its feature. A larger share lowers the threshold,
so that smaller classes are released; it also raises the noise on the sums of every class in the task that releases it,
by 1 / sqrt(1 - c^2). In units of the noise sigma on a sum, a class of m examples in a task has

    Pr[released] = Phi(c (m - tau) / sigma),            tau = examples_per_person + z sigma / c,
    accuracy     = s^3 / (s^3 + 13^3) of what it would have without noise,     s = sqrt(1 - c^2) m / sigma,

z from the chance of exposure that delta leaves for one look. The size of a test example's class is taken to be uniform:
nothing is known about it. The weight with the largest expected product is the default.

The cube was chosen on CLINC150's test part with features of MiniLM, the 13 after a look at ICD-10-CM and CIFAR-100 too;
they give 0.18 at eps 1 and delta 1e-5. Data that chose nothing: phenotypes in docs/results.md.
"""

import functools
import math

import numpy as np
from scipy.special import ndtr

from reticent.budget import Adjacency, Budget
from reticent.privacy import accounting, events, selection

WITHOUT_RECORD = 0.1
"""What models use whose settings name no weight: they were made when this was the default."""
HALF_SIGNAL = 13.0
"""A class so many times the noise on its sum has half the accuracy that it would have without noise."""
# Of delta, with memory: exposure of pending labels over all looks of an epoch.
_REMEMBERED_SHARE = 1 / 20
_LARGEST = 6 * HALF_SIGNAL  # in noise; beyond, every weight gives the same
_CANDIDATES = tuple(hundredths / 100 for hundredths in range(2, 61))


def expected_accuracy(budget: Budget, count_weight: float, *, horizon: int | None = None) -> float:
    """Returns the accuracy to expect with released labels, as a share of that without noise; see the module's text.

    Args:
        budget: What one person may lose over the stream.
        count_weight: c^2.
        horizon: With memory: most tasks of an epoch, in each of which every pending label is looked at twice.

    Example:
        >>> budget = Budget(epsilon=1.0, delta=1e-5)
        >>> [round(expected_accuracy(budget, weight), 3) for weight in (0.02, 0.1, 0.18, 0.5)]
        [0.595, 0.758, 0.769, 0.721]
    """
    sigma = accounting.gaussian_sigma(budget)
    threshold = selection.gaussian_threshold(sigma, count_weight, _exposure(budget, horizon))
    threshold += budget.examples_per_person - 1
    sizes = np.linspace(0, _LARGEST, 1_001)[1:]
    released = ndtr(math.sqrt(count_weight) * (sizes - threshold / sigma))
    cubes = (math.sqrt(1 - count_weight) * sizes / HALF_SIGNAL) ** 3
    return float(np.mean(released * cubes / (1 + cubes)))


@functools.lru_cache(maxsize=256)
def default_count_weight(budget: Budget, *, horizon: int | None = None) -> float:
    """Returns the c^2 with the largest expected accuracy, in hundredths.

    Guarantees:
      - No other weight has a larger expected accuracy, and it depends on public facts alone.
                                                                           test_default_weight_is_the_best_of_its_model

    Args:
        budget: What one person may lose over the stream.
        horizon: With memory: most tasks of an epoch.

    Example:
        >>> default_count_weight(Budget(epsilon=1.0, delta=1e-5))
        0.18
        >>> default_count_weight(Budget(epsilon=1.0, delta=1e-5), horizon=120)
        0.24
    """
    events.refuse_zero_delta(budget.delta)
    return max(_CANDIDATES, key=functools.partial(expected_accuracy, budget, horizon=horizon))


def _exposure(budget: Budget, horizon: int | None) -> float:
    """The chance that one look exposes a label of one example, as `planning.joint_gaussian` divides delta."""
    if horizon is not None:
        return budget.delta * _REMEMBERED_SHARE / (2 * horizon - 1)
    alone = budget.tasks_per_person == 1 and budget.adjacency is Adjacency.ADD_OR_REMOVE_ONE
    return budget.delta * (1.0 if alone else accounting.EXPOSURE_SHARE) / budget.tasks_per_person
