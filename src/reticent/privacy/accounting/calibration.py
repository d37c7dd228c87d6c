"""Budget -> noise: the least noise that keeps one person within the budget, found by search and checked at the end."""

import dataclasses
import math
from collections.abc import Callable

from reticent import errors
from reticent.budget import Adjacency, Budget
from reticent.privacy import events, gaussian, pld, profiles, repeats, selection
from reticent.privacy.accounting.costs import delta_at, in_stream, refuse_fewer_examples, within
from reticent.privacy.accounting.gaussians import gaussian_part, gaussian_sigma, refuse_no_delta
from reticent.privacy.events import Event

# Part of delta that is kept for the exposure of new labels where the two add up; see `planning.joint_gaussian`.
EXPOSURE_SHARE = 0.1


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
    refuse_no_delta(budget)

    def gap(log_noise: float, resolution: float) -> float:
        event = make_event(math.exp(log_noise))
        refuse_fewer_examples(event, budget)
        reached = delta_at(in_stream(event, budget), budget.epsilon, budget.adjacency, resolution)
        # in terms of the mu of a Gaussian with the same delta, the gap is nearly linear in the log of the noise
        mu = gaussian.largest_mu(budget.epsilon, min(max(reached, 1e-300), 1 - 1e-9))
        return math.log(mu) - math.log(allowed) + (0.0 if reached <= budget.delta else 1e-12)

    allowed = gaussian.largest_mu(budget.epsilon, budget.delta)
    rough = _near_root(lambda x: gap(x, pld.COARSE), math.log(guess))
    event = make_event(math.exp(_smallest_within_budget(lambda x: gap(x, pld.FINE), rough)))
    if not within(event, budget):
        raise AssertionError("Calibration overspent its budget. Please report this as a bug.")
    return event


def noise_multiplier(budget: Budget, *, rate: float, steps: int, examples_per_person: int = 1) -> float:
    """Returns the noise multiplier of DP-SGD with Poisson sampling that keeps a task within the budget.

    Args:
        budget: The whole stream's budget.
        rate: Chance that a step sees an example, or a person.
        steps: How many steps.
        examples_per_person: Up to how many examples of a person; more than 1 means that whole persons are sampled.

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
        examples_per_person: Up to how many examples of a person; more than 1 means that whole persons are sampled.

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
    refuse_no_delta(budget)
    # central limit of subsampled Gaussians: mu^2 = steps rate^2 (e^(1/sigma^2) - 1)
    allowed = gaussian.largest_mu(budget.epsilon, budget.delta) ** 2 / budget.tasks_per_person
    left = allowed - gaussian_part(beside)[0]
    if left <= 0:
        raise errors.InvalidValue("Expected a spend that leaves part of the budget for the training beside it.")
    guess = math.log1p(left / (steps * rate**2)) ** -0.5
    event = calibrate(lambda noise: events.compose(beside, make(noise)), budget, guess=guess)
    training = list(profiles.leaves(event))[-1]
    assert isinstance(training, events.DpSgd)  # noqa: S101 (what make returns)
    return training


def private_selection(run: Event, *, mean_runs: float, eta: float = 0.0) -> events.PrivateSelection:
    """Returns the event of keeping the best of a random number of runs with this mean.

    >>> from reticent.privacy import accounting
    >>> event = private_selection(events.Gaussian(noise_multiplier=3.7306317), mean_runs=20)
    >>> round(accounting.epsilon(event, 1e-5), 2)
    2.04
    """
    event = events.PrivateSelection(run=run, eta=eta, gamma=0.5)  # refuses a bad shape before the search
    return dataclasses.replace(event, gamma=repeats.gamma(event.eta, mean_runs))


def _near_root(gap: Callable[[float], float], x: float) -> float:
    """Returns an x near the zero of a falling gap, by secants: where the precise search starts."""
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

    A secant that aims half a tolerance above the root and stays inside the bracket; near the root two or three calls.
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
