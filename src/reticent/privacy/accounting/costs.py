"""Event -> epsilon or delta, under both adjacencies."""

import math
from collections import Counter
from typing import NamedTuple, TypeGuard

from reticent import errors
from reticent.budget import Adjacency, Budget
from reticent.privacy import epoch_costs, events, pld, profiles, replacing
from reticent.privacy.accounting.gaussians import all_gaussian, score
from reticent.privacy.events import Event
from reticent.privacy.rounding import smallest_epsilon


class Cost(NamedTuple):
    """What an event costs at one delta, under both adjacencies."""

    epsilon: float
    replace_one: float
    replace_one_is_tight: bool

    def under(self, adjacency: Adjacency) -> float:
        """Returns epsilon under one of them."""
        return self.replace_one if adjacency is Adjacency.REPLACE_ONE else self.epsilon

    def at_most(self, epsilon: float, adjacency: Adjacency) -> "Cost":
        """Returns the cost where epsilon under one of them is known to be no more than this."""
        if adjacency is Adjacency.REPLACE_ONE:
            return self._replace(replace_one=min(epsilon, self.replace_one))
        return self._replace(epsilon=min(epsilon, self.epsilon))


def cost(event: Event, delta: float) -> Cost:
    """Returns epsilon under add-or-remove-one, and under replace-one with whether that bound is tight.

    >>> cost(events.Gaussian(noise_multiplier=4.0), 1e-5).replace_one_is_tight
    True
    """
    replaced = epsilon(event, delta, adjacency=Adjacency.REPLACE_ONE)
    leaves = list(profiles.leaves(event))
    tight = all(isinstance(leaf, events.Gaussian) for leaf in leaves) or isinstance(event, events.JointGaussian)
    tight |= len(leaves) == 1 and isinstance(leaves[0], events.Remembered) and not leaves[0].count_weight
    return Cost(epsilon(event, delta), replaced, tight)


def delta(event: Event, epsilon: float, *, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE) -> float:
    """Returns the smallest provable delta at this epsilon, rounded up.

    >>> delta(events.NonPrivate(), 3.0)
    1.0
    """
    epsilon = errors.real("epsilon", epsilon, above=0, below=math.inf, at_least=True)
    return delta_at(event, epsilon, adjacency, pld.FINE)


def epsilon(event: Event, delta: float, *, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE) -> float:
    """Returns the smallest provable epsilon at this delta, rounded up; infinity where there is none.

    >>> round(epsilon(events.Gaussian(noise_multiplier=3.730632), 1e-5), 4)
    1.0
    """
    target = errors.real("delta", delta, above=0, below=1, at_least=True)
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        return profiles.of(event).epsilon(target)
    return smallest_epsilon(lambda e: delta_at(event, e, adjacency, pld.FINE), target)


def repeat(event: Event, times: int) -> Event:
    """Returns the event of a person who is in this many tasks of the same spend; an epoch counts once.

    >>> repeat(events.Public(), 2)
    Composed(parts=(Public(), Public()))
    """
    remembered, others = split(event)
    if times == 1 or not remembered:
        return events.compose(*[event] * times)
    return events.compose(*epoch_costs.bundled([remembered], times), *[others] * times)


def split(task: Event) -> tuple[Counter[events.Remembered], Event]:
    """Returns the epochs that a task has a row of, and all that it spends besides as one event."""
    leaves = list(profiles.leaves(task))
    others = [leaf for leaf in leaves if not isinstance(leaf, events.Remembered)]
    remembered = Counter(leaf for leaf in leaves if isinstance(leaf, events.Remembered))
    return remembered, events.compose(*others) if others else events.Public()


def within(event: Event, budget: Budget) -> bool:
    """Returns whether a person may be in as many tasks with this event as the budget assumes, and lose no more.

    >>> within(events.Gaussian(noise_multiplier=4.0), Budget(epsilon=1.0, delta=1e-5))
    True
    """
    refuse_fewer_examples(event, budget)
    return delta_at(in_stream(event, budget), budget.epsilon, budget.adjacency, pld.FINE) <= budget.delta


def in_stream(event: Event, budget: Budget) -> Event:
    """Returns what a person may lose in as many tasks like this one as the budget assumes, or scores where reserved.

    >>> budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2, score_epsilon=0.5)
    >>> type(in_stream(events.DpSgd(noise_multiplier=1.0, rate=0.01, steps=4), budget)).__name__
    'Adaptive'
    """
    if budget.tasks_per_person > 1 and budget.score_epsilon is not None and not all_gaussian(event):
        return events.Adaptive((event, score(budget, budget.score_epsilon)), budget.tasks_per_person)
    return repeat(event, budget.tasks_per_person)


def refuse_fewer_examples(event: Event, budget: Budget) -> None:
    """Refuses an event that was described for fewer examples per person than the budget assumes."""
    for leaf in profiles.leaves(event):
        if isinstance(leaf, events.PrivateSelection):
            refuse_fewer_examples(leaf.run, budget)
        described = getattr(leaf, "examples_per_person", budget.examples_per_person)
        if described < budget.examples_per_person:
            trained = isinstance(leaf, events.DpSgd | events.LabelledTraining)
            remedy = " DP-SGD must sample whole persons and clip the sum of each one's gradients; then say so."
            raise errors.InvalidValue(
                f"Expected an event for {budget.examples_per_person} examples per person, as the budget says; "
                f"got one for {described}.{remedy if trained else ''}"
            )


def delta_at(event: Event, epsilon: float, adjacency: Adjacency, resolution: float) -> float:
    """Returns delta as `delta` does, on a grid of this resolution where losses are composed (see `pld.compose`)."""
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        return profiles.of(event, resolution).delta(epsilon)
    leaves = list(profiles.leaves(event))
    if _is_one_joint(leaves):
        return replacing.OneReplacedJoint(leaves[0]).delta(epsilon)
    replaced = replacing.replaced(event)
    bound = 1.0 if replaced is None else profiles.of(replaced, resolution).delta(epsilon)
    if replaced is not None and all_gaussian(event):
        return bound
    # one removal, then one addition: (epsilon/2, d) twice gives (epsilon, (1 + e^(epsilon/2)) d)
    return min(bound, (1 + math.exp(min(epsilon / 2, 700.0))) * profiles.of(event, resolution).delta(epsilon / 2))


def _is_one_joint(leaves: list[Event]) -> TypeGuard[list[events.JointGaussian | events.LabelCounts]]:
    return len(leaves) == 1 and isinstance(leaves[0], events.JointGaussian | events.LabelCounts)
