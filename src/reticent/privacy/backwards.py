"""Planning backwards: from the classes that are to be released to the budget that releases them."""

import dataclasses
import math

from reticent import errors
from reticent.budget import Budget
from reticent.privacy import planning, selection
from reticent.privacy.count_weights import default_count_weight

CHANCE = 0.99
"""With this probability a class that is to be released is released, unless the user says otherwise."""
_DIGITS = 4  # of epsilon, which is rounded up
_LEAST = 1e-4


def budget_to_release(
    budget: Budget,
    size: int,
    *,
    chance: float = CHANCE,
    mechanism: str = planning.JOINT_GAUSSIAN,
    share: float = planning.DEFAULT_SHARE,
    count_weight: float | None = None,
) -> Budget:
    """Returns the budget with the smallest epsilon that releases classes of a size, in each task that has one.

    Guarantees:
      - With the returned budget such a class is released with at least this chance; with an epsilon smaller by one
        in a thousand it is not.                                        test_the_epsilon_for_a_release_is_the_smallest

    Args:
        budget: All but its epsilon counts: delta, and how often one person may appear.
        size: Examples of a class in a task; a public guess, never counted in the data.
        chance: With which probability the class is to be released.
        mechanism: One of `planning.MECHANISMS`.
        share: Part of epsilon and delta for the labels (all but the joint Gaussian).
        count_weight: c^2 of the joint Gaussian; by default what a model takes that is told no class size.

    Example:
        >>> budget_to_release(Budget(epsilon=1.0, delta=1e-5), 50).epsilon
        1.2029
    """
    size = errors.whole("release", size, at_least=1)
    chance = errors.real("chance", chance, above=0, below=1)

    def released(epsilon: float) -> bool:
        tried = dataclasses.replace(budget, epsilon=epsilon)
        weight = default_count_weight(tried) if count_weight is None else count_weight
        event = planning.label_event(tried, mechanism, share=share, count_weight=weight)
        return float(selection.law(event).release_probability(size)) >= chance

    low, high = _LEAST, errors.LARGEST_EPSILON * (1 - 1e-9)
    if not released(high):
        raise errors.InvalidValue(
            f"No epsilon below {errors.LARGEST_EPSILON:g} releases classes of {size} with chance {chance:g} at delta "
            f"{budget.delta:g}. Expected a larger class, a larger delta or a smaller chance."
        )
    while high > low * (1 + 1e-6):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if released(middle) else (middle, high)
    steps = math.ceil(high * 10**_DIGITS)
    while not released(steps / 10**_DIGITS):  # the default weight moves in steps of its own
        steps += 1
    return dataclasses.replace(budget, epsilon=steps / 10**_DIGITS)
