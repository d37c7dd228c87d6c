"""Accuracy on private test data: noisy, and paid for."""

import math
from collections.abc import Iterable

import numpy as np

from reticent import accounting, events
from reticent.budget import Budget
from reticent.gate import grid
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import GaussianSum
from reticent.gate.noise import NoiseSource


def noisy_share(
    right: Iterable[bool], *, epsilon: float, name: str, budget: Budget, ledger: Ledger, rng: NoiseSource
) -> float:
    """Returns the share of true answers with noise, and writes its price to the ledger first.

    Each example is the vector (right, 1)/sqrt(2) of norm at most 1; both sums leave with Gaussian noise.

    Guarantees: (epsilon, delta of the budget)-DP for the people in the test set, under the budget's assumptions.
                                                                     test_private_accuracy_is_paid_for
    """
    part = Budget.from_json({**budget.to_json(), "epsilon": epsilon})
    sigma = accounting.gaussian_sigma(part)
    event = events.Gaussian(noise_multiplier=sigma, examples_per_person=budget.examples_per_person)
    answers = list(right)
    one = math.floor(grid.SCALE / math.sqrt(2))
    exact = np.array([sum(answers) * one, len(answers) * one], dtype=np.int64)
    row = ledger.spend(event, task=name, private=rng.private)
    hits, total = GaussianSum(event)(exact, rng=rng)
    ledger.publish(row)
    return float(np.clip(hits / max(total, 1), 0, 1))
