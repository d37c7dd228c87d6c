import dataclasses
import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from reticent import Adjacency, Budget, errors
from reticent.privacy import accounting, events, gaussian, planning, pld, profiles, selection

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def one_gaussian(sigma: float) -> events.Gaussian:
    return events.Gaussian(noise_multiplier=sigma)


JOINT = planning.joint_gaussian(BUDGET, 0.1)
LABELS = events.OptimalSelection(epsilon=0.1, delta=1e-6)
TRAINING = events.DpSgd(noise_multiplier=8.0, rate=0.1, steps=400)
COUNTS = events.LabelCounts(noise_multiplier=12.0, threshold=60.0)
LABELLED = events.LabelledTraining(counts=COUNTS, training=TRAINING)
EVENTS = [
    one_gaussian(4.0),
    JOINT,
    LABELS,
    events.TruncatedGeometric(epsilon=0.1, delta=1e-6),
    events.LaplaceThreshold(epsilon=0.1, delta=1e-6),
    TRAINING,
    COUNTS,
    LABELLED,
    events.PrivateSelection(run=one_gaussian(8.0), eta=0.0, gamma=0.05),
    events.compose(LABELS, one_gaussian(5.0)),
    events.compose(LABELLED, one_gaussian(9.0)),
    events.compose(JOINT, TRAINING),
    events.compose(JOINT, JOINT, events.Public()),
]


# --- laws that every event obeys


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_epsilon_and_delta_are_inverse(event):
    target = 1e-4
    reached = accounting.epsilon(event, target)
    assert accounting.delta(event, reached) <= target * (1 + 1e-9)
    if reached > 0.01:
        assert accounting.delta(event, reached * 0.99) > target


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_delta_falls_with_epsilon(event):
    curve = [accounting.delta(event, e) for e in (0.0, 0.05, 0.1, 0.5, 1.0, 2.0, 4.0)]
    assert all(a >= b for a, b in itertools.pairwise(curve))
    assert 0 <= curve[-1] < curve[0] <= 1


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_replacing_costs_more_than_adding(event):
    cost = accounting.cost(event, 1e-4)
    assert cost.epsilon < cost.replace_one
    twice = accounting.epsilon(events.compose(event, event), 1e-4)
    assert cost.replace_one >= twice * 0.99  # two people's worth, at least nearly


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_composition_costs_more_and_at_most_the_basic_bound(event):
    n, delta = 3, 2e-5
    alone = accounting.epsilon(event, delta)
    together = accounting.epsilon(accounting.repeat(event, n), n * delta)
    assert together <= n * alone * (1 + 1e-6)
    assert accounting.epsilon(accounting.repeat(event, n), delta) >= alone


def test_unknown_is_refused_and_non_private_is_infinite():
    @dataclasses.dataclass(frozen=True)
    class Homemade(events.Event):
        pass

    with pytest.raises(errors.UnsupportedEvent, match="No accountant knows Homemade"):
        accounting.epsilon(Homemade(), 1e-5)
    assert accounting.epsilon(events.compose(one_gaussian(9.0), events.NonPrivate()), 1e-5) == math.inf
    assert accounting.delta(events.NonPrivate(), 100.0) == 1.0
    assert accounting.epsilon(events.Public(), 0.0) == 0.0


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1"])
def test_bad_epsilon_and_delta_are_refused(bad):
    with pytest.raises(errors.InvalidValue, match="Expected epsilon"):
        accounting.delta(one_gaussian(1.0), bad)
    with pytest.raises(errors.InvalidValue, match="Expected delta"):
        accounting.epsilon(one_gaussian(1.0), bad)


# --- Gaussians and the joint release


def test_gaussians_compose_to_one():
    three = events.compose(one_gaussian(3.0), one_gaussian(4.0), one_gaussian(12.0))
    mu = math.sqrt(1 / 9 + 1 / 16 + 1 / 144)
    assert accounting.delta(three, 1.0) == pytest.approx(gaussian.delta(mu, 1.0), rel=1e-9)


def test_one_joint_release_costs_the_maximum_not_the_sum():
    exposure = selection.GaussianLaw(JOINT).exposures(1)[1]
    assert accounting.delta(JOINT, 1.0) == max(gaussian.delta(1 / JOINT.noise_multiplier, 1.0), exposure)
    assert accounting.delta(JOINT, 1.0) <= 1e-5
    assert accounting.delta(JOINT, 1.0) > 0.9999e-5


def test_joint_releases_compose_to_gaussian_plus_exposures():
    """THEORY section 1: delta_G(eps; 1/sqrt(sum 1/sigma^2)) + sum of p1."""
    other = planning.joint_gaussian(Budget(epsilon=2.0, delta=1e-6), 0.2)
    mu = math.hypot(1 / JOINT.noise_multiplier, 1 / other.noise_multiplier)
    exposed = sum(selection.GaussianLaw(e).exposures(1)[1] for e in (JOINT, other))
    expected = gaussian.delta(mu, 3.0) + exposed
    assert accounting.delta(events.compose(JOINT, other), 3.0) == pytest.approx(expected, rel=1e-9)


def test_joint_with_several_examples_per_person_takes_the_worst_split():
    """THEORY section 4, written out again with scipy in place of our formulas."""
    event = events.JointGaussian(noise_multiplier=9.0, count_weight=0.2, threshold=70.0, examples_per_person=3)
    spread = 9.0 * selection.SCALE / selection.count_step(0.2)

    def plain(mu: float, epsilon: float) -> float:
        if mu == 0:
            return 0.0
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))

    single = [float(norm.sf((70.0 - j) / spread)) for j in range(4)]
    splits = {0: [0.0], 1: [single[1]], 2: [1 - (1 - single[1]) ** 2, single[2]]}
    splits[3] = [1 - (1 - single[1]) ** 3, 1 - (1 - single[1]) * (1 - single[2]), single[3]]
    expected = max(plain((3 - j) / 9.0, 1.0) + max(splits[j]) for j in range(4))
    assert accounting.delta(event, 1.0) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_planned_joint_release_never_overspends(m, n, adjacency):
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=n, examples_per_person=m, adjacency=adjacency)
    event = planning.joint_gaussian(budget, 0.1)
    assert accounting.within(event, budget)
    assert event.examples_per_person == m
    # and it uses the budget: a twentieth less noise does not fit
    assert not accounting.within(dataclasses.replace(event, noise_multiplier=event.noise_multiplier * 0.95), budget)


@given(st.floats(0.3, 3.0), st.floats(0.0, 0.4), st.floats(0.0, 4.0))
@settings(max_examples=30)
def test_exposure_bound_covers_both_directions(mu, chance, epsilon):
    """Against exact hockey sticks of (p at infinity, 1-p on a Gaussian) and the same reversed, on a fine grid."""
    claimed = profiles.Exposed(profiles.PlainGaussian(mu), chance).delta(epsilon)
    x = np.linspace(-12, 12 + mu, 20_001)
    step = x[1] - x[0]
    base, moved = norm.pdf(x) * step, (1 - chance) * norm.pdf(x - mu) * step
    forth = chance + np.maximum(moved - math.exp(epsilon) * base, 0).sum()
    back = np.maximum(base - math.exp(epsilon) * moved, 0).sum()
    assert max(forth, back) <= claimed + 1e-6


def test_replace_one_of_known_labels_needs_sensitivity_two():
    """A replaced example of a known label moves a unit vector to its opposite, however small a is for unknown ones."""
    heavy = events.JointGaussian(noise_multiplier=4.0, count_weight=0.9, threshold=90.0)
    claimed = accounting.delta(heavy, 1.0, adjacency=Adjacency.REPLACE_ONE)
    assert claimed >= gaussian.delta(2 / 4.0, 1.0)


# --- discrete mechanisms


@pytest.mark.parametrize("kind", [events.TruncatedGeometric, events.OptimalSelection, events.LaplaceThreshold])
def test_selection_curve_is_the_worst_neighbour(kind):
    event = kind(epsilon=0.5, delta=1e-4)
    rule = selection.law(event)
    p = rule.release_probability(np.arange(200))
    for epsilon in (0.0, 0.2, 0.49):
        worst = float(selection.hockey_stick([p[:-1], 1 - p[:-1]], [p[1:], 1 - p[1:]], epsilon).max())
        assert accounting.delta(event, epsilon) == pytest.approx(worst, rel=1e-6)
    assert accounting.delta(event, 0.5) == 1e-4
    assert accounting.epsilon(event, 1e-4) <= 0.5
    assert accounting.epsilon(event, 0.99e-4) == math.inf


def test_large_selection_uses_the_dominating_pair():
    event = events.OptimalSelection(epsilon=1e-4, delta=1e-9)
    exact = selection.drawn_law(selection.law(event), range(90_000, 90_100))
    worst = float(selection.hockey_stick(exact[:, :-1], exact[:, 1:], 5e-5).max())
    assert accounting.delta(event, 5e-5) >= worst


@pytest.mark.parametrize("m", [2, 5])
def test_group_of_examples_on_one_or_many_labels(m):
    """Exact: m more examples on one label, or one more on each of m labels, both ways."""
    event = events.OptimalSelection(epsilon=0.2, delta=1e-4, examples_per_person=m)
    law = selection.drawn_law(selection.law(dataclasses.replace(event, examples_per_person=1)), range(120))
    epsilon = m * 0.2
    claimed = accounting.delta(event, epsilon)
    one_label = selection.hockey_stick(law[:, :-m], law[:, m:], epsilon).max()
    assert one_label <= claimed
    for size in (0, 1, 30, 40, 50):
        many, few = np.ones(1), np.ones(1)
        for _ in range(m):
            many, few = np.outer(many, law[:, size + 1]).ravel(), np.outer(few, law[:, size]).ravel()
        assert float(selection.hockey_stick(many, few, epsilon)) <= claimed


# --- DP-SGD and privacy loss distributions


def test_golden_noise_multipliers(golden):
    for row in golden["dpsgd"]:
        budget = Budget(epsilon=row["epsilon"], delta=1e-5)
        found = accounting.noise_multiplier(budget, rate=0.1, steps=400)
        assert found == pytest.approx(row["value"], rel=row["tolerance"])
        # never below the true value: a ten times finer grid agrees that the budget is kept
        fine = privacy_loss_distribution.from_gaussian_mechanism(
            found, sampling_prob=0.1, value_discretization_interval=2e-5 * row["epsilon"]
        ).self_compose(400)
        assert fine.get_delta_for_epsilon(row["epsilon"]) <= 1e-5


def test_agrees_with_googles_accountant():
    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(1.1)), 600)
    google = PLDAccountant(value_discretization_interval=1e-4).compose(event).get_epsilon(1e-5)
    ours = accounting.epsilon(events.DpSgd(noise_multiplier=1.1, rate=0.02, steps=600), 1e-5)
    assert ours == pytest.approx(google, rel=2e-3)


def test_full_batches_are_plain_gaussians():
    training = events.DpSgd(noise_multiplier=20.0, rate=1.0, steps=16)
    assert accounting.delta(training, 1.0) == accounting.delta(one_gaussian(5.0), 1.0)


def test_fourier_slack_covers_direct_convolution():
    """Convolves the same grid step by step in float64 without Fourier, as an oracle for the library's rounding."""
    one = privacy_loss_distribution.from_gaussian_mechanism(3.0, sampling_prob=0.2, value_discretization_interval=0.02)
    steps = 40
    loss = pld.Loss(one.self_compose(steps), steps * pld._FOURIER_ERROR)
    for pmf in (one._pmf_remove, one._pmf_add):
        dense = pmf.to_dense_pmf()
        total, lower = np.ones(1), 0
        for _ in range(steps):
            total = np.convolve(total, dense._probs)
            lower += dense._lower_loss
        losses = (lower + np.arange(len(total))) * 0.02
        for epsilon in (0.5, 1.0, 2.0, 3.0):
            above = losses > epsilon
            direct = float((-np.expm1(epsilon - losses[above]) * total[above]).sum())
            assert direct <= loss.delta(epsilon)


def test_coarse_grids_only_overestimate():
    event = events.DpSgd(noise_multiplier=2.0, rate=0.05, steps=200)
    parts = frozenset([pld.Part(event, 1)])
    fine, coarse = (pld.compose(parts, r).delta(1.0) for r in (pld.FINE, pld.COARSE))
    finest = pld.compose(parts, pld.FINE / 8).delta(1.0)
    assert finest * (1 - 1e-9) <= fine <= coarse


def test_delta_below_the_rounding_error_is_refused_not_invented():
    assert accounting.epsilon(events.DpSgd(noise_multiplier=2.0, rate=0.1, steps=400), 1e-14) == math.inf


# --- calibration


@given(st.floats(0.05, 8.0), st.floats(1e-9, 1e-2), st.integers(1, 5), st.sampled_from(list(Adjacency)))
@settings(max_examples=25)
def test_calibration_never_overspends(epsilon, delta, n, adjacency):
    budget = Budget(epsilon=epsilon, delta=delta, tasks_per_person=n, adjacency=adjacency)
    event = accounting.calibrate(one_gaussian, budget)
    assert isinstance(event, events.Gaussian)
    assert accounting.within(event, budget)
    assert event.noise_multiplier == pytest.approx(
        accounting.gaussian_sigma(budget), rel=1e-4
    )  # the closed form is the oracle


def test_calibration_of_mixed_spends():
    """Counts first, then training: the count release rides along (THEORY section 4, with DP-SGD)."""

    def make(noise: float) -> events.Event:
        training = events.DpSgd(noise_multiplier=noise, rate=0.1, steps=100)
        return events.compose(events.Gaussian(noise_multiplier=30.0), training)

    event = accounting.calibrate(make, BUDGET)
    assert accounting.within(event, BUDGET)
    plain = accounting.noise_multiplier(BUDGET, rate=0.1, steps=100)
    assert isinstance(event, events.Composed)
    (_, training) = event.parts
    assert isinstance(training, events.DpSgd)
    assert plain < training.noise_multiplier < plain * 1.05


def test_more_noise_costs_less():
    costs = [accounting.epsilon(events.DpSgd(noise_multiplier=s, rate=0.1, steps=50), 1e-5) for s in (1, 2, 4)]
    assert costs[0] > costs[1] > costs[2]


def test_impossible_calibrations_are_refused():
    nothing = Budget(epsilon=1.0, delta=0.0)
    with pytest.raises(errors.InvalidValue, match="delta > 0"):
        accounting.calibrate(lambda s: one_gaussian(s), nothing)
    with pytest.raises(errors.InvalidValue, match="delta > 0"):
        accounting.noise_multiplier(nothing, rate=0.1, steps=10)
    with pytest.raises(errors.InvalidValue, match="delta > 0"):
        accounting.gaussian_sigma(nothing)
    with pytest.raises(errors.InvalidValue, match="rate"):
        accounting.noise_multiplier(BUDGET, rate=2.0, steps=10)
    with pytest.raises(errors.InvalidValue, match="No noise level"):
        accounting.calibrate(lambda s: events.NonPrivate(), BUDGET)


# --- streams


def test_parallel_composition_is_the_worst_task():
    tasks = [one_gaussian(4.0), one_gaussian(5.0), one_gaussian(4.5)] * 4
    assert accounting.stream_cost(tasks, 1e-5, 1).epsilon == accounting.epsilon(one_gaussian(4.0), 1e-5)
    assert accounting.stream_delta(tasks, 1.0, 1) == accounting.delta(one_gaussian(4.0), 1.0)


def test_order_n_takes_the_n_noisiest_gaussians():
    tasks = [one_gaussian(s) for s in (9.0, 4.0, 7.0, 5.0)]
    expected = accounting.epsilon(events.compose(one_gaussian(4.0), one_gaussian(5.0)), 1e-5)
    assert accounting.stream_cost(tasks, 1e-5, 2).epsilon == pytest.approx(expected)
    assert accounting.stream_cost(tasks, 1e-5, 9).epsilon == pytest.approx(
        accounting.epsilon(events.compose(*tasks), 1e-5)
    )


def test_subsets_respect_how_often_a_kind_occurs():
    subsets = list(accounting.worst_subsets([one_gaussian(4.0), LABELS, LABELS, events.Public()], 2))
    assert len(subsets) == 2  # (gaussian, labels) and (labels, labels); never the gaussian twice
    assert list(accounting.worst_subsets([], 3)) == []
    assert accounting.stream_cost([], 1e-5, 3) == accounting.Cost(0.0, 0.0, True)


def test_streams_of_many_gaussian_kinds_are_exact():
    """THEORY section 1: the n largest 1/sigma^2 and the n largest exposures; several spends in a task add up."""
    tasks = [events.compose(one_gaussian(4.0 + i / 100), one_gaussian(9.0)) for i in range(60)]
    exact = accounting.epsilon(events.compose(*tasks[:6]), 1e-5)
    assert accounting.stream_cost(tasks, 1e-5, 6).epsilon == pytest.approx(exact, rel=1e-9)
    assert accounting.stream_cost(tasks, 1e-5, 1).epsilon == accounting.epsilon(tasks[0], 1e-5)
    joints = [planning.joint_gaussian(Budget(epsilon=1.0, delta=1e-6), 0.01 + i / 100) for i in range(30)]
    exact = accounting.epsilon(events.compose(*joints[:6]), 1e-5)
    assert accounting.stream_cost(joints, 1e-5, 6).epsilon == pytest.approx(exact, rel=1e-6)


def test_streams_of_many_kinds_are_bounded_from_above():
    mixed = [events.compose(LABELS, one_gaussian(4.0 + i / 100)) for i in range(60)]
    exact = accounting.epsilon(events.compose(*mixed[:6]), 1e-4)
    assert exact <= accounting.stream_cost(mixed, 1e-4, 6).epsilon <= exact * 1.05
    trained = [events.DpSgd(noise_multiplier=8.0 + i, rate=0.1 - i / 100, steps=400 - i) for i in range(4)]
    bound = accounting.stream_cost(trained, 1e-5, 3).epsilon
    assert accounting.epsilon(events.compose(*trained[:3]), 1e-5) <= bound
    assert bound <= accounting.epsilon(accounting.repeat(trained[0], 3), 1e-5) * (1 + 1e-9)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 37.3, 1e3, 1e6, 1e9])
def test_epsilon_just_below_delta_at_zero(sigma):
    """The answer is next to zero, where a search by factors would stand still."""
    at_zero = accounting.delta(one_gaussian(sigma), 0.0)
    for target in (math.nextafter(at_zero, 0), at_zero * (1 - 1e-12), at_zero * 0.999):
        reached = accounting.epsilon(one_gaussian(sigma), target)
        assert accounting.delta(one_gaussian(sigma), reached) <= target
        assert reached < 1 / sigma


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.1])
def test_hardly_any_noise_is_priced_not_a_crash(noise):
    training = events.DpSgd(noise_multiplier=noise, rate=0.1, steps=20)
    assert accounting.epsilon(training, 1e-5) > 1 / noise
    assert accounting.epsilon(events.compose(one_gaussian(noise), LABELS), 1e-5) > 1 / noise


def test_events_for_fewer_examples_than_the_budget_are_refused():
    budget = Budget(epsilon=1.0, delta=1e-5, examples_per_person=5)
    tuned = events.PrivateSelection(run=events.compose(one_gaussian(100.0)), eta=0.0, gamma=0.5)
    for event in (one_gaussian(100.0), JOINT, LABELS, COUNTS, TRAINING, LABELLED, tuned):
        with pytest.raises(errors.InvalidValue, match="5 examples per person"):
            accounting.within(event, budget)
    assert accounting.within(
        events.Gaussian(noise_multiplier=accounting.gaussian_sigma(budget), examples_per_person=5), budget
    )
    with pytest.raises(errors.InvalidValue, match="sample whole persons"):
        accounting.noise_multiplier(budget, rate=0.1, steps=10)
    with pytest.raises(errors.InvalidValue, match="sample whole persons"):
        accounting.labelled_training(budget, count_weight=0.1, rate=0.1, steps=10)


def test_sampling_whole_persons_costs_the_same_for_any_number_of_examples():
    alone, several = (
        accounting.noise_multiplier(
            Budget(epsilon=1.0, delta=1e-5, examples_per_person=m), rate=0.1, steps=50, examples_per_person=m
        )
        for m in (1, 7)
    )
    assert alone == several


# --- labels beside DP-SGD


def exposure(counts: events.LabelCounts, examples: int = 1) -> float:
    return float(norm.sf((counts.threshold - examples) / counts.noise_multiplier))


@pytest.mark.parametrize("threshold", [30.0, 60.0])
def test_labelled_training_costs_the_maximum_not_the_sum(threshold):
    """THEORY section 4, with DP-SGD: a low threshold exposes more than the composition loses, a high one less."""
    event = dataclasses.replace(LABELLED, counts=dataclasses.replace(COUNTS, threshold=threshold))
    together = accounting.delta(events.compose(one_gaussian(12.0), TRAINING), 1.0)
    single = exposure(event.counts)
    assert (single > together) == (threshold == 30.0)
    assert accounting.delta(event, 1.0) == pytest.approx(max(together, single), rel=1e-9)


def test_labelled_training_composes_to_gaussian_training_and_exposure():
    inner = events.compose(one_gaussian(12.0), TRAINING, one_gaussian(9.0))
    expected = accounting.delta(inner, 1.5) + exposure(COUNTS)
    assert accounting.delta(events.compose(LABELLED, one_gaussian(9.0)), 1.5) == pytest.approx(expected, rel=1e-6)
    twice = events.compose(accounting.repeat(one_gaussian(12.0), 2), accounting.repeat(TRAINING, 2))
    expected = accounting.delta(twice, 1.5) + 2 * exposure(COUNTS)
    assert accounting.delta(accounting.repeat(LABELLED, 2), 1.5) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_labelled_training_covers_the_exact_divergence(size):
    """One step: integrates over a label's noisy count u and the noisy gradient g, from `size` examples to one more.

    The gradient of the new example is 1, of the others 0; it enters if the label passes and it is sampled.
    """
    counts = events.LabelCounts(noise_multiplier=2.0, threshold=4.0)
    event = events.LabelledTraining(counts=counts, training=events.DpSgd(noise_multiplier=1.0, rate=0.3, steps=1))
    u, g = np.linspace(size - 16, size + 17, 1_651), np.linspace(-9, 10, 761)
    cell = (u[1] - u[0]) * (g[1] - g[0])
    passed = u > 4.0
    mixture = 0.7 * norm.pdf(g) + 0.3 * norm.pdf(g - 1)
    fewer = np.outer(norm.pdf((u - size) / 2) / 2, norm.pdf(g)) * cell
    more = norm.pdf((u - size - 1) / 2)[:, None] / 2 * np.where(passed[:, None], mixture, norm.pdf(g)) * cell
    # a label that does not pass shows neither its count nor its examples: one outcome for each gradient
    fewer, more = (np.vstack([law[passed], law[~passed].sum(axis=0)]) for law in (fewer, more))
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        exact = float(selection.hockey_stick(fewer.ravel(), more.ravel(), epsilon))
        assert exact <= accounting.delta(event, epsilon) + 1e-6
    if size == 5:  # the training costs something beside the counts: leaving it out would be caught
        training = accounting.delta(one_gaussian(2.0), 0.3)
        assert float(selection.hockey_stick(fewer.ravel(), more.ravel(), 0.3)) > training


def test_labelled_training_with_several_examples_per_person():
    """Any split of three examples on new and old labels costs no more than is claimed; sums in place of the maximum."""
    counts = events.LabelCounts(noise_multiplier=30.0, threshold=140.0, examples_per_person=3)
    event = events.LabelledTraining(counts=counts, training=dataclasses.replace(TRAINING, examples_per_person=3))
    claimed = accounting.delta(event, 1.0)
    single = [exposure(counts, j) for j in range(4)]
    for new in range(4):
        seen = max(single[new], 1 - (1 - single[1]) ** new) if new else 0.0
        parts: list[events.Event] = [TRAINING] if new < 3 else []
        parts += [events.Gaussian(noise_multiplier=30.0, examples_per_person=3 - new)] if new < 3 else []
        assert accounting.delta(events.compose(*parts), 1.0) + seen <= claimed * (1 + 1e-9)
    assert claimed <= accounting.delta(accounting.repeat(event, 2), 1.0)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 1), (1, 4), (2, 2)])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_labelled_training_never_overspends(n, m, adjacency):
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=n, examples_per_person=m, adjacency=adjacency)
    event = accounting.labelled_training(budget, count_weight=0.1, rate=0.1, steps=50, examples_per_person=m)
    assert accounting.within(event, budget)
    # and it uses the budget: neither a twentieth less noise nor a threshold two thirds as high fits
    less = dataclasses.replace(event.training, noise_multiplier=event.training.noise_multiplier * 0.95)
    assert not accounting.within(dataclasses.replace(event, training=less), budget)
    lower = dataclasses.replace(event.counts, threshold=event.counts.threshold * 0.66)
    assert not accounting.within(dataclasses.replace(event, counts=lower), budget)


def test_counts_are_cheap_beside_training():
    plain = accounting.noise_multiplier(BUDGET, rate=0.1, steps=50)
    event = accounting.labelled_training(BUDGET, count_weight=0.1, rate=0.1, steps=50)
    assert plain < event.training.noise_multiplier < plain * 1.06
    assert event.counts.noise_multiplier == pytest.approx(accounting.gaussian_sigma(BUDGET) / math.sqrt(0.1))
    assert accounting.epsilon(event.counts, 1e-5) < 0.4
    with pytest.raises(errors.InvalidValue, match="count_weight"):
        accounting.labelled_training(BUDGET, count_weight=1.0, rate=0.1, steps=50)
    with pytest.raises(errors.InvalidValue, match="without a public superset"):
        accounting.labelled_training(Budget(epsilon=1.0, delta=0.0), count_weight=0.1, rate=0.1, steps=50)


def test_streams_of_labelled_training_are_bounded_from_above():
    kinds: list[events.Event] = [
        events.LabelledTraining(
            counts=events.LabelCounts(noise_multiplier=12.0 + i, threshold=5 * (12.0 + i)),
            training=events.DpSgd(noise_multiplier=8.0 + i, rate=0.1, steps=100),
        )
        for i in range(4)
    ]
    exact = accounting.epsilon(events.compose(*kinds[:3]), 1e-4)
    bound = accounting.stream_cost(kinds, 1e-4, 3).epsilon
    assert exact <= bound <= accounting.epsilon(accounting.repeat(kinds[0], 3), 1e-4) * 1.01
    assert accounting.stream_cost(kinds, 1e-4, 1).epsilon == accounting.epsilon(kinds[0], 1e-4)
    counted = [kind.counts for kind in kinds if isinstance(kind, events.LabelledTraining)]
    exact = accounting.epsilon(events.compose(*counted[:2]), 1e-4)
    assert accounting.stream_cost(counted, 1e-4, 2).epsilon >= exact * (1 - 1e-9)
