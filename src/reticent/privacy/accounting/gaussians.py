"""Spends whose noise is one Gaussian: how much a budget asks for, a private score, and how they add up in a task."""

import dataclasses
import math
from collections import Counter

from reticent import errors
from reticent.budget import Adjacency, Budget
from reticent.privacy import epoch_costs, events, gaussian, profiles, selection
from reticent.privacy.events import Event

_GAUSSIANS = (events.Gaussian, events.JointGaussian, events.LabelCounts, events.Exposure, events.Remembered)


def all_gaussian(event: Event) -> bool:
    """Returns whether an event is Gaussians and exposures alone: then squares and chances add up, in any order.

    >>> all_gaussian(events.DpSgd(noise_multiplier=1.0, rate=0.1, steps=10))
    False
    """
    return all(isinstance(leaf, _GAUSSIANS) for leaf in profiles.leaves(event))


def gaussian_part(task: Event) -> tuple[float, float]:
    """Returns sum (m/sigma)^2 and the sum of exposures over the Gaussians and joint releases of a task."""
    leaves = list(profiles.leaves(task))
    squares, chance = epoch_costs.squares_and_chance(Counter(leaves))  # of epochs, whose rows count together
    for leaf in leaves:
        if isinstance(leaf, events.Gaussian | events.JointGaussian | events.LabelCounts):
            squares += (leaf.examples_per_person / leaf.noise_multiplier) ** 2
        if isinstance(leaf, events.JointGaussian | events.LabelCounts):
            chance += selection.GaussianLaw(leaf).exposures(leaf.examples_per_person)[-1]
        if isinstance(leaf, events.Exposure):
            chance += leaf.chance
    return squares, chance


def gaussian_sigma(budget: Budget) -> float:
    """Returns the noise on a sum of unit vectors that a task may publish under this budget.

    >>> round(gaussian_sigma(Budget(epsilon=1.0, delta=1e-5)), 4)
    3.7306
    """
    refuse_no_delta(budget)
    doubled = 2 if budget.adjacency is Adjacency.REPLACE_ONE else 1
    sensitivity = doubled * budget.examples_per_person * math.sqrt(budget.tasks_per_person)
    return sensitivity / gaussian.largest_mu(budget.epsilon, budget.delta) * (1 + 1e-12)


def score(budget: Budget, epsilon: float) -> events.Gaussian:
    """Returns what one noisy accuracy costs, at the delta and under the adjacency of the budget.

    For persons who are also in other tasks, the ledger adds up what they lose.
    """
    part = dataclasses.replace(budget, epsilon=epsilon, tasks_per_person=1)
    return events.Gaussian(noise_multiplier=gaussian_sigma(part), examples_per_person=budget.examples_per_person)


def refuse_no_delta(budget: Budget) -> None:
    """Refuses a budget that no Gaussian noise satisfies."""
    if budget.delta == 0:
        raise errors.InvalidValue("Expected delta > 0: Gaussian noise satisfies no budget with delta = 0.")
