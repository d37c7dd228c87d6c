"""Plans by their formulas: what is asked of a budget, and the smallest settings that are enough."""

import dataclasses
import math

import pytest

from reticent import Adjacency, Budget, errors, plan
from reticent.privacy import accounting, events, planning, selection

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def test_training_plans_are_their_formulas():
    chosen = planning.training_plan(BUDGET, class_size=100, task_size=500, rate=0.1, steps=20)
    noise = accounting.noise_multiplier(BUDGET, rate=0.1, steps=20)
    assert chosen.noise_multiplier == noise
    assert (chosen.rate, chosen.steps, chosen.class_size) == (0.1, 20, 100)
    assert chosen.batch == pytest.approx(50)
    assert chosen.noise_per_example == pytest.approx(noise / 50)
    assert chosen.signal == pytest.approx(100 / accounting.gaussian_sigma(BUDGET))
    assert chosen.likely_better == "cosine"
    assert "less than 300: sums waste less of it." in chosen.why
    large = planning.training_plan(BUDGET, class_size=5_000, rate=0.1, steps=20)
    assert large.likely_better == "peft"
    assert "at least 300: training can use that." in large.why
    assert large.batch == 100
    assert list(large.json()) == [field.name for field in dataclasses.fields(large)]


@pytest.mark.parametrize("sizes", [{"class_size": 0}, {"class_size": 5, "task_size": 0}])
def test_training_plans_need_examples(sizes):
    with pytest.raises(errors.InvalidValue, match=">= 1"):
        planning.training_plan(BUDGET, rate=0.1, steps=20, **sizes)
    assert planning.training_plan(BUDGET, class_size=1, task_size=1, rate=0.1, steps=20).batch == 0.1


def test_signals_at_the_limit_pay_for_training():
    sigma = accounting.gaussian_sigma(BUDGET)
    exactly = Budget(epsilon=1.0, delta=1e-5)
    at = [
        planning.training_plan(exactly, class_size=n, rate=0.1, steps=20)
        for n in range(int(300 * sigma), int(300 * sigma) + 2)
    ]
    assert [one.likely_better for one in at] == ["cosine", "peft"]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_joint_releases_take_the_least_noise_and_the_lowest_threshold(n, adjacency):
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=n, adjacency=adjacency)
    event = planning.joint_gaussian(budget, 0.2)
    kept = 0.0 if n == 1 and adjacency is Adjacency.ADD_OR_REMOVE_ONE else 0.1
    sigma = accounting.gaussian_sigma(dataclasses.replace(budget, delta=1e-5 * (1 - kept)))
    assert event.noise_multiplier == pytest.approx(sigma, rel=1e-12)
    assert accounting.within(event, budget)
    spread = sigma / math.sqrt(0.2)
    first = selection.gaussian_threshold(sigma, 0.2, 1e-5 * (kept or 1.0) / n)
    assert event.threshold >= first * (1 - 1e-12)
    lower = dataclasses.replace(event, threshold=event.threshold - 2e-6 * spread)
    assert event.threshold == pytest.approx(first, rel=1e-9) or not accounting.within(lower, budget)


def test_joint_releases_of_several_examples_search_their_threshold():
    budget = Budget(epsilon=1.0, delta=1e-5, examples_per_person=4)
    event = planning.joint_gaussian(budget, 0.2)
    spread = event.noise_multiplier / math.sqrt(0.2)
    assert event.examples_per_person == 4
    assert accounting.within(event, budget)
    assert not accounting.within(dataclasses.replace(event, threshold=event.threshold - 2e-6 * spread), budget)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_shares_are_split_over_tasks_examples_and_steps(adjacency):
    budget = Budget(epsilon=2.0, delta=1e-5, tasks_per_person=2, examples_per_person=3, adjacency=adjacency)
    labels = planning.labels_by_share(budget, events.OptimalSelection, 0.25)
    epsilon, delta = 0.25 * 2.0 / 2, 0.25 * 1e-5 / 2
    if adjacency is Adjacency.REPLACE_ONE:
        epsilon, delta = epsilon / 2, delta / (1 + math.exp(0.25 * 2.0 / 2))
    assert labels.epsilon == pytest.approx(epsilon / 3, rel=1e-3)
    assert labels.delta == pytest.approx(delta * math.expm1(epsilon / 3) / math.expm1(epsilon), rel=2e-2)
    assert labels.epsilon <= epsilon / 3


def test_plans_show_persons_not_examples():
    budget = Budget(epsilon=1.0, delta=1e-5, examples_per_person=4)
    chosen = plan(budget, mechanism="optimal", class_sizes=[9, 12])
    expected = selection.upper_bound([3, 3], 1.0, 1e-5)
    assert [c.upper_bound for c in chosen.classes] == expected.tolist()
    law = selection.law(planning.labels_by_share(budget, events.OptimalSelection, 0.1))
    assert [c.release_probability for c in chosen.classes] == law.release_probability([9, 12]).tolist()
    assert chosen.smallest_class_99 == selection.smallest_class(law, 0.99)
    assert chosen.sigma_without_labels == accounting.gaussian_sigma(budget)


def test_the_smallest_size_decides():
    chosen = plan(BUDGET, class_sizes=[900, 500, 700])
    assert chosen.count_weight == planning.smallest_count_weight(BUDGET, 500)
    share = plan(BUDGET, mechanism="optimal", share="auto", class_sizes=[900, 500])
    assert share.epsilon_labels == planning.smallest_share(BUDGET, events.OptimalSelection, 500)


def test_smallest_settings_are_within_a_ten_thousandth():
    weight = planning.smallest_count_weight(BUDGET, 500)
    assert weight is not None
    assert selection.law(planning.joint_gaussian(BUDGET, weight)).release_probability(500) >= 0.999
    less = planning.joint_gaussian(BUDGET, weight / (1 + 1.1e-4))
    assert selection.law(less).release_probability(500) < 0.999
    assert planning.smallest_count_weight(BUDGET, 3) is None
