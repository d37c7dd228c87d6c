"""Searches, compositions and refusals of accounting, where mutants survived the other tests."""

import dataclasses
import math
from collections.abc import Callable

import pytest

from reticent import Adjacency, Budget, errors
from reticent.privacy import accounting, events, gaussian, pld, selection
from reticent.privacy.accounting import calibration, gaussians, stream
from tests.privacy.accounting.cases import one_gaussian

Gap = Callable[[float], float]
FALLING: list[tuple[Gap, float]] = [
    (lambda x: 1 - x, 1.0),
    (lambda x: 5 * (1 - x), 1.0),
    (lambda x: 0.7 * (7 - x), 7.0),
    (lambda x: math.exp(4 - x) - 1, 4.0),
    (lambda x: -math.expm1(3 * (x + 2)), -2.0),
]


@pytest.mark.parametrize(("gap", "root"), FALLING)
@pytest.mark.parametrize("away", [-3.0, -0.02, 0.0, 1e-5, 0.02, 3.0])
def test_searches_end_just_above_the_root(gap: Gap, root: float, away: float) -> None:
    """From either side, within the tolerance, and with few calls: each may take seconds."""
    calls = []

    def counted(x: float) -> float:
        calls.append(x)
        return gap(x)

    found = calibration._smallest_within_budget(counted, root + away)
    assert gap(found) <= 0
    assert root <= found <= root + 1e-4
    assert len(calls) <= (7 if abs(away) < 0.1 else 20)
    calls.clear()
    near = calibration._near_root(counted, root + away)
    assert abs(gap(near)) < 0.02 * 1.5
    assert len(calls) <= (4 if abs(away) < 0.1 else 16)


def test_budgets_that_no_noise_reaches_are_refused():
    with pytest.raises(errors.InvalidValue, match="No noise level reaches this budget"):
        calibration._smallest_within_budget(lambda x: 1.0, 0.0)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("n", [1, 2])
def test_labelled_training_splits_its_budget_as_documented(m, n):
    budget = Budget(epsilon=2.0, delta=1e-5, tasks_per_person=n, examples_per_person=m)
    event = accounting.labelled_training(budget, count_weight=0.25, rate=0.1, steps=10, examples_per_person=m)
    kept = 0.0 if n == m == 1 else 0.1
    rest = dataclasses.replace(budget, delta=1e-5 * (1 - kept))
    noise = 2 * accounting.gaussian_sigma(rest)
    assert event.counts.noise_multiplier == pytest.approx(noise, rel=1e-12)
    exposure = 1e-5 * (kept or 1.0) / (n * m)
    assert event.counts.threshold == pytest.approx(m - 1 + selection.gaussian_threshold(noise, 1.0, exposure), rel=1e-6)
    assert selection.GaussianLaw(event.counts).exposures(1)[1] <= exposure
    assert event.examples_per_person == m


def test_labelled_training_under_replace_one_takes_two_steps():
    budget = Budget(epsilon=2.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE)
    event = accounting.labelled_training(budget, count_weight=0.25, rate=0.1, steps=10)
    step = Budget(epsilon=1.0, delta=1e-5 / (1 + math.e))
    assert event.counts.noise_multiplier == pytest.approx(2 * accounting.gaussian_sigma(step), rel=1e-9)
    assert accounting.delta(event, 2.0, adjacency=Adjacency.REPLACE_ONE) <= 1e-5


def test_labelled_training_for_more_examples_than_the_budget_says():
    budget = Budget(epsilon=2.0, delta=1e-5)
    event = accounting.labelled_training(budget, count_weight=0.25, rate=0.1, steps=10, examples_per_person=2)
    wide = Budget(epsilon=2.0, delta=0.9e-5, examples_per_person=2)
    assert event.counts.noise_multiplier == pytest.approx(2 * accounting.gaussian_sigma(wide), rel=1e-9)


@pytest.mark.parametrize("weight", [0.0, 1.0, 1.5, -0.1])
def test_weights_of_counts_beyond_use_are_refused(weight):
    with pytest.raises(errors.InvalidValue, match="count_weight"):
        accounting.labelled_training(Budget(epsilon=1.0, delta=1e-5), count_weight=weight, rate=0.1, steps=10)


def test_labelled_training_without_delta_is_refused_with_the_reason():
    with pytest.raises(errors.InvalidValue, match="public superset"):
        accounting.labelled_training(Budget(epsilon=1.0, delta=0.0), count_weight=0.1, rate=0.1, steps=10)


def test_gaussian_parts_add_up():
    counts = events.LabelCounts(noise_multiplier=2.0, threshold=9.0, examples_per_person=2)
    task = events.compose(one_gaussian(4.0), events.Exposure(chance=0.125), counts, events.Public())
    squares, chance = gaussians.gaussian_part(task)
    assert squares == pytest.approx(1 / 16 + 1)
    assert chance == pytest.approx(0.125 + selection.GaussianLaw(counts).exposures(2)[2])


def test_gaussians_beside_exposures_become_two_events():
    assert stream._gaussian_event(0.0, 0.0) == events.Public()
    assert stream._gaussian_event(0.0, 0.25) == events.Exposure(chance=0.25)
    assert stream._gaussian_event(0.0, 3.0) == events.Exposure(chance=1 - 1e-9)
    one = stream._gaussian_event(0.25, 0.0)
    assert isinstance(one, events.Gaussian)
    assert 2.0 * (1 - 1e-13) <= one.noise_multiplier < 2.0


def test_labelled_training_of_several_examples_is_the_worst_of_three_cases():
    counts = events.LabelCounts(noise_multiplier=9.0, threshold=30.0, examples_per_person=3)
    training = events.DpSgd(noise_multiplier=6.0, rate=0.1, steps=5, examples_per_person=3)
    event = events.LabelledTraining(counts=counts, training=training)
    exposed = selection.GaussianLaw(counts).exposures(3)

    def trained(m: int) -> float:
        sums = events.Gaussian(noise_multiplier=9.0, examples_per_person=m)
        return accounting.delta(events.compose(sums, training), 1.0)

    cases = [trained(3), exposed[3], trained(2) + exposed[2]]
    assert accounting.delta(event, 1.0) == pytest.approx(max(cases), rel=1e-9)
    # less noise on the training: being trained on as one of two costs more than being seen with both others
    training = dataclasses.replace(training, noise_multiplier=0.6)
    tight = dataclasses.replace(event, training=training)
    cases = [trained(3), exposed[3], trained(2) + exposed[2]]
    assert accounting.delta(tight, 1.0) == pytest.approx(max(cases), rel=1e-3)


def test_parts_that_no_distribution_knows_are_refused():
    with pytest.raises(errors.UnsupportedEvent, match="No accountant knows"):
        pld.Part(events.Public(), 1).distribution(0.1)  # type: ignore[arg-type]


def test_loss_distributions_say_what_they_cannot_bound():
    nothing = pld.Loss(None, 1.0)
    assert nothing.delta(50.0) == 1.0
    assert nothing.epsilon(0.99) == math.inf
    loss = pld.compose(frozenset([pld.Part(one_gaussian(2.0), 4)]), pld.FINE)
    exact = gaussian.delta(1.0, 1.0)
    assert exact <= loss.delta(1.0) <= exact * 1.001
    assert loss.error == 4 * 2.0**-42
    assert loss.epsilon(loss.error) == math.inf
    assert loss.delta(loss.epsilon(1e-5)) == pytest.approx(1e-5, rel=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: events.Composed((one_gaussian(1.0), "x")),  # type: ignore[arg-type]
        lambda: events.Composed([one_gaussian(1.0)]),  # type: ignore[arg-type]
        lambda: events.Exposure(chance=-0.5),
        lambda: events.Exposure(chance=1.0),
        lambda: events.OptimalSelection(epsilon=1.0, delta=1e-5, examples_per_person=0),
        lambda: events.LabelCounts(noise_multiplier=1.0, threshold=1.0, examples_per_person=0),
        lambda: events.LabelCounts(noise_multiplier=0.0, threshold=1.0),
        lambda: events.LabelCounts(noise_multiplier=1.0, threshold=math.nan),
        lambda: events.JointGaussian(noise_multiplier=0.0, count_weight=0.1, threshold=1.0),
        lambda: events.JointGaussian(noise_multiplier=1.0, count_weight=0.1, threshold=math.inf),
        lambda: events.JointGaussian(noise_multiplier=1.0, count_weight=1.0, threshold=1.0),
        lambda: events.JointGaussian(noise_multiplier=1.0, count_weight=1e-10, threshold=1.0),
        lambda: events.JointGaussian(noise_multiplier=1.0, count_weight=0.1, threshold=1.0, examples_per_person=0),
        lambda: events.DpSgd(noise_multiplier=0.0, rate=0.1, steps=1),
        lambda: events.DpSgd(noise_multiplier=1.0, rate=0.0, steps=1),
        lambda: events.DpSgd(noise_multiplier=1.0, rate=1.1, steps=1),
        lambda: events.DpSgd(noise_multiplier=1.0, rate=0.1, steps=0),
        lambda: events.DpSgd(noise_multiplier=1.0, rate=0.1, steps=1, examples_per_person=0),
        lambda: events.PrivateSelection(run="x", eta=0.0, gamma=0.1),  # type: ignore[arg-type]
        lambda: events.PrivateSelection(run=events.Public(), eta=-1.0, gamma=0.1),
        lambda: events.PrivateSelection(run=events.Public(), eta=0.0, gamma=1.0),
        lambda: events.PrivateSelection(run=events.Public(), eta=0.0, gamma=0.0),
    ],
)
def test_events_beyond_use_are_refused(make):
    with pytest.raises(errors.InvalidValue):
        make()


def test_events_at_the_edge_of_use_are_accepted():
    assert events.Exposure(chance=0.0).chance == 0.0
    assert events.DpSgd(noise_multiplier=1.0, rate=1.0, steps=1).rate == 1.0
    assert events.JointGaussian(noise_multiplier=1.0, count_weight=1e-9, threshold=-5.0).threshold == -5.0
    assert events.Composed(()).parts == ()
