import dataclasses
import itertools
import math

import pytest
from scipy.stats import norm

from reticent import Adjacency, Budget, errors
from reticent.privacy import accounting, epoch_costs, events, gaussian, replacing
from reticent.privacy.correlation import Correlation
from reticent.privacy.events import Remembered
from reticent.privacy.statement import Spend, Statement

BUDGET = Budget(epsilon=1.0, delta=1e-5)
PUBLIC = accounting.remembered(BUDGET, epoch=1)
GATHERED = accounting.remembered(BUDGET, epoch=1, horizon=12, count_weight=0.2)
OTHER = events.Gaussian(noise_multiplier=9.0)


def next_epoch(event: Remembered) -> Remembered:
    return dataclasses.replace(event, epoch=event.epoch + 1)


# --- one event for a whole epoch


def test_an_epoch_costs_one_gaussian_and_its_looks():
    assert accounting.delta(PUBLIC, 1.0) == pytest.approx(gaussian.delta(1 / PUBLIC.noise_multiplier, 1.0), rel=1e-12)
    p1 = 23 * norm.sf(GATHERED.deviations)
    assert epoch_costs.chance(GATHERED) == pytest.approx(p1, rel=1e-9)
    assert epoch_costs.chance(GATHERED) >= p1 * (1 - 1e-12)
    assert epoch_costs.chance(PUBLIC) == 0
    expected = gaussian.delta(1 / GATHERED.noise_multiplier, 1.0) + p1  # the sum: the maximum does not hold here
    assert accounting.delta(GATHERED, 1.0) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("event", [PUBLIC, GATHERED], ids=["public", "gathered"])
def test_tasks_of_one_person_each_cost_the_worst_epoch(event):
    stream = [event] * 7 + [next_epoch(event)] * 3
    assert accounting.stream_cost(stream, 1e-5, 1) == accounting.cost(event, 1e-5)
    assert accounting.stream_delta(stream, 1.0, 1) <= BUDGET.delta


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_epochs_never_overspend(n, m, adjacency):
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=n, examples_per_person=m, adjacency=adjacency)
    event = accounting.remembered(budget, epoch=1)
    assert accounting.within(event, budget)
    assert not accounting.within(dataclasses.replace(event, noise_multiplier=event.noise_multiplier * 0.999), budget)
    stream = [event] * 9 + [next_epoch(event)] * 9
    assert accounting.stream_delta(stream, 1.0, n, adjacency=adjacency) <= budget.delta
    doubled = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    mu = m * doubled * Correlation(1, 120).gamma(n) / event.noise  # what a person in the first n tasks moves
    assert gaussian.delta(mu * (1 - 1e-12), 1.0) <= budget.delta <= gaussian.delta(mu * (1 + 1e-9), 1.0)


def test_persons_in_more_tasks_than_the_noise_was_made_for_pay_for_them():
    """An event made for one task, and a person in three: the first three columns move more than one."""
    gamma = [Correlation(2, 120).gamma(n) for n in (1, 3)]
    mu = gamma[1] / gamma[0] / PUBLIC.noise_multiplier
    found = accounting.stream_cost([PUBLIC] * 9, 1e-5, 3).epsilon
    assert found == pytest.approx(gaussian.epsilon(mu, 1e-5), rel=1e-9)
    assert found > accounting.epsilon(events.compose(*[events.Gaussian(noise_multiplier=3.7306)] * 3), 1e-5)
    assert accounting.within(PUBLIC, BUDGET)
    assert not accounting.within(PUBLIC, dataclasses.replace(BUDGET, tasks_per_person=2))
    many = accounting.stream_delta([PUBLIC] * 200, 1.0, 100)
    assert many >= gaussian.delta(Correlation(2, 120).gamma(100) / PUBLIC.noise, 1.0)


@pytest.mark.parametrize("eighths", [1, 2, 4])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_streams_of_epochs_cover_every_placement(eighths, n):
    """All ways to be in n tasks of two epochs of three and two rows, whatever was stated of tasks per person."""
    event = Remembered(noise_multiplier=3.0, epoch=1, eighths=eighths, horizon=3, tasks_per_person=1)
    columns = [[event.correlation.coefficients[: 3 - s] / 256 for s in range(3)]] * 2
    worst = 0.0
    for chosen in itertools.combinations([(e, s) for e in (0, 1) for s in range(3 - e)], n):
        moved = 0.0
        for e in (0, 1):
            total = [sum(columns[e][s][t - s] for f, s in chosen if f == e and s <= t) for t in range(3)]
            moved += sum(float(x) ** 2 for x in total)
        worst = max(worst, math.sqrt(moved))
    stream = [event] * 3 + [next_epoch(event)] * 2
    assert accounting.stream_delta(stream, 0.5, n) >= gaussian.delta(worst / event.noise * (1 - 1e-12), 0.5)


def test_epochs_beside_other_tasks_count_once():
    stream = [PUBLIC] * 5 + [OTHER] * 4
    gamma = Correlation(2, 120).gamma
    mu = math.hypot(gamma(3) / gamma(1) / PUBLIC.noise_multiplier, math.sqrt(2) / 9.0)
    assert accounting.stream_cost(stream, 1e-5, 3).epsilon == pytest.approx(gaussian.epsilon(mu, 1e-5), rel=1e-9)
    assert accounting.stream_cost(stream, 1e-5, 1) == accounting.cost(PUBLIC, 1e-5)
    both = events.compose(PUBLIC, OTHER)  # a task that spends on its rows and on something else
    mu = math.hypot(gamma(2) / gamma(1) / PUBLIC.noise_multiplier, math.sqrt(2) / 9.0)
    assert accounting.stream_cost([both] * 5, 1e-5, 2).epsilon == pytest.approx(gaussian.epsilon(mu, 1e-5), rel=1e-9)
    assert accounting.stream_cost([both] * 5, 1e-5, 1) == accounting.cost(both, 1e-5)


def test_other_settings_are_another_event():
    louder = dataclasses.replace(PUBLIC, noise_multiplier=8.0, epoch=2)
    found = accounting.stream_cost([PUBLIC] * 2 + [louder] * 2, 1e-5, 2).epsilon
    assert found > accounting.stream_cost([PUBLIC] * 4, 1e-5, 2).epsilon


# --- what has no proof


def test_two_rows_of_a_person_in_one_task_move_the_same_noise():
    """The same persons learned twice under one name: what they move adds up before it is squared."""
    twice = events.compose(PUBLIC, PUBLIC)
    assert accounting.epsilon(twice, 1e-5) == pytest.approx(gaussian.epsilon(2 / PUBLIC.noise_multiplier, 1e-5))
    two_epochs = events.compose(PUBLIC, next_epoch(PUBLIC))
    independent = gaussian.epsilon(math.sqrt(2) / PUBLIC.noise_multiplier, 1e-5)
    assert accounting.epsilon(two_epochs, 1e-5) == pytest.approx(independent)
    gamma = Correlation(2, 120).gamma
    assert gamma(2) ** 2 > 2 * gamma(1) ** 2  # so the square root of two would be too little
    layers = accounting.stream_delta([twice] * 4, 1.0, 2)
    assert layers >= gaussian.delta(gamma(4) / PUBLIC.noise, 1.0)


def test_what_gathered_labels_have_no_proof_for_has_no_bound():
    assert accounting.delta(events.compose(GATHERED, GATHERED), 50.0) == 1
    assert accounting.stream_delta([GATHERED] * 3, 50.0, 2) == 1
    assert accounting.delta(events.compose(PUBLIC, dataclasses.replace(PUBLIC, noise_multiplier=9.0)), 50.0) == 1
    apart = events.compose(GATHERED, next_epoch(GATHERED))  # each looks at one example
    assert accounting.delta(apart, 5.0) < 1e-5
    assert replacing.replaced(GATHERED) is None
    bound = (1 + math.exp(1.0)) * accounting.delta(GATHERED, 1.0)  # one removal, then one addition
    assert accounting.delta(GATHERED, 2.0, adjacency=Adjacency.REPLACE_ONE) == pytest.approx(bound)


@pytest.mark.parametrize(
    ("budget", "weight", "sentence"),
    [
        (dataclasses.replace(BUDGET, tasks_per_person=2), 0.2, "one task and one example per person"),
        (dataclasses.replace(BUDGET, examples_per_person=2), 0.2, "one task and one example per person"),
        (dataclasses.replace(BUDGET, adjacency=Adjacency.REPLACE_ONE), 0.2, "for replace-one there is no proof"),
        (dataclasses.replace(BUDGET, tasks_per_person=5), 0.0, "gains nothing where persons are in many"),
        (dataclasses.replace(BUDGET, delta=0.0), 0.2, "without a public superset"),
        (dataclasses.replace(BUDGET, delta=0.0), 0.0, "Gaussian noise satisfies no budget with delta = 0"),
    ],
)
def test_epochs_without_a_proof_are_refused(budget, weight, sentence):
    with pytest.raises(errors.InvalidValue, match=sentence):
        accounting.remembered(budget, epoch=1, count_weight=weight)


def test_looks_need_the_deviations_of_the_theory(golden):
    for row in golden["memory_deviations"]:
        event = accounting.remembered(BUDGET, epoch=1, horizon=row["horizon"], count_weight=0.2)
        assert event.deviations == pytest.approx(row["value"], abs=row["tolerance"])
        more = event.noise_multiplier / accounting.gaussian_sigma(BUDGET) - 1
        assert more == pytest.approx(0.003, abs=5e-4)  # "costs 0.3 % of sigma"


# --- so far


@pytest.mark.parametrize("event", [PUBLIC, GATHERED], ids=["public", "gathered"])
def test_epochs_cost_what_they_have_come_to(event):
    """mu_t = sqrt(c_0^2 + ... + c_(t-1)^2) / (gamma sigma), and 2t - 1 looks."""
    costs = []
    for t in (1, 2, 5, event.horizon):
        (first, *others) = accounting.so_far([event] * t)
        assert all(other == first for other in others)
        c = event.correlation.coefficients[:t] / 256
        mu = math.sqrt(float(c @ c)) / event.noise
        p1 = (2 * t - 1) * norm.sf(event.deviations) if event.count_weight else 0.0
        assert accounting.delta(first, 0.8) == pytest.approx(gaussian.delta(mu, 0.8) + p1, rel=1e-9)
        assert isinstance(first, Remembered)
        assert first.noise == pytest.approx(event.noise, rel=1e-14)
        costs.append(accounting.stream_cost(accounting.so_far([event] * t), 1e-5, 1).epsilon)
    assert costs == sorted(costs)
    assert costs[-1] == pytest.approx(accounting.epsilon(event, 1e-5), rel=1e-9)


def test_epochs_so_far_leave_everything_else_as_it_is():
    both = events.compose(PUBLIC, OTHER)
    assert accounting.so_far([OTHER]) == [OTHER]
    assert accounting.so_far([]) == []
    (found,) = accounting.so_far([both])
    assert found == events.compose(*accounting.so_far([PUBLIC]), OTHER)
    found, _, later = accounting.so_far([PUBLIC] * 2 + [next_epoch(PUBLIC)])
    assert isinstance(found, Remembered)
    assert found.horizon == 2
    assert later == next_epoch(found)  # equal settings stay one event


def test_statements_tell_what_an_epoch_has_come_to():
    spends = [
        Spend(row=row, at="2026-01-31", task=f"month {row}", event=PUBLIC, private=True, published=True)
        for row in (1, 2, 3)
    ]
    statement = Statement(budget=BUDGET, spends=spends)
    c = PUBLIC.correlation.coefficients[:3] / 256
    assert statement.epsilon == pytest.approx(gaussian.epsilon(math.sqrt(float(c @ c)) / PUBLIC.noise, 1e-5))
    assert statement.epsilon < statement.price(spends[0]) == pytest.approx(1.0)
    assert statement.if_in(3) > statement.if_in(1) == pytest.approx(1.0)
    gathered = [dataclasses.replace(spend, event=GATHERED) for spend in spends]
    assert "In 3 such tasks: no bound" in Statement(budget=BUDGET, spends=gathered).text()
