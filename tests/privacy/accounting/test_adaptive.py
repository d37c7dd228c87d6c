"""Unlike kinds, each chosen after the releases before it (THEORY 16.1 to 16.3), against integrals written down here."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from reticent import Adjacency, Budget, errors
from reticent.gate.ledger import Ledger
from reticent.privacy import accounting, adaptive, events, gaussian, profiles, sampled, stored_events
from reticent.privacy.accounting.stream import refuse_next
from reticent.privacy.events import Event

BUDGET = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2)
TRAINING = accounting.training_beside(events.Public(), BUDGET, rate=0.01, steps=4)
SCORE = accounting.score(BUDGET, 0.67)


# --- an oracle: two mechanisms, the second chosen by the loss of the first, integrated on a fine grid of outcomes


def curve(kind: Any, epsilons: Any, direction: str) -> Any:
    """Returns the exact delta of one mechanism at any epsilon, negative ones too, in one direction."""
    if isinstance(kind, events.Exposure):  # the person's world has an outcome that the other one lacks
        without = np.maximum(0.0, 1 - np.exp(epsilons)), np.maximum(0.0, 1 - np.exp(epsilons) * (1 - kind.chance))
        return kind.chance + (1 - kind.chance) * without[0] if direction == "remove" else without[1]
    if isinstance(kind, events.DpSgd):
        return (sampled.removed if direction == "remove" else sampled.added)(epsilons, kind.noise_multiplier, kind.rate)
    mu = 1 / kind.noise_multiplier
    return ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons) * ndtr(-mu / 2 - epsilons / mu)


def losses(kind: Any, direction: str) -> tuple[Any, Any]:
    """Returns outcomes' losses and chances of one mechanism; the rest of the mass has infinite loss."""
    if isinstance(kind, events.Exposure):
        if direction == "remove":
            return np.array([math.log1p(-kind.chance)]), np.array([1 - kind.chance])
        return np.array([-math.log1p(-kind.chance)]), np.array([1.0])
    noise, rate = kind.noise_multiplier, getattr(kind, "rate", 1.0)
    x = np.linspace(-12 * noise, 1 + 12 * noise, 200_001)
    absent = np.exp(-((x / noise) ** 2) / 2)
    present = (1 - rate) * absent + rate * np.exp(-(((x - 1) / noise) ** 2) / 2)
    ratio = np.log(present / absent)
    mass = present if direction == "remove" else absent
    return (ratio if direction == "remove" else -ratio), mass / mass.sum()


def worst_strategy(first: Event, seconds: list[Event], epsilon: float) -> float:
    """Returns delta of a first mechanism and then the worst of the others, given the loss so far."""
    found = []
    for direction in ("remove", "add"):
        loss, mass = losses(first, direction)
        then = [curve(kind, epsilon - loss, direction) for kind in seconds] + [np.maximum(0, -np.expm1(epsilon - loss))]
        found.append(float(np.max(then, axis=0) @ mass) + max(0.0, 1 - mass.sum()))
    return float(max(found))


STEP = events.DpSgd(noise_multiplier=0.6, rate=0.01, steps=1)
QUIET = events.Gaussian(noise_multiplier=5.0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_adaptive_choice_is_the_worst_strategy(epsilon):
    exact = max(worst_strategy(first, [STEP, QUIET], epsilon) for first in (STEP, QUIET))
    found = accounting.delta(events.Adaptive((STEP, QUIET), 2), epsilon)
    assert exact * (1 - 1e-6) <= found <= exact * 1.01
    assert accounting.epsilon(events.Adaptive((STEP, QUIET), 2), found) == pytest.approx(epsilon, rel=1e-6)


def test_coins_of_two_kinds_against_all_strategies():
    """Randomised responses have losses +-e and infinity: every tree of choices is tried."""
    kinds = [events.OptimalSelection(epsilon=0.3, delta=1e-4), events.OptimalSelection(epsilon=0.8, delta=1e-6)]

    def value(left: int, loss: float) -> float:
        if not left:
            return max(0.0, 1 - math.exp(1.0 - loss))
        return max(
            k.delta
            + (1 - k.delta)
            * sum(value(left - 1, loss + s * k.epsilon) / (1 + math.exp(-s * k.epsilon)) for s in (1, -1))
            for k in kinds
        )

    for times in (1, 2, 3, 4):
        found = accounting.delta(events.Adaptive(tuple(kinds), times), 1.0)
        assert value(times, 0.0) * (1 - 1e-9) <= found <= value(times, 0.0) * 1.02


def test_unlike_kinds_cost_more_than_any_fixed_subset():
    """The example of THEORY 16.1: every pair is within the budget, and a strategy is not."""
    pairs = itertools.combinations_with_replacement((TRAINING, SCORE), 2)
    assert max(accounting.delta(events.compose(*pair), 1.0) for pair in pairs) <= 1e-5
    stream = [TRAINING, SCORE]
    assert accounting.stream_delta(stream, 1.0, 2) == pytest.approx(1.327e-5, rel=1e-3)
    assert accounting.stream_cost(stream, 1e-5, 2).epsilon == pytest.approx(1.0545, rel=1e-4)
    larger = accounting.score(BUDGET, 0.68)
    assert accounting.stream_cost([TRAINING, larger], 1e-5, 2).epsilon == pytest.approx(1.0564, rel=1e-4)


def test_one_kind_costs_its_composition():
    for times in (1, 2, 5):
        assert accounting.epsilon(events.Adaptive((TRAINING,), times), 1e-5) == pytest.approx(
            accounting.epsilon(events.compose(*[TRAINING] * times), 1e-5), rel=1e-4
        )
    one = accounting.stream_cost([TRAINING] * 4, 1e-5, 3)
    assert one == accounting.cost(events.compose(*[TRAINING] * 3), 1e-5)


def test_many_choices_are_bounded_by_one_kind(monkeypatch):
    event = events.Adaptive((TRAINING, accounting.score(BUDGET, 0.68)), 2)
    exact = accounting.epsilon(event, 1e-5)
    monkeypatch.setattr(adaptive, "_MOST_INDUCTIONS", 1)
    adaptive.worst.cache_clear()
    profiles.of.cache_clear()
    bound = accounting.epsilon(event, 1e-5)
    adaptive.worst.cache_clear()
    profiles.of.cache_clear()
    assert exact < bound == pytest.approx(1.1087, rel=1e-3)  # THEORY 16.1 has 1.111


def test_what_has_no_bound_and_what_renyi_bounds():
    loud = events.Gaussian(noise_multiplier=1e-80)
    assert accounting.delta(events.Adaptive((TRAINING, loud), 2), 1.0) == 1.0
    assert accounting.delta(events.Adaptive((TRAINING, events.NonPrivate()), 2), 1.0) == 1.0
    assert accounting.delta(events.Adaptive((TRAINING, events.Gaussian(noise_multiplier=1e-4)), 2), 1.0) == 1.0
    chosen = accounting.private_selection(events.Gaussian(noise_multiplier=20.0), mean_runs=5)
    both = accounting.epsilon(events.Adaptive((TRAINING, chosen), 2), 1e-5)
    assert both >= max(
        accounting.epsilon(events.compose(*pair), 1e-5) for pair in ((TRAINING, chosen), (chosen, chosen))
    )
    with pytest.raises(errors.UnsupportedEvent):
        stored_events.to_json(events.Adaptive((TRAINING,), 2))


# --- what the ledger lets through


def accepted(budget: Budget, before: list[tuple[str, Event]], kinds: list[Event], task: str = "b") -> list[Event]:
    """Returns the kinds that may follow."""
    found = []
    for kind in kinds:
        try:
            refuse_next(budget, before, task, kind)
        except errors.BudgetExceeded:
            continue
        found.append(kind)
    return found


MU = gaussian.largest_mu(1.0, 1e-5) / math.sqrt(2)
POOL = [
    events.Gaussian(noise_multiplier=(1 + 1e-9) / MU),
    events.Gaussian(noise_multiplier=2 / MU),
    events.Exposure(chance=0.49e-5),
    events.Exposure(chance=1e-7),
    events.DpSgd(noise_multiplier=0.62, rate=0.01, steps=1),
    events.DpSgd(noise_multiplier=0.9, rate=0.1, steps=1),
    accounting.score(BUDGET, 0.6),
]


@pytest.mark.parametrize("score", [None, 0.5])
@pytest.mark.parametrize("same", [False, True])
def test_no_strategy_exceeds_the_budget(score, same):
    """All firsts, then whatever the ledger lets follow: in another task, or (n = 1) on the same one."""
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=1 if same else 2, score_epsilon=score)
    pool = [*POOL, accounting.score(budget, 0.5)]
    several = 0
    for first in accepted(budget, [], pool, task="a"):
        follow = accepted(budget, [("a", first)], pool, task="a" if same else "b")
        assert worst_strategy(first, follow, 1.0) <= 1e-5 * (1 + 1e-6)
        several += len(follow) > 1
    assert several  # some choice is left


def test_fixed_subsets_are_no_filter():
    """The twin: what follows is let through if each pair is within the budget (the rule of reticent 0.1)."""
    worst = 0.0
    for first in POOL:
        follow = [kind for kind in POOL if accounting.delta(events.compose(first, kind), 1.0) <= 1e-5]
        if accounting.delta(events.compose(first, first), 1.0) <= 1e-5:
            worst = max(worst, worst_strategy(first, follow, 1.0))
    assert worst > 1.25e-5


def test_exposures_beside_gaussians_are_reserved():
    """THEORY 16.3: mu / sqrt(2), or an exposure of delta / 2, chosen after the first one."""
    loud, seen = events.Gaussian(noise_multiplier=(1 + 1e-9) / MU), events.Exposure(chance=0.5e-5)
    assert worst_strategy(loud, [loud, seen], 1.0) == pytest.approx(1.44e-5, rel=0.01)
    assert accounting.stream_delta([loud, seen] * 2, 1.0, 2) > 1.9e-5
    assert accepted(BUDGET, [("a", loud)], [loud, seen]) == [loud]
    assert accepted(BUDGET, [("a", seen)], [loud, seen]) == [seen]


def test_scores_after_training_are_reserved_before_it():
    with Ledger.create(None, BUDGET) as ledger:
        ledger.spend(TRAINING, task="march", private=True)
        with pytest.raises(errors.NotReserved, match="score_epsilon"):
            ledger.spend(accounting.score(BUDGET, 0.1), task="scores", private=True)
        ledger.spend(TRAINING, task="april", private=True)
        with pytest.raises(errors.NotReserved, match="one spend for each task"):
            ledger.spend(events.DpSgd(noise_multiplier=5.0, rate=0.02, steps=1), task="may", private=True)
        assert ledger.spend(events.DpSgd(noise_multiplier=2.0, rate=0.01, steps=1), task="may", private=True)
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2, score_epsilon=0.68)
    training = accounting.training_beside(events.Public(), budget, rate=0.01, steps=4)
    assert training.noise_multiplier > TRAINING.noise_multiplier
    with Ledger.create(None, budget) as ledger:
        with pytest.raises(errors.BudgetExceeded):  # within without the score, not with it
            ledger.spend(TRAINING, task="march", private=True)
        for task in ("march", "april"):
            ledger.spend(training, task=task, private=True)
        for epsilon in (0.1, 0.68):
            ledger.spend(accounting.score(budget, epsilon), task=f"scores at {epsilon}", private=True)
        with pytest.raises(errors.BudgetExceeded):
            ledger.spend(accounting.score(budget, 0.69), task="more", private=True)
        with pytest.raises(errors.BudgetExceeded):
            ledger.spend(accounting.score(budget, 0.1), task="march", private=True)
        assert ledger.statement().epsilon <= 1.0


def test_voiding_the_first_spend_chooses_nothing_anew():
    """What may follow is fixed before any release: else whoever voids could choose it by what a release shows."""
    loud, both = events.Gaussian(noise_multiplier=(1 + 1e-9) / MU), events.Exposure(chance=0.2e-5)
    louder = events.compose(both, events.Gaussian(noise_multiplier=1.2 / MU))
    with Ledger.create(None, BUDGET) as ledger:
        first = ledger.spend(louder, task="a", private=True)
        ledger.spend(events.Gaussian(noise_multiplier=1.01 / MU), task="b", private=True)
        ledger.void(first, reason="it failed")
        with pytest.raises(errors.BudgetExceeded, match="than the first spend left beside it"):
            ledger.spend(loud, task="c", private=True)
    with Ledger.create(None, BUDGET) as ledger:  # nothing else was there: what is first begins anew
        ledger.void(ledger.spend(louder, task="a", private=True), reason="it failed")
        ledger.spend(events.Gaussian(noise_multiplier=1.01 / MU), task="b", private=True)
        assert ledger.spend(loud, task="c", private=True)
    with Ledger.create(None, BUDGET) as ledger:  # and of other kinds
        first = ledger.spend(TRAINING, task="a", private=True)
        quieter = events.DpSgd(noise_multiplier=2 * TRAINING.noise_multiplier, rate=0.01, steps=4)
        ledger.spend(quieter, task="b", private=True)
        ledger.void(first, reason="it failed")
        with pytest.raises(errors.NotReserved):
            ledger.spend(quieter, task="b", private=True)


def test_a_reserved_score_fits_the_budget_by_itself():
    most = gaussian.epsilon(gaussian.largest_mu(1.0, 1e-5) / math.sqrt(2), 1e-5)
    Ledger.create(None, Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2, score_epsilon=most * (1 - 1e-9))).close()
    with pytest.raises(errors.InvalidValue, match=r"at most 0.68\d\d, got 0.7: a person may be in 2 scores"):
        Ledger.create(None, Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2, score_epsilon=0.7))
    with pytest.raises(errors.InvalidValue, match="replace-one"):
        Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE, score_epsilon=0.5)


def test_replace_one_takes_the_worst_strategy_too():
    kinds = (
        events.Gaussian(noise_multiplier=9.0),
        events.compose(events.OptimalSelection(epsilon=0.1, delta=1e-6), QUIET),
    )
    event = events.Adaptive(kinds, 2)
    doubled = accounting.delta(event, 1.0, adjacency=Adjacency.REPLACE_ONE)
    exact = max(
        accounting.delta(events.compose(*pair), 1.0, adjacency=Adjacency.REPLACE_ONE)
        for pair in itertools.combinations_with_replacement(kinds, 2)
    )
    assert exact * (1 - 1e-9) <= doubled <= 3 * exact
