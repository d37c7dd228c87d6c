"""Numbers that users get without asking for them: one that changes needs a word under Privacy in the changelog."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from reticent.privacy import (
    accounting,
    backwards,
    correlation,
    count_weights,
    events,
    memory_plan,
    planning,
    rounding,
    statement,
    stored_events,
)
from reticent.privacy.accounting import calibration, remembering


def test_shares_of_a_budget_are_as_documented():
    assert planning.DEFAULT_SHARE == 0.1
    assert calibration.EXPOSURE_SHARE == 0.1
    assert remembering.GATHERED_SHARE == count_weights._REMEMBERED_SHARE == 0.05
    assert count_weights.WITHOUT_RECORD == 0.1


def test_weights_of_counts_are_chosen_from_two_to_sixty_hundredths():
    assert list(count_weights._CANDIDATES) == [n / 100 for n in range(2, 61)]


def test_events_have_limits_beyond_use():
    assert (events._SMALLEST_NOISE, events._LARGEST_NOISE, events._LARGEST_NOISE_OF_STEPS) == (1e-100, 1e100, 1e6)
    assert (events.LARGEST_SQUARES, events._LARGEST_THRESHOLD, events._LARGEST_ETA) == (1e150, 1e15, 100.0)
    assert (events._MOST_STEPS, events._MOST_EPOCHS, events._MOST_DEVIATIONS) == (1_000_000, 1_000_000, 1e6)
    assert (stored_events._MOST_PARTS, stored_events._MOST_LEVELS) == (1_000, 8)
    assert backwards._LEAST == 1e-4


def test_a_person_has_one_example_unless_an_event_says_otherwise():
    kinds = (events.Gaussian, events.JointGaussian, events.LabelSelection, events.DpSgd, events.LabelCounts)
    assert {kind.examples_per_person for kind in kinds} == {events.Remembered.examples_per_person} == {1}


def test_epochs_have_their_default_length_and_their_limits():
    assert (correlation.DEFAULT_HORIZON, correlation.LONGEST) == (120, 1200)
    assert (correlation.LARGEST_EIGHTHS, correlation.MOST_TASKS_PER_PERSON) == (4, 4)
    assert correlation.Correlation(horizon=12) == correlation.Correlation(horizon=12, eighths=2)
    assert correlation.Correlation(horizon=12).gamma() == correlation.Correlation(horizon=12).gamma(1)


def test_plans_show_the_documented_sizes_and_chances():
    assert planning.DEFAULT_SIZES == (10, 20, 50, 100, 200, 500, 1000)
    assert (planning.SURE, planning.TRAINING_PAYS, backwards.CHANCE) == (0.999, 300.0, 0.99)
    assert memory_plan.DEFAULT_SIZES == (1, 2, 5, 10, 20, 50)
    assert (memory_plan.LIKELY, memory_plan.SURE) == (0.5, 0.99)
    assert memory_plan._TIMES == (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
    assert count_weights.HALF_SIGNAL == 13.0


def test_statements_have_a_version_and_show_one_three_and_twelve_tasks():
    assert (statement.FORMAT, statement.VERSION) == ("reticent privacy statement", 2)
    assert statement.ORDERS_SHOWN == (1, 3, 12)
    assert statement.NOT_PRIVATE == (
        "NOT PRIVATE: noise was drawn from a seeded source, or something was published without privacy."
    )


@pytest.mark.parametrize(
    ("function", "defaults"),
    [
        (accounting.noise_multiplier, {"examples_per_person": 1}),
        (accounting.labelled_training, {"examples_per_person": 1}),
        (accounting.training_beside, {"examples_per_person": 1}),
        (accounting.private_selection, {"eta": 0.0}),
        (accounting.remembered, {"eighths": None, "horizon": 120, "count_weight": 0.0}),
        (planning.training_plan, {"task_size": 1000, "rate": 0.2, "steps": 100}),
        (rounding.rounded_up, {"digits": 4}),
        (rounding.rounded_down, {"digits": 4}),
    ],
)
def test_functions_have_the_documented_defaults(function: Callable[..., Any], defaults: dict[str, Any]):
    found = inspect.signature(function).parameters.values()
    assert {one.name: one.default for one in found if one.default is not one.empty} == defaults
