"""Memory between tasks: how much noise a budget asks for, and what an epoch has cost so far."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

from scipy.special import ndtri

from reticent import errors
from reticent.budget import Adjacency, Budget
from reticent.privacy import correlation, events
from reticent.privacy.accounting.costs import split, within
from reticent.privacy.accounting.gaussians import gaussian_sigma
from reticent.privacy.events import Event, Remembered

# Part of delta that is kept for labels that one example makes known; it costs 0.3 % of noise.
GATHERED_SHARE = 1 / 20
_LESS = 1 - 1e-15


def remembered(
    budget: Budget,
    *,
    epoch: int,
    eighths: int | None = None,
    horizon: int = correlation.DEFAULT_HORIZON,
    count_weight: float = 0.0,
) -> Remembered:
    """Returns an epoch with the least noise, then the fewest deviations, that the budget allows.

    Guarantees:
      - The event is within the budget; asserted at the end.          test_epochs_never_overspend
      - What has no proof is refused.                                 test_epochs_without_a_proof_are_refused

    Args:
        budget: The whole stream's budget.
        epoch: Which of the model's epochs, from 1.
        eighths: 8a of the matrix; by default that of `correlation.default_eighths`.
        horizon: How many places the epoch has at most.
        count_weight: c^2 of labels that gather evidence; 0 where all labels are public.

    Example:
        >>> event = remembered(Budget(epsilon=1.0, delta=1e-5), epoch=1, horizon=12, count_weight=0.2)
        >>> round(event.noise_multiplier, 3), round(event.deviations, 2)
        (3.742, 5.48)
    """
    n = budget.tasks_per_person
    if n > correlation.MOST_TASKS_PER_PERSON:
        raise errors.InvalidValue(
            f"Expected tasks_per_person of at most {correlation.MOST_TASKS_PER_PERSON} with memory, got {n}: noise "
            "that cancels over tasks gains nothing where persons are in many of them. Do without memory."
        )
    kept = deviations = 0.0
    if count_weight:
        events.refuse_zero_delta(budget.delta)
        if budget.adjacency is Adjacency.REPLACE_ONE:
            raise errors.InvalidValue(
                "Expected add-or-remove-one where labels are gathered over tasks: for replace-one there is no proof. "
                "Name the labels in public, or do without memory."
            )
        kept = budget.delta * GATHERED_SHARE
        deviations = -float(ndtri(kept / (2 * horizon - 1))) * (1 + 1e-9)
    event = Remembered(
        noise_multiplier=gaussian_sigma(dataclasses.replace(budget, tasks_per_person=1, delta=budget.delta - kept)),
        eighths=correlation.default_eighths(n) if eighths is None else eighths,
        horizon=horizon,
        tasks_per_person=n,
        examples_per_person=budget.examples_per_person,
        epoch=epoch,
        count_weight=count_weight,
        deviations=deviations,
    )
    if not within(event, budget):
        raise AssertionError("Calibration overspent its budget. Please report this as a bug.")
    return event


def so_far(tasks: Sequence[Event]) -> list[Event]:
    """Returns tasks of a stream as they cost so far: an epoch of t rows as if it had begun with t places.

    A person of its first task has moved t rows, by sqrt(c_0^2 + ... + c_(t-1)^2), and nobody else more; labels were
    looked at 2t - 1 times. A row that was paid for and never published counts as one.

    Guarantees:
      - The last place costs what the epoch does, and each one before less.     test_epochs_cost_what_they_have_come_to

    >>> event = Remembered(noise_multiplier=4.0, epoch=1, horizon=120)
    >>> first, = so_far([event])
    >>> first.horizon, round(first.noise_multiplier / event.noise_multiplier, 3)
    (1, 1.08)
    """
    rows = Counter(leaf.epoch for task in tasks for leaf in split(task)[0].elements())
    used: dict[Remembered, int] = {}
    for leaf in (leaf for task in tasks for leaf in split(task)[0]):
        kind = dataclasses.replace(leaf, epoch=1)
        used[kind] = max(used.get(kind, 1), min(rows[leaf.epoch], leaf.horizon))
    return [_as_far_as(task, used) for task in tasks]


def _as_far_as(event: Event, used: dict[Remembered, int]) -> Event:
    if isinstance(event, events.Composed):
        return events.Composed(tuple(_as_far_as(part, used) for part in event.parts))
    if not isinstance(event, Remembered):
        return event
    places = used[dataclasses.replace(event, epoch=1)]
    noise = event.noise / correlation.matrix(event.eighths, places).gamma(event.tasks_per_person) * _LESS
    return dataclasses.replace(event, horizon=places, noise_multiplier=noise)
