"""Planning backwards: the epsilon that releases classes of a size is the smallest, and is the one that is planned."""

import dataclasses

import pytest

from reticent import Budget
from reticent.errors import InvalidValue
from reticent.privacy import planning, selection
from reticent.privacy.backwards import budget_to_release
from reticent.privacy.count_weights import default_count_weight

ANY = Budget(epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("mechanism", planning.MECHANISMS)
@pytest.mark.parametrize(
    ("size", "chance", "change"),
    [(50, 0.99, {}), (7, 0.5, {}), (300, 0.999, {"tasks_per_person": 6}), (90, 0.9, {"examples_per_person": 3})],
)
def test_the_epsilon_for_a_release_is_the_smallest(mechanism, size, chance, change):
    budget = dataclasses.replace(ANY, **change)

    def released(tried: Budget) -> float:
        weight = default_count_weight(tried)
        event = planning.label_event(tried, mechanism, share=0.1, count_weight=weight)
        return float(selection.law(event).release_probability(size))

    found = budget_to_release(budget, size, chance=chance, mechanism=mechanism)
    assert released(found) >= chance
    assert released(dataclasses.replace(found, epsilon=found.epsilon * 0.999)) < chance
    assert dataclasses.replace(found, epsilon=1.0) == budget


def test_a_model_with_that_budget_plans_the_release():
    from reticent import ReleasedLabels

    found = budget_to_release(ANY, 40)
    event = ReleasedLabels().joint(found)
    assert float(selection.law(event).release_probability(40)) >= 0.99
    assert float(selection.law(event).release_probability(39)) < 0.99


@pytest.mark.parametrize(
    ("size", "settings", "sentence"),
    [
        (0, {}, "release >= 1"),
        (50, {"chance": 1.0}, "chance < 1"),
        (1, {}, "No epsilon below 100 releases classes of 1 with chance 0.99"),
        (50, {"mechanism": "magic"}, "Expected a mechanism out of"),
    ],
)
def test_releases_that_no_budget_gives_are_refused(size, settings, sentence):
    with pytest.raises(InvalidValue, match=sentence):
        budget_to_release(ANY, size, **settings)
