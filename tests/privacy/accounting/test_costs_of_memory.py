"""Costs of tasks with memory beside others, at small sizes that say which rule was used."""

import dataclasses
import math
from collections import Counter
from fractions import Fraction

import pytest

from reticent import Adjacency, Budget
from reticent.privacy import accounting, epoch_costs, events, gaussian
from reticent.privacy.accounting import costs, remembering, stream
from reticent.privacy.events import Remembered

PUBLIC = Remembered(noise_multiplier=4.0, epoch=1, horizon=12)
LATER = dataclasses.replace(PUBLIC, epoch=2)
GATHERED = Remembered(noise_multiplier=4.0, epoch=1, horizon=12, count_weight=0.2, deviations=5.48)
OTHER = events.Gaussian(noise_multiplier=9.0)
LABELS = events.OptimalSelection(epsilon=0.1, delta=1e-6)
REPLACE = Adjacency.REPLACE_ONE


@pytest.mark.parametrize(
    ("event", "tight"),
    [
        (PUBLIC, True),
        (OTHER, True),
        (events.compose(OTHER, OTHER), True),
        (GATHERED, False),
        (events.compose(PUBLIC, LATER), False),
        (events.compose(PUBLIC, OTHER), False),
        (events.compose(OTHER, LABELS), False),
    ],
)
def test_which_bounds_on_replacing_are_tight(event, tight):
    assert costs.cost(event, 1e-5).replace_one_is_tight is tight


def test_tasks_are_split_into_epochs_and_the_rest():
    assert costs.split(events.compose(PUBLIC, OTHER, LABELS)) == (Counter([PUBLIC]), events.compose(OTHER, LABELS))
    assert costs.split(events.compose(PUBLIC, PUBLIC)) == (Counter([PUBLIC] * 2), events.Public())
    assert costs.split(OTHER) == (Counter(), OTHER)


def test_a_repeated_task_has_its_epoch_once():
    both = events.compose(PUBLIC, OTHER)
    (bundle,) = epoch_costs.bundled([Counter([PUBLIC])], 3)
    assert costs.repeat(both, 3) == events.compose(bundle, OTHER, OTHER, OTHER)
    assert costs.repeat(both, 1) == both
    assert costs.repeat(OTHER, 2) == events.compose(OTHER, OTHER)


def test_replacing_without_a_bound_of_its_own_is_a_removal_and_an_addition():
    beside = events.compose(GATHERED, OTHER)
    expected = (1 + math.exp(1.0)) * costs.delta(beside, 1.0)
    assert expected < 1
    assert costs.delta(beside, 2.0, adjacency=REPLACE) == pytest.approx(expected, rel=1e-12)
    loud = dataclasses.replace(GATHERED, noise_multiplier=0.01)
    assert costs.delta(loud, 0.0, adjacency=REPLACE) == 1
    rare = dataclasses.replace(GATHERED, deviations=30.0)  # a chance of 1e-196, times e^500
    assert costs.delta(rare, 1_000.0, adjacency=REPLACE) == 1


def test_worst_cases_take_all_epochs_together():
    """With two tasks per person: other tasks alone, or all epochs beside one other task."""
    (bundle,) = epoch_costs.bundled([Counter([PUBLIC])], 2)
    found = list(stream.worst_cases([PUBLIC, LATER, OTHER, OTHER], 2))
    others = math.sqrt(2 / 81)
    assert len(found) == 2
    assert costs.delta(found[0], 1.0) == pytest.approx(gaussian.delta(others, 1.0))
    assert found[1] == events.compose(bundle, events.Public(), OTHER)
    assert list(stream.worst_cases([PUBLIC, PUBLIC], 2)) == [events.compose(bundle, events.Public(), events.Public())]
    both = events.compose(PUBLIC, OTHER)
    assert list(stream.worst_cases([both, both], 2)) == [events.compose(bundle, OTHER, OTHER)]


def test_the_worst_cost_is_taken_under_each_adjacency():
    quiet, loud = events.Gaussian(noise_multiplier=20.0), events.Gaussian(noise_multiplier=5.0)
    assert stream.stream_cost([quiet, loud], 1e-5, 1) == costs.cost(loud, 1e-5)
    assert stream.stream_cost([loud, quiet], 1e-5, 1) == costs.cost(loud, 1e-5)


def test_epochs_so_far_have_no_more_noise_than_was_drawn():
    """Exactly, in fractions."""
    for n in (1, 2, 3):
        event = dataclasses.replace(PUBLIC, tasks_per_person=n, eighths=1)
        for rows in range(1, 13):
            (first, *_) = accounting.so_far([event] * rows)
            assert isinstance(first, Remembered)
            moved = Fraction(first.correlation.gamma(n))
            assert Fraction(first.noise_multiplier) * moved <= Fraction(event.noise)
            assert first.horizon == rows


def test_an_epoch_that_would_overspend_is_a_bug(monkeypatch):
    monkeypatch.setattr(remembering, "within", lambda *_: False)
    with pytest.raises(AssertionError, match="overspent its budget"):
        remembering.remembered(Budget(epsilon=1.0, delta=1e-5), epoch=1)


def test_training_beside_is_for_one_example_per_person():
    beside = accounting.training_beside(OTHER, Budget(epsilon=1.0, delta=1e-5), rate=0.1, steps=10)
    assert beside.examples_per_person == 1
