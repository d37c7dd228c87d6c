"""What one person loses over a stream of tasks: the worst subset of tasks that they may be in."""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from reticent.budget import Adjacency
from reticent.privacy import epoch_costs, events, pld, profiles
from reticent.privacy.accounting.costs import GAUSSIANS, Cost, cost, delta, gaussian_part, repeat, split
from reticent.privacy.events import Event

_MOST_SUBSETS = 16


def stream_delta(
    tasks: Sequence[Event], epsilon: float, order: int, *, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
) -> float:
    """Returns delta of a stream in which one person may appear in up to `order` tasks: the worst subset."""
    subsets = worst_subsets(tasks, order)
    return max((delta(subset, epsilon, adjacency=adjacency) for subset in subsets), default=0.0)


def stream_cost(tasks: Sequence[Event], delta: float, order: int) -> Cost:
    """Returns epsilon of a stream in which one person may appear in up to `order` tasks: the worst subset.

    >>> stream_cost([events.Gaussian(noise_multiplier=4.0)] * 9, 1e-5, 1) == cost(
    ...     events.Gaussian(noise_multiplier=4.0), 1e-5)
    True
    """
    costs = [cost(subset, delta) for subset in worst_subsets(tasks, order)]
    if not costs:
        return Cost(0.0, 0.0, True)
    return Cost(
        max(c.epsilon for c in costs), max(c.replace_one for c in costs), all(c.replace_one_is_tight for c in costs)
    )


def worst_subsets(tasks: Sequence[Event], order: int) -> Iterator[Event]:
    """Yields events of which the worst is what one person in `order` tasks may go through.

    "The n most expensive tasks" is not defined (two events of equal epsilon compose differently), so every multiset of
    kinds is tried; where there are too many, one event that dominates them all. Gaussians and joint releases need no
    search: the n largest 1/sigma^2 and the n largest exposures bound every subset. Tasks with memory are one event
    for all of them, beside what else n tasks spend.
    """
    kinds = Counter(task for task in tasks if any(profiles.leaves(task)))
    size = min(order, kinds.total())
    if size <= 1:
        yield from kinds
    elif any(split(kind)[0] for kind in kinds):
        yield from _with_memory(kinds, order)
    elif all(isinstance(leaf, GAUSSIANS) for kind in kinds for leaf in profiles.leaves(kind)):
        squares, exposures = zip(*(gaussian_part(kind) for kind in kinds.elements()), strict=True)
        yield _gaussian_event(sum(sorted(squares)[-size:]), sum(sorted(exposures)[-size:]))
    elif math.comb(len(kinds) + size - 1, size) > _MOST_SUBSETS:
        yield repeat(_dominating(kinds), size)
    else:
        for subset in itertools.combinations_with_replacement(kinds, size):
            if all(times <= kinds[kind] for kind, times in Counter(subset).items()):
                yield events.compose(*subset)


def _with_memory(kinds: Counter[Event], order: int) -> Iterator[Event]:
    """Yields the subsets of tasks without memory, and those with one that has it: all epochs, and n - 1 other tasks."""
    parted = [split(kind) for kind in kinds.elements()]
    others = [rest for held, rest in parted if not held]
    yield from worst_subsets(others, order)
    bundle = epoch_costs.bundled((held for held, _ in parted if held), order)
    beside = list(worst_subsets([rest for _, rest in parted], order - 1)) or [events.Public()]
    for rest in dict.fromkeys(rest for held, rest in parted if held):
        for subset in beside:
            yield events.compose(*bundle, rest, subset)


def _gaussian_event(squares: float, chance: float) -> Event:
    """Returns one Gaussian with these squares (rounded up) beside one exposure."""
    parts: list[Event] = [events.Exposure(chance=min(chance, 1 - 1e-9))] if chance else []
    if squares > events.LARGEST_SQUARES:
        parts.append(events.NonPrivate())
    elif squares:
        parts.append(events.Gaussian(noise_multiplier=(1 - 1e-14) / math.sqrt(squares)))
    return events.compose(*parts) if parts else events.Public()


def _dominating(kinds: Iterable[Event]) -> Event:
    """Returns a task at least as expensive as each kind, mechanism by mechanism.

    Less noise, a higher rate and more steps dominate (a lower rate is a mixture with doing nothing, and divergences are
    convex), and so do a larger epsilon and delta of label selection. Loose, but only for streams of many kinds.
    """
    tasks = [list(profiles.separated(Counter(profiles.leaves(kind))).elements()) for kind in kinds]
    squares, exposures = zip(*(gaussian_part(events.Composed(tuple(leaves))) for leaves in tasks), strict=True)
    parts = [_gaussian_event(max(squares), max(exposures))]
    training = [[leaf for leaf in leaves if isinstance(leaf, events.DpSgd)] for leaves in tasks]
    if any(training):
        parts.append(
            events.DpSgd(
                noise_multiplier=min(leaf.noise_multiplier for leaves in training for leaf in leaves),
                rate=max(leaf.rate for leaves in training for leaf in leaves),
                steps=max(sum(leaf.steps for leaf in leaves) for leaves in training),
            )
        )
    chosen = [[pld.group(leaf) for leaf in leaves if isinstance(leaf, events.LabelSelection)] for leaves in tasks]
    if any(chosen):
        costs = [spent for leaves in chosen for spent in leaves]
        worst = events.OptimalSelection(epsilon=max(e for e, _ in costs), delta=max(d for _, d in costs))
        parts += [worst] * max(len(leaves) for leaves in chosen)
    handled = (*GAUSSIANS, events.Exposure, events.DpSgd, events.LabelSelection)
    parts += [leaf for leaves in tasks for leaf in leaves if not isinstance(leaf, handled)]
    return events.compose(*parts)
