"""Profiles of compositions and of replaced persons, by their formulas."""

import dataclasses
import math

import pytest

from reticent import Budget, errors
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.privacy import accounting, events, gaussian, pld, profiles, replacing, selection
from reticent.privacy.rounding import smallest_epsilon
from reticent.privacy.statement import Spend, Statement
from reticent.sensitive.task import Task
from tests.privacy.accounting.cases import one_gaussian

JOINT = events.JointGaussian(noise_multiplier=2.0, count_weight=0.3, threshold=9.0, examples_per_person=2)


class Fixed:
    """A profile of this test: the same answers whatever is asked."""

    def __init__(self, delta: float, epsilon: float) -> None:
        self._delta, self._epsilon = delta, epsilon

    def delta(self, epsilon: float) -> float:
        return self._delta

    def epsilon(self, delta: float) -> float:
        return self._epsilon


def test_selections_cost_the_smaller_of_two_bounds():
    """The sums of epsilon and delta, rounded up, or the composed losses."""
    one = events.OptimalSelection(epsilon=0.1, delta=1e-6)
    two = events.OptimalSelection(epsilon=0.2, delta=1e-7, examples_per_person=2)
    epsilon, delta = pld.group(two)
    total, slip = 3 * 0.1 + 2 * epsilon, 3e-6 + 2 * delta
    loose = profiles.Selections(Fixed(0.7, 50.0), ((one, 3), (two, 2)))
    assert loose.delta(total * (1 + 1e-12)) == pytest.approx(slip, rel=1e-12)
    assert slip <= loose.delta(total * (1 + 1e-12))
    assert loose.delta(loose._basic[0]) < 0.1
    assert loose.delta(total * (1 - 1e-12)) == 0.7
    assert loose.epsilon(slip * (1 + 1e-12)) == pytest.approx(total, rel=1e-12)
    assert loose.epsilon(loose._basic[1]) < 50
    assert loose.epsilon(slip * (1 - 1e-12)) == 50.0
    assert loose._basic[0] >= total
    tight = profiles.Selections(Fixed(1e-9, 0.01), ((one, 3), (two, 2)))
    assert (tight.delta(9.0), tight.epsilon(0.5)) == (1e-9, 0.01)
    nothing = profiles.Selections(Fixed(1.0, math.inf), ((one, 1),))
    assert nothing.delta(0.0) == 1.0
    assert nothing.epsilon(0.0) == math.inf


def test_replaced_joint_releases_are_the_worst_placement():
    exposures = selection.GaussianLaw(JOINT).exposures(2)
    for epsilon in (0.0, 1.0, 3.0):
        cases = [gaussian.delta((4 - s) / 2.0, epsilon) + (exposures[min(s, 2)] if s else 0.0) for s in range(5)]
        found = replacing.OneReplacedJoint(JOINT).delta(epsilon)
        assert found == pytest.approx(min(1.0, max(cases)), rel=1e-12)
        assert found >= min(1.0, max(cases))
    certain = dataclasses.replace(JOINT, threshold=-50.0)
    assert replacing.OneReplacedJoint(certain).delta(0.0) == 1.0
    rare = replacing.OneReplacedJoint(dataclasses.replace(JOINT, threshold=40.0))
    reached = rare.epsilon(0.01)
    assert rare.delta(reached) <= 0.01 < rare.delta(0.99 * reached)


def test_placements_are_tried_one_by_one_or_some_at_a_time():
    exposures = selection.GaussianLaw(JOINT).exposures(2)
    assert list(profiles.placements(JOINT, 4)) == [
        (4, 0.0),
        (3, exposures[1]),
        (2, exposures[2]),
        (1, exposures[2]),
        (0, exposures[2]),
    ]
    many = dataclasses.replace(JOINT, examples_per_person=600)
    exposures = selection.GaussianLaw(many).exposures(600)
    found = list(profiles.placements(many, 600))
    assert found[0] == (600, 0.0)
    assert found[1] == (599, exposures[2])  # two at a time: the shift of one, the exposure of two
    assert found[2] == (597, exposures[4])
    assert found[-1] == (1, exposures[600])
    assert len(found) == 301
    few = list(profiles.placements(dataclasses.replace(JOINT, examples_per_person=512), 512))
    assert len(few) == 513


def test_replaced_events_are_their_twins():
    counts = events.LabelCounts(noise_multiplier=4.0, threshold=9.0, examples_per_person=3)
    labels = events.OptimalSelection(epsilon=0.1, delta=1e-6, examples_per_person=2)
    wide = events.Gaussian(noise_multiplier=6.0, examples_per_person=5)
    event = events.compose(wide, JOINT, counts, labels, events.Exposure(chance=0.25), events.Public())
    assert replacing.replaced(event) == events.compose(
        events.Gaussian(noise_multiplier=3.0, examples_per_person=5),
        events.Gaussian(noise_multiplier=1.0, examples_per_person=2),
        events.Exposure(chance=selection.GaussianLaw(JOINT).exposures(2)[2]),
        events.Gaussian(noise_multiplier=2.0, examples_per_person=3),
        events.Exposure(chance=selection.GaussianLaw(counts).exposures(3)[3]),
        events.OptimalSelection(epsilon=0.1, delta=1e-6, examples_per_person=4),
        events.Exposure(chance=0.25),
    )
    certain = replacing.replaced(dataclasses.replace(JOINT, threshold=-50.0))
    assert list(profiles.leaves(certain or events.Public()))[1] == events.Exposure(chance=1 - 1e-9)
    assert replacing.replaced(events.Public()) == events.Public()
    assert replacing.replaced(events.DpSgd(noise_multiplier=1.0, rate=0.1, steps=1)) is None
    assert replacing.replaced(events.NonPrivate()) is None


def test_the_smallest_epsilon_of_a_curve():
    assert smallest_epsilon(lambda e: 0.5 * math.exp(-e), 0.5) == 0.0
    assert smallest_epsilon(lambda e: math.exp(-e), 0.25) == pytest.approx(math.log(4), rel=1e-11)
    assert smallest_epsilon(lambda e: math.exp(-e), 0.25) >= math.log(4) * (1 - 1e-15)
    assert smallest_epsilon(lambda e: 1.0, 0.5) == math.inf


def test_two_examples_of_a_person_in_labelled_training():
    """One of them on a new label: trained on by itself, beside the exposure of one."""
    counts = events.LabelCounts(noise_multiplier=1.0, threshold=3.5, examples_per_person=2)
    training = events.DpSgd(noise_multiplier=0.7, rate=0.5, steps=3, examples_per_person=2)
    event = events.LabelledTraining(counts=counts, training=training)
    exposed = selection.GaussianLaw(counts).exposures(2)

    def trained(m: int) -> profiles.Profile:
        sums = events.Gaussian(noise_multiplier=1.0, examples_per_person=m)
        return profiles.of(events.compose(sums, training))

    for epsilon in (0.5, 3.0, 6.0):
        mixed = profiles.Exposed(trained(1), exposed[1]).delta(epsilon)
        expected = max(trained(2).delta(epsilon), exposed[2], mixed)
        assert profiles.of(event).delta(epsilon) == pytest.approx(expected, rel=1e-9)
    assert profiles.Exposed(trained(1), exposed[1]).delta(12.0) > trained(2).delta(12.0)


def test_prices_and_bounds_of_a_statement():
    event = events.compose(one_gaussian(8.0), events.Exposure(chance=4e-6))
    spend = Spend(row=2, at="2026-01-02", task="march", event=event, private=True)
    found = Statement(budget=Budget(epsilon=2.0, delta=1e-5, tasks_per_person=3), spends=[spend])
    assert found.price(spend) == accounting.epsilon(event, 1e-5) < math.inf  # of one task, not of three
    assert found.bound_if_in(1) == (accounting.epsilon(event, 1e-5), 1e-5)
    assert found.bound_if_in(3)[1] == 6e-5
    assert found.bound_if_in(3)[0] < math.inf == found.if_in(3)
    half = Statement(
        budget=Budget(epsilon=2.0, delta=0.3), spends=[dataclasses.replace(spend, event=one_gaussian(1.0))]
    )
    assert half.bound_if_in(12) == (half.if_in(12), 0.3)


def test_exceptions_are_hidden_while_private_rows_are_read():
    """Between admitting a task and closing the gate, but not with seeded noise, and not what is about public facts."""
    gate = Gate(Ledger.create(None, Budget(epsilon=2.0, delta=1e-5)))
    foreign, ours, paid = ValueError("x"), errors.InvalidValue("x"), errors.LedgerError("x")
    assert not gate.hides(foreign)
    gate.admit(Task([[1.0, 0.0]], ["a"], name="march"))
    assert [gate.hides(error) for error in (foreign, ours, paid)] == [True, False, False]
    gate.spend(one_gaussian(9.0), task="march")
    assert [gate.hides(error) for error in (foreign, ours, paid)] == [True, True, False]
    gate.close()
    assert not gate.hides(foreign)
    seeded = Gate(Ledger.create(None, Budget(epsilon=2.0, delta=1e-5)), NoiseSource.seeded(1))
    seeded.admit(Task([[1.0, 0.0]], ["a"], name="march"))
    assert not seeded.hides(foreign)
