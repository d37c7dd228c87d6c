"""What the attack on the label space wins, and which labels are dropped: experiments on synthetic data.

Games against remedies are seeded, so that their numbers can be repeated; they are about mechanisms, not about persons.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from reticent.budget import Budget
from reticent.lab.attack import label_attack
from reticent.privacy import events, planning, selection
from reticent.privacy.confidence import accuracy_bound
from reticent.privacy.count_weights import default_count_weight

SEED = 0
DROP_DELTA = 1e-7  # of the paper's second figure
DROP_EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
_DROP_SIZES = (1, 2, 3, 5, 7, 10, 13, 15, 20, 25, 30, 40, 50, 70, 100, 150, 200, 300, 500)


def attack() -> dict[str, Any]:
    """Figure 1: classifiers that leak, and every remedy at several epsilon."""
    curve = label_attack.accuracy_curve(1e-5, seed=SEED)
    played = {(result.target, result.epsilon) for result in curve}
    leaks = label_attack.attack_classifiers(Budget(epsilon=1.0, delta=1e-5), trainings=200)
    games = [result for result in leaks if (result.target, result.epsilon) not in played]
    limits = [[epsilon, accuracy_bound(epsilon, 1e-5)] for epsilon in label_attack.CURVE]
    return {"points": [result.json() for result in [*games, *curve]], "bounds": limits}


def drop() -> dict[str, Any]:
    """Figure 2: the chance that a label is dropped, by mechanism, and the least of any mechanism."""
    sizes, curves = np.array(_DROP_SIZES), []
    for epsilon in DROP_EPSILONS:
        budget = Budget(epsilon=epsilon, delta=DROP_DELTA)
        whole = events.TruncatedGeometric(epsilon=epsilon, delta=DROP_DELTA)
        tenth = planning.labels_by_share(budget, events.TruncatedGeometric, planning.DEFAULT_SHARE)
        joint = planning.joint_gaussian(budget, default_count_weight(budget))
        kept = {
            "any mechanism, at least": selection.upper_bound(sizes, epsilon, DROP_DELTA),
            "the paper's, the whole budget": selection.law(whole).release_probability(sizes),
            "the paper's, a tenth of the budget": selection.law(tenth).release_probability(sizes),
            "ours, with the sums": selection.law(joint).release_probability(sizes),
        }
        curves += [_curve(epsilon, mechanism, (1 - p).tolist()) for mechanism, p in kept.items()]
    return {"delta": DROP_DELTA, "curves": curves}


def _curve(epsilon: float, mechanism: str, dropped: Sequence[float]) -> dict[str, Any]:
    return {"epsilon": epsilon, "mechanism": mechanism, "sizes": list(_DROP_SIZES), "probability": list(dropped)}
