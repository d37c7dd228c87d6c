"""Event -> epsilon or delta; budget -> noise. Sees descriptions only, never data.

Answers never under-report: closed forms are checked in high precision, compositions use dominating privacy loss
distributions with their rounding error added, and calibration asserts its result against the budget.
"""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from reticent import errors
from reticent.budget import Adjacency, Budget
from reticent.privacy import events, gaussian, pld, profiles, repeats, selection
from reticent.privacy.events import Event

_MOST_SUBSETS = 16
_GAUSSIANS = (events.Gaussian, events.JointGaussian, events.LabelCounts)
# Part of delta that pays for exposure where it adds to the rest, as in `planning.joint_gaussian`.
EXPOSURE_SHARE = 0.1


class Cost(NamedTuple):
    """What an event costs at one delta, under both adjacencies."""

    epsilon: float
    replace_one: float
    replace_one_is_tight: bool


def cost(event: Event, delta: float) -> Cost:
    """Returns epsilon under add-or-remove-one, and under replace-one with a word on how tight that is.

    >>> cost(events.Gaussian(noise_multiplier=4.0), 1e-5).replace_one_is_tight
    True
    """
    replaced = epsilon(event, delta, adjacency=Adjacency.REPLACE_ONE)
    return Cost(epsilon(event, delta), replaced, _replacement(event) is not None)


def delta(event: Event, epsilon: float, *, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE) -> float:
    """Returns the smallest provable delta at this epsilon, rounded up.

    >>> delta(events.NonPrivate(), 3.0)
    1.0
    """
    epsilon = errors.real("epsilon", epsilon, above=0, below=math.inf, at_least=True)
    return _delta(event, epsilon, adjacency, pld.FINE)


def epsilon(event: Event, delta: float, *, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE) -> float:
    """Returns the smallest provable epsilon at this delta, rounded up; infinity where there is none.

    >>> round(epsilon(events.Gaussian(noise_multiplier=3.730632), 1e-5), 4)
    1.0
    """
    target = errors.real("delta", delta, above=0, below=1, at_least=True)
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        return profiles.of(event).epsilon(target)
    return profiles.smallest_epsilon(lambda e: _delta(event, e, adjacency, pld.FINE), target)


def repeat(event: Event, times: int) -> Event:
    """Returns the event of the same spend several times.

    >>> repeat(events.Public(), 2)
    Composed(parts=(Public(), Public()))
    """
    return events.compose(*[event] * times)


def within(event: Event, budget: Budget) -> bool:
    """Says whether a person may go through this event in as many tasks as the budget assumes."""
    refuse_fewer_examples(event, budget)
    return _delta(repeat(event, budget.tasks_per_person), budget.epsilon, budget.adjacency, pld.FINE) <= budget.delta


def refuse_fewer_examples(event: Event, budget: Budget) -> None:
    """Refuses an event that was described for fewer examples per person than the budget assumes."""
    for leaf in profiles.leaves(event):
        if isinstance(leaf, events.PrivateSelection):
            refuse_fewer_examples(leaf.run, budget)
        described = getattr(leaf, "examples_per_person", budget.examples_per_person)
        if described < budget.examples_per_person:
            trained = isinstance(leaf, events.DpSgd | events.LabelledTraining)
            way = " DP-SGD must sample whole persons and clip the sum of each one's gradients; then say so."
            raise errors.InvalidValue(
                f"Expected an event for {budget.examples_per_person} examples per person, as the budget says; "
                f"got one for {described}.{way if trained else ''}"
            )


def calibrate(make_event: Callable[[float], Event], budget: Budget, *, guess: float = 1.0) -> Event:
    """Returns the event with the least noise that keeps one person within the budget over the whole stream.

    Guarantees:
      - The returned event is within the budget; asserted after the search.   test_calibration_never_overspends
      - The noise per task is fixed by (budget, tasks_per_person) alone.

    Args:
        make_event: From a noise level to what one task spends; more noise must cost less.
        budget: The whole stream's budget.
        guess: Where to start the search; changes speed only.

    Example:
        >>> event = calibrate(lambda s: events.Gaussian(noise_multiplier=s), Budget(epsilon=1.0, delta=1e-5))
        >>> round(event.noise_multiplier, 3)
        3.731
    """
    if budget.delta == 0:
        raise errors.InvalidValue("Expected delta > 0: Gaussian noise satisfies no budget with delta = 0.")

    def gap(log_noise: float, resolution: float) -> float:
        event = make_event(math.exp(log_noise))
        refuse_fewer_examples(event, budget)
        spent = repeat(event, budget.tasks_per_person)
        reached = _delta(spent, budget.epsilon, budget.adjacency, resolution)
        # measured as the mu of a Gaussian with the same delta, the gap is nearly a straight line
        alike = gaussian.largest_mu(budget.epsilon, min(max(reached, 1e-300), 1 - 1e-9))
        return math.log(alike) - math.log(allowed) + (0.0 if reached <= budget.delta else 1e-12)

    allowed = gaussian.largest_mu(budget.epsilon, budget.delta)
    rough = _near_root(lambda x: gap(x, pld.COARSE), math.log(guess))
    event = make_event(math.exp(_smallest_within_budget(lambda x: gap(x, pld.FINE), rough)))
    if not within(event, budget):
        raise AssertionError("Calibration overspent its budget. Please report this as a bug.")
    return event


def gaussian_sigma(budget: Budget) -> float:
    """Returns the noise on a sum of unit vectors that a task may publish under this budget.

    >>> round(gaussian_sigma(Budget(epsilon=1.0, delta=1e-5)), 4)
    3.7306
    """
    if budget.delta == 0:
        raise errors.InvalidValue("Expected delta > 0: Gaussian noise satisfies no budget with delta = 0.")
    doubled = 2 if budget.adjacency is Adjacency.REPLACE_ONE else 1
    sensitivity = doubled * budget.examples_per_person * math.sqrt(budget.tasks_per_person)
    return sensitivity / gaussian.largest_mu(budget.epsilon, budget.delta) * (1 + 1e-12)


def noise_multiplier(budget: Budget, *, rate: float, steps: int, examples_per_person: int = 1) -> float:
    """Returns the noise multiplier of DP-SGD with Poisson sampling that keeps a task within the budget.

    Args:
        budget: The whole stream's budget.
        rate: Chance that a step sees an example, or a person.
        steps: How many steps.
        examples_per_person: Up to how many examples of a person; more than 1 says that whole persons are sampled.

    >>> round(noise_multiplier(Budget(epsilon=1.0, delta=1e-5), rate=0.1, steps=400), 2)
    7.57
    """
    beside = events.Public()
    event = training_beside(beside, budget, rate=rate, steps=steps, examples_per_person=examples_per_person)
    return event.noise_multiplier


def labelled_training(
    budget: Budget, *, count_weight: float, rate: float, steps: int, examples_per_person: int = 1
) -> events.LabelledTraining:
    """Returns a task's count release and the DP-SGD that follows it, with the least noise on training.

    Guarantees:
      - The event is within the budget; asserted at the end.   test_labelled_training_never_overspends

    Args:
        budget: The whole stream's budget.
        count_weight: Share of the squared mu of a Gaussian within the budget that pays for the counts.
        rate: Chance that a step sees an example, or a person.
        steps: How many steps.
        examples_per_person: Up to how many examples of a person; more than 1 says that whole persons are sampled.

    Example:
        >>> event = labelled_training(Budget(epsilon=1.0, delta=1e-5), count_weight=0.1, rate=0.1, steps=100)
        >>> round(event.counts.threshold, 1), round(event.training.noise_multiplier, 2)
        (51.3, 4.13)
    """
    events.refuse_zero_delta(budget.delta)
    weight = errors.real("count_weight", count_weight, above=0, below=1)
    m, kept = examples_per_person, 0.0 if budget.tasks_per_person == examples_per_person == 1 else EXPOSURE_SHARE
    part = budget
    if budget.adjacency is Adjacency.REPLACE_ONE:  # what each of two steps must keep
        half, each = budget.epsilon / 2, budget.delta / (1 + math.exp(budget.epsilon / 2)) * (1 - 1e-12)
        part = dataclasses.replace(budget, epsilon=half, delta=each, adjacency=Adjacency.ADD_OR_REMOVE_ONE)
    rest = dataclasses.replace(part, delta=part.delta * (1 - kept))
    noise = gaussian_sigma(dataclasses.replace(rest, examples_per_person=m)) / math.sqrt(weight)
    counts = events.Gaussian(noise_multiplier=noise, examples_per_person=m)
    # a person has at most m new labels with at most m examples each
    exposure = part.delta * (kept or 1.0) * (1 - 1e-9) / (budget.tasks_per_person * m)
    threshold = m - 1 + selection.gaussian_threshold(noise, 1.0, exposure)
    event = events.LabelledTraining(
        counts=events.LabelCounts(noise_multiplier=noise, threshold=threshold, examples_per_person=m),
        training=training_beside(counts, rest, rate=rate, steps=steps, examples_per_person=m),
    )
    if not within(event, budget):
        raise AssertionError("Calibration overspent its budget. Please report this as a bug.")
    return event


def training_beside(
    beside: Event, budget: Budget, *, rate: float, steps: int, examples_per_person: int = 1
) -> events.DpSgd:
    """Returns DP-SGD with the least noise that stays within the budget beside another spend of the same task."""

    def make(noise: float) -> events.DpSgd:
        return events.DpSgd(noise_multiplier=noise, rate=rate, steps=steps, examples_per_person=examples_per_person)

    refuse_fewer_examples(make(1.0), budget)  # and a bad rate or step count, before the search
    if budget.delta == 0:
        raise errors.InvalidValue("Expected delta > 0: Gaussian noise satisfies no budget with delta = 0.")
    # central limit of subsampled Gaussians: mu^2 = steps rate^2 (e^(1/sigma^2) - 1)
    allowed = gaussian.largest_mu(budget.epsilon, budget.delta) ** 2 / budget.tasks_per_person
    guess = math.log1p((allowed - _gaussian_part(beside)[0]) / (steps * rate**2)) ** -0.5
    event = calibrate(lambda noise: events.compose(beside, make(noise)), budget, guess=guess)
    training = list(profiles.leaves(event))[-1]
    assert isinstance(training, events.DpSgd)  # noqa: S101 (what make returns)
    return training


def private_selection(run: Event, *, mean_runs: float, eta: float = 0.0) -> events.PrivateSelection:
    """Returns the event of keeping the best of a random number of runs with this mean.

    >>> event = private_selection(events.Gaussian(noise_multiplier=3.7306317), mean_runs=20)
    >>> round(epsilon(event, 1e-5), 2)
    2.04
    """
    event = events.PrivateSelection(run=run, eta=eta, gamma=0.5)  # refuses a bad shape before the search
    return dataclasses.replace(event, gamma=repeats.gamma(event.eta, mean_runs))


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
    search: the n largest 1/sigma^2 and the n largest exposures bound every subset.
    """
    kinds = Counter(task for task in tasks if any(profiles.leaves(task)))
    size = min(order, kinds.total())
    if size <= 1:
        yield from kinds
    elif all(isinstance(leaf, _GAUSSIANS) for kind in kinds for leaf in profiles.leaves(kind)):
        squares, exposures = zip(*(_gaussian_part(kind) for kind in kinds.elements()), strict=True)
        yield _gaussian_event(sum(sorted(squares)[-size:]), sum(sorted(exposures)[-size:]))
    elif math.comb(len(kinds) + size - 1, size) > _MOST_SUBSETS:
        yield repeat(_dominating(kinds), size)
    else:
        for subset in itertools.combinations_with_replacement(kinds, size):
            if all(times <= kinds[kind] for kind, times in Counter(subset).items()):
                yield events.compose(*subset)


def _gaussian_part(task: Event) -> tuple[float, float]:
    """Returns sum (m/sigma)^2 and the sum of exposures over the Gaussians and joint releases of a task."""
    squares = chance = 0.0
    for leaf in profiles.leaves(task):
        if isinstance(leaf, _GAUSSIANS):
            squares += (leaf.examples_per_person / leaf.noise_multiplier) ** 2
        if isinstance(leaf, events.JointGaussian | events.LabelCounts):
            chance += selection.GaussianLaw(leaf).exposures(leaf.examples_per_person)[-1]
        if isinstance(leaf, events.Exposure):
            chance += leaf.chance
    return squares, chance


def _gaussian_event(squares: float, chance: float) -> Event:
    """Returns one Gaussian with these squares (rounded up) beside one exposure."""
    parts: list[Event] = [events.Exposure(chance=min(chance, 1 - 1e-9))] if chance else []
    if squares:
        parts.append(events.Gaussian(noise_multiplier=(1 - 1e-14) / math.sqrt(squares)))
    return events.compose(*parts) if parts else events.Public()


def _dominating(kinds: Iterable[Event]) -> Event:
    """Returns a task at least as expensive as each kind, mechanism by mechanism.

    Less noise, a higher rate and more steps dominate (a lower rate is a mixture with doing nothing, and divergences are
    convex), and so do a larger epsilon and delta of label selection. Loose, but only for streams of many kinds.
    """
    tasks = [list(profiles.separated(Counter(profiles.leaves(kind))).elements()) for kind in kinds]
    squares, exposures = zip(*(_gaussian_part(events.Composed(tuple(leaves))) for leaves in tasks), strict=True)
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
    handled = (*_GAUSSIANS, events.Exposure, events.DpSgd, events.LabelSelection)
    parts += [leaf for leaves in tasks for leaf in leaves if not isinstance(leaf, handled)]
    return events.compose(*parts)


def _delta(event: Event, epsilon: float, adjacency: Adjacency, resolution: float) -> float:
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        return profiles.of(event, resolution).delta(epsilon)
    tight = _replacement(event)
    if tight is not None:
        return tight(epsilon)
    # one removal, then one addition: (epsilon/2, d) twice gives (epsilon, (1 + e^(epsilon/2)) d)
    return min(1.0, (1 + math.exp(min(epsilon / 2, 700.0))) * profiles.of(event, resolution).delta(epsilon / 2))


def _replacement(event: Event) -> Callable[[float], float] | None:
    """Returns the tight replace-one curve where a formula exists: Gaussians, and one joint Gaussian.

    A replaced example of a known label moves the sum by up to 2 (known labels carry no count, so a = 1), whatever
    the weight of unknown labels. For subsampled steps no proof that opposite gradients are the worst is known to us.
    """
    leaves = list(profiles.leaves(event))
    if all(isinstance(leaf, events.Gaussian) for leaf in leaves):
        return profiles.PlainGaussian(2 * math.sqrt(_gaussian_part(event)[0])).delta
    if isinstance(event, events.JointGaussian) and event.examples_per_person == 1:
        mu, chance = 1 / event.noise_multiplier, selection.GaussianLaw(event).exposures(1)[1]
        moved, new = profiles.PlainGaussian(2 * mu), profiles.Exposed(profiles.PlainGaussian(mu), chance)
        return lambda epsilon: max(moved.delta(epsilon), new.delta(epsilon))
    return None


def _near_root(gap: Callable[[float], float], x: float) -> float:
    """Returns an x near which a falling gap crosses zero, by secants; good enough to start from."""
    slope, before = -1.0, (math.nan, math.nan)
    for _ in range(60):
        value = gap(x)
        if value != before[1] and not math.isnan(before[0]):
            slope = min(max((value - before[1]) / (x - before[0]), -10.0), -0.3)
        before, x = (x, value), x - max(-1.0, min(1.0, value / slope))
        if abs(value) < 0.02:
            break
    return x


def _smallest_within_budget(gap: Callable[[float], float], start: float, *, tolerance: float = 5e-5) -> float:
    """Returns the smallest x with gap(x) <= 0, to the tolerance and from above; gap falls with x.

    A secant aimed a hair to the safe side, kept inside the bracket; near the root two or three calls.
    """
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    x, slope = start, -1.0
    for _ in range(200):
        value = gap(x)
        if value <= 0:
            high = (x, value)
        else:
            low = (x, value)
        if low and high:
            slope = min((high[1] - low[1]) / (high[0] - low[0]), -1e-9)
        if high and (-high[1] <= -slope * tolerance or (low and high[0] - low[0] <= tolerance)):
            return high[0]
        at, height = high or (x, value)
        x = at + max(-1.0, min(1.0, (height - slope * tolerance / 2) / -slope))
        if low and high and not low[0] < x < high[0]:
            x = (low[0] + high[0]) / 2
    raise errors.InvalidValue("No noise level reaches this budget. Raise epsilon or delta.")
