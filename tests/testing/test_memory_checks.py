import dataclasses

import pytest

from reticent.gate.remembered import RememberedSums
from reticent.lab.attack.memory_moves import Remembering, largest_move
from reticent.privacy import events
from tests.assurance import planted_memory
from tests.testing import memory_checks
from tests.testing.memory_checks import check_memory

EVENT = events.Remembered(noise_multiplier=4.0, epoch=1, eighths=4, horizon=3)
GATHERING = dataclasses.replace(EVENT, count_weight=0.2, deviations=1.0)


def test_memory_passes():
    check_memory()


@pytest.mark.parametrize("eighths", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(("tasks", "n"), [(2, 1), (2, 2), (3, 1), (3, 2)])
def test_memory_costs_what_its_event_says(tasks, n, eighths):
    """Told its noise, the real code moves by exactly 1 / sigma where the person is in the first tasks."""
    event = dataclasses.replace(EVENT, eighths=eighths, horizon=tasks, tasks_per_person=n)
    moved = largest_move(Remembering(event, ("a", "b")), tasks, n)
    assert moved == pytest.approx(1 / event.noise_multiplier, rel=2e-6)  # its feature is 2^-20 short of the unit
    assert moved <= 1 / event.noise_multiplier


@pytest.mark.parametrize(
    ("twin", "sentence"),
    [
        (planted_memory.OneKey, "moves inf deviations"),
        (planted_memory.InverseSide, "moves inf deviations"),
        (planted_memory.CoarseNoise, "moves inf deviations"),
        (planted_memory.without_gamma, r"in 1 task\(s\) moves 0\."),
        (planted_memory.of_single_columns, r"in 2 task\(s\) moves 0\."),
        (planted_memory.PresentOnly, "shows after equal noisy rows"),
        (planted_memory.SinceFirst, "shows after equal noisy rows"),
    ],
)
def test_broken_memory_fails(twin, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_memory(twin)


def test_a_place_that_is_published_twice_moves_too_far():
    sound, burned = (kind(EVENT, ("a", "b")) for kind in (Remembering, planted_memory.BurnedTwice))
    assert largest_move(sound, 3, 1) < 1 / EVENT.noise_multiplier < largest_move(burned, 3, 1)


class Hasty(RememberedSums):
    """Lets labels become known a little too early."""

    def _most(self, look):
        return int(super()._most(look) * 0.999)


def test_thresholds_are_reached_no_sooner_than_z_deviations():
    assert memory_checks.exposes_no_sooner(GATHERING)
    assert not memory_checks.exposes_no_sooner(GATHERING, Hasty)
    with pytest.raises(AssertionError, match="becomes known within z deviations"):
        check_memory(Hasty)


@pytest.mark.parametrize(("twin", "counts", "s"), [(planted_memory.PresentOnly, (12, 0, 0), 1)])
def test_neighbours_of_absent_labels_are_told_apart(twin, counts, s):
    """THEORY section 10: to look only at labels that are present now exposes one example far beyond p1."""
    assert memory_checks.is_coupled(GATHERING, counts, s)
    assert not memory_checks.is_coupled(GATHERING, counts, s, twin)


def test_statistics_since_the_first_example_tell_it_apart():
    assert memory_checks.is_coupled(GATHERING, (0, 9, 0), 0)
    assert not memory_checks.is_coupled(GATHERING, (0, 9, 0), 0, planted_memory.SinceFirst)
