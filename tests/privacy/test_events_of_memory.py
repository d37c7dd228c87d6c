"""Events of memory and limits of events: each number is allowed up to its limit, and refused beyond."""

from fractions import Fraction

import pytest

from reticent import errors
from reticent.privacy import events, stored_events
from reticent.privacy.events import Remembered

GOOD = {"noise_multiplier": 4.0, "epoch": 1}
GATHERED = {**GOOD, "count_weight": 0.2, "deviations": 5.0}


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": 0.0},
        {"noise_multiplier": 1e6},
        {"noise_multiplier": "4"},
        {"eighths": -1},
        {"eighths": 5},
        {"eighths": 2.0},
        {"horizon": 0},
        {"horizon": 1_201},
        {"tasks_per_person": 0},
        {"tasks_per_person": 5},
        {"examples_per_person": 0},
        {"examples_per_person": errors.MOST_EXAMPLES_PER_PERSON + 1},
        {"epoch": 0},
        {"epoch": 1_000_001},
        {"count_weight": -0.5, "deviations": 0.0},
        {"count_weight": -0.5, "deviations": 5.0},
        {"count_weight": 1.0, "deviations": 5.0},
        {"count_weight": 0.5, "deviations": -0.5},
        {"count_weight": 0.0, "deviations": -0.5},
        {"count_weight": 0.5, "deviations": 1e6},
        {"count_weight": 0.5, "deviations": 0.0},
        {"count_weight": 0.0, "deviations": 5.0},
        {"count_weight": 0.9e-9, "deviations": 5.0},
        {"count_weight": 0.5, "deviations": 5.0, "tasks_per_person": 2},
        {"count_weight": 0.5, "deviations": 5.0, "examples_per_person": 2},
    ],
    ids=str,
)
def test_epochs_out_of_range_are_refused(change):
    with pytest.raises(errors.InvalidValue):
        Remembered(**{**GOOD, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": 1.1e-100},
        {"noise_multiplier": 0.9e6},
        {"eighths": 0},
        {"eighths": 4},
        {"horizon": 1},
        {"horizon": 1_200},
        {"tasks_per_person": 4},
        {"examples_per_person": errors.MOST_EXAMPLES_PER_PERSON},
        {"epoch": 1_000_000},
        {"count_weight": 1e-9, "deviations": 5.0},
        {"count_weight": 0.999, "deviations": 0.9e6},
        {"count_weight": 0.5, "deviations": 0.5},
    ],
    ids=str,
)
def test_epochs_up_to_their_limits_are_taken(change):
    event = Remembered(**{**GOOD, **change})
    assert stored_events.from_json(stored_events.to_json(event)) == event


def test_numbers_of_epochs_are_plain():
    event = Remembered(noise_multiplier=4, epoch=1, count_weight=0, deviations=0)
    assert [type(value) for value in vars(event).values()] == [float, int, int, int, int, int, float, float]


def test_noise_is_never_below_what_it_stands_for():
    for i in range(40):
        event = Remembered(noise_multiplier=1 + i / 7, epoch=1, tasks_per_person=1 + i % 4)
        gamma = event.correlation.gamma(event.tasks_per_person)
        product = Fraction(event.noise_multiplier) * Fraction(gamma)
        assert product <= Fraction(event.noise) <= product * (1 + Fraction(1, 2**51))


def test_noise_has_limits_beyond_use():
    for noise in (1.1e-100, 0.9e100):
        assert events.Gaussian(noise_multiplier=noise).noise_multiplier == noise
    for noise in (0.9e-100, 1e100):
        with pytest.raises(errors.InvalidValue, match="Expected noise_multiplier"):
            events.Gaussian(noise_multiplier=noise)
