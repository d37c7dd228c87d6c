"""What one person loses over a stream of tasks, whichever of them they are in, and which spend may follow which.

A person is in up to n tasks, and which they enter next, and what these spend, may follow from earlier releases. So the
most expensive fixed subset of tasks is a bound for n = 1, for tasks of one kind, and for Gaussians, whose squares and
exposures add up on every path (THEORY 12); for unlike kinds it is too little, see `events.Adaptive`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from reticent import errors
from reticent.budget import Adjacency, Budget
from reticent.privacy import epoch_costs, events, gaussian, pld, profiles
from reticent.privacy.accounting.costs import Cost, cost, delta, delta_at, repeat, split, within
from reticent.privacy.accounting.gaussians import all_gaussian, gaussian_part, score
from reticent.privacy.events import Event
from reticent.privacy.rounding import exact, rounded_down


def stream_delta(
    tasks: Sequence[Event], epsilon: float, order: int, *, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
) -> float:
    """Returns delta of a stream in which one person may appear in up to `order` tasks: the worst case."""
    worst = worst_cases(tasks, order)
    return max((delta(event, epsilon, adjacency=adjacency) for event in worst), default=0.0)


def stream_cost(tasks: Sequence[Event], delta: float, order: int) -> Cost:
    """Returns epsilon of a stream in which one person may appear in up to `order` tasks: the worst case.

    >>> stream_cost([events.Gaussian(noise_multiplier=4.0)] * 9, 1e-5, 1) == cost(
    ...     events.Gaussian(noise_multiplier=4.0), 1e-5)
    True
    """
    costs = [cost(event, delta) for event in worst_cases(tasks, order)]
    if not costs:
        return Cost(0.0, 0.0, True)
    return Cost(
        max(c.epsilon for c in costs), max(c.replace_one for c in costs), all(c.replace_one_is_tight for c in costs)
    )


def worst_cases(tasks: Sequence[Event], order: int) -> Iterator[Event]:
    """Yields events of which the worst is what one person in up to `order` of these tasks may go through.

    Gaussians and joint releases need no search: the n largest 1/sigma^2 and the n largest exposures bound every path.
    Tasks with memory are one event for all of them, beside what else n tasks spend.

    Guarantees:
      - Covers every strategy, also where kinds differ.    test_unlike_kinds_cost_more_than_any_fixed_subset
    """
    kinds = Counter(task for task in tasks if any(profiles.leaves(task)))
    size = min(order, kinds.total())
    if size <= 1:
        yield from kinds
    elif not all(map(all_gaussian, kinds)):
        remembered = any(split(kind)[0] for kind in kinds)  # beside what is not Gaussian: no proof
        several = repeat(next(iter(kinds)), size) if len(kinds) == 1 else events.Adaptive(tuple(kinds), size)
        yield events.NonPrivate() if remembered else several
    elif any(split(kind)[0] for kind in kinds):
        yield from _with_memory(kinds, order)
    else:
        squares, exposures = zip(*(gaussian_part(kind) for kind in kinds.elements()), strict=True)
        yield _gaussian_event(sum(sorted(squares)[-size:]), sum(sorted(exposures)[-size:]))


def _with_memory(kinds: Counter[Event], order: int) -> Iterator[Event]:
    """Yields the cases of tasks without memory, and those with one that has it: all epochs, and n - 1 other tasks."""
    parted = [split(kind) for kind in kinds.elements()]
    others = [rest for held, rest in parted if not held]
    yield from worst_cases(others, order)
    bundle = epoch_costs.bundled((held for held, _ in parted if held), order)
    beside = list(worst_cases([rest for _, rest in parted], order - 1)) or [events.Public()]
    for rest in dict.fromkeys(rest for held, rest in parted if held):
        for subset in beside:
            yield events.compose(*bundle, rest, subset)


def _gaussian_event(squares: float, chance: float) -> Event:
    """Returns one Gaussian with these squares (rounded up) beside one exposure."""
    parts: list[Event] = [events.Exposure(chance=min(chance, 1 - 1e-9))] if chance else []
    if squares > events.LARGEST_SQUARES:
        parts.append(events.NonPrivate())
    elif squares:
        parts.append(events.Gaussian(noise_multiplier=(1 - 1e-14) / squares**0.5))
    return events.compose(*parts) if parts else events.Public()


# --- which spend may follow which


def refuse_costly_score(budget: Budget) -> None:
    """Refuses a budget that reserves a score too large for persons who are in as many scores as in tasks."""
    if budget.score_epsilon is None or within(score(budget, budget.score_epsilon), budget):
        return
    mu = gaussian.largest_mu(budget.epsilon, budget.delta) / budget.tasks_per_person**0.5
    raise errors.InvalidValue(
        f"Expected score_epsilon of at most {rounded_down(gaussian.epsilon(mu, budget.delta))}, got "
        f"{budget.score_epsilon:g}: a person may be in {budget.tasks_per_person:,} scores."
    )


def refuse_next(
    budget: Budget, spends: Sequence[tuple[str, Event]], task: str, event: Event, leading: Event | None = None
) -> None:
    """Refuses a spend after which a person could lose more than the budget, whatever later spends follow from releases.

    Spends that may touch one person are those of the task and, where a person is in several tasks, all. They are

    - this one alone: it must be within the budget, n times over;
    - Gaussian, all of them: squares and exposures of the n largest tasks stay below two numbers, which the first spend
      fixes: n times its exposure, and the squares that the budget leaves beside it. Kinds may follow from releases;
    - of one kind: n tasks with as many spends as any has;
    - of unlike kinds: the first one, and a private score if the budget reserves one, or less of either; one for each
      task. `within` has asked for the worst strategy with these when the first was spent. Anything else could have been
      chosen for what releases show.

    Guarantees:
      - A strategy that the ledger lets through never exceeds the budget.        test_no_strategy_exceeds_the_budget

    Args:
        budget: What one person may lose over the whole stream.
        spends: What was spent before and not voided, in order, with the names of tasks.
        task: Of this spend.
        event: This spend.
        leading: The first of those that may touch one person, also where it was voided since; by default of spends.
    """
    n = budget.tasks_per_person
    mine = [spent for name, spent in spends if name == task]
    if not within(events.compose(*mine, event), budget):
        raise errors.BudgetExceeded(
            f"Task {task!r} would cost more than the budget of epsilon {exact(budget.epsilon)}, delta "
            f"{exact(budget.delta)} allows one person; nothing was spent. Use more noise, or a new task name if these "
            "are data of other persons."
        )
    scope = [(name, spent) for name, spent in spends if n > 1 or name == task]
    if not scope:
        return
    tasks = _by_task([*scope, (task, event)])
    before = [leading or scope[0][1], *(spent for _, spent in scope)]
    if all(map(all_gaussian, (*before, event))):
        kept = sum([gaussian_part(before[0])[1]] * n)
        parts = [gaussian_part(case) for case in worst_cases(tasks, n)]
        if all(chance <= kept and _fits(squares, kept, budget) for squares, chance in parts):
            return
        reason = "its Gaussians, or what it exposes of new labels, are more than the first spend left beside it"
    elif {*before} == {event} and budget.score_epsilon is None:
        if stream_delta(tasks, budget.epsilon, n, adjacency=budget.adjacency) <= budget.delta:
            return
        reason = "it is one spend too many for a task"
    else:
        reserved = [] if budget.score_epsilon is None else [score(budget, budget.score_epsilon)]
        if not mine and any(covers(kind, event) for kind in [before[0], *reserved]):
            return
        raise errors.NotReserved(
            f"Nothing was spent on task {task!r}: beside noise that is not Gaussian, what one person may go through "
            "must be fixed before the first task. That is one spend for each task, like the first, and private scores "
            "of at most Budget(score_epsilon=...), --score-epsilon, where one was stated."
        )
    raise errors.BudgetExceeded(
        f"Task {task!r} could cost a person in {n:,} task(s) more than the budget of epsilon {exact(budget.epsilon)}, "
        f"delta {exact(budget.delta)}; nothing was spent: {reason}."
    )


def covers(kind: Event, event: Event) -> bool:
    """Returns whether an event is of a kind, or the same mechanisms with more noise, less sampling or fewer steps.

    >>> covers(events.Gaussian(noise_multiplier=4.0), events.Gaussian(noise_multiplier=5.0))
    True
    """
    pairs = list(profiles.leaves(kind)), list(profiles.leaves(event))
    return len(pairs[0]) == len(pairs[1]) and all(map(_covers, *pairs))


def _covers(one: Event, other: Event) -> bool:
    match one, other:
        case events.Gaussian(), events.Gaussian():
            return gaussian_part(other) <= gaussian_part(one)
        case events.DpSgd(), events.DpSgd():  # a lower rate is a mixture with doing nothing, and divergences are convex
            quieter = other.noise_multiplier >= one.noise_multiplier
            return quieter and other.rate <= one.rate and other.steps <= one.steps
    return one == other


def _by_task(spends: Sequence[tuple[str, Event]]) -> list[Event]:
    """Returns what each task spent."""
    parts: dict[str, list[Event]] = {}
    for task, event in spends:
        parts.setdefault(task, []).append(event)
    return [events.compose(*spent) for spent in parts.values()]


def _fits(squares: float, chance: float, budget: Budget) -> bool:
    event = _gaussian_event(squares, chance)
    return delta_at(event, budget.epsilon, budget.adjacency, pld.FINE) <= budget.delta
