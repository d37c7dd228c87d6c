"""What epochs cost, number by number: in fractions, and in 200 bits."""

import dataclasses
import math
from collections import Counter
from fractions import Fraction

import mpmath
import pytest

from reticent.privacy import epoch_costs, events
from reticent.privacy.events import Remembered

PUBLIC = Remembered(noise_multiplier=4.0, epoch=1, horizon=12)
GATHERED = Remembered(noise_multiplier=4.0, epoch=1, horizon=12, count_weight=0.2, deviations=5.48)


def test_chances_of_labels_are_never_below_the_real_ones():
    for i in range(60):
        event = dataclasses.replace(GATHERED, deviations=4 + i / 20)
        with mpmath.workprec(200):
            real = 23 * mpmath.ncdf(-mpmath.mpf(event.deviations))
            assert real <= epoch_costs.chance(event) <= real * (1 + mpmath.mpf(2) ** -51)


def test_chances_are_at_most_one():
    assert epoch_costs.chance(dataclasses.replace(GATHERED, deviations=0.001)) == 1
    likely = dataclasses.replace(GATHERED, horizon=2, deviations=0.5244)
    assert epoch_costs.chance(likely) == pytest.approx(0.9, abs=1e-3)


def test_what_one_person_moves_adds_up_before_it_is_squared():
    three = dataclasses.replace(PUBLIC, examples_per_person=3)
    assert epoch_costs.squares_and_chance({three: 2}) == (36 / 16, 0)
    later = dataclasses.replace(PUBLIC, epoch=2)
    assert epoch_costs.squares_and_chance({three: 1, later: 2, events.NonPrivate(): 7}) == (9 / 16 + 4 / 16, 0)
    squares, exposed = epoch_costs.squares_and_chance({GATHERED: 1, later: 1})
    assert (squares, exposed) == (2 / 16, epoch_costs.chance(GATHERED))


def test_what_has_no_proof_is_infinite():
    other = dataclasses.replace(PUBLIC, noise_multiplier=5.0)
    unproven: list[dict[events.Event, int]] = [{GATHERED: 2}, {PUBLIC: 1, other: 1}]
    for counts in unproven:
        assert epoch_costs.squares_and_chance(counts) == (math.inf, 1.0)


@pytest.mark.parametrize("order", [2, 3, 64, 65, 66])
@pytest.mark.parametrize("layers", [1, 3])
def test_bundles_have_no_more_noise_than_their_rows(order, layers):
    """Exactly, in fractions; beyond 64 tasks each is taken to move as much as the worst one alone."""
    (found,) = epoch_costs.bundled([Counter({PUBLIC: layers}), Counter({PUBLIC: 1})], order)
    assert isinstance(found, events.Gaussian)
    gamma = PUBLIC.correlation.gamma
    moved = Fraction(gamma(order)) if order <= 64 else order * Fraction(gamma())
    ratio = Fraction(found.noise_multiplier) * moved * layers / Fraction(PUBLIC.noise)
    assert 1 - Fraction(2, 10**15) < ratio <= 1


def test_rows_of_equal_settings_are_one_event():
    later, other = dataclasses.replace(PUBLIC, epoch=2), dataclasses.replace(PUBLIC, examples_per_person=2)
    assert len(epoch_costs.bundled([Counter({PUBLIC: 1}), Counter({later: 1})], 2)) == 1
    together = epoch_costs.bundled([Counter({PUBLIC: 1, later: 1})], 2)  # two streams in one task
    alone = epoch_costs.bundled([Counter({PUBLIC: 2})], 2)
    assert together == alone
    one, two = epoch_costs.bundled([Counter({PUBLIC: 1}), Counter({other: 1})], 2)
    assert isinstance(one, events.Gaussian)
    assert two == dataclasses.replace(one, examples_per_person=2)


def test_labels_gathered_in_any_of_the_epochs_have_no_bound():
    assert epoch_costs.bundled([Counter({PUBLIC: 1}), Counter({GATHERED: 1})], 2) == [events.NonPrivate()]
