import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from reticent import Budget
from reticent.privacy import accounting, events, gaussian, planning, profiles, selection
from tests.privacy.accounting.cases import COUNTS, JOINT, LABELLED, TRAINING, one_gaussian

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


# --- labels selected by their counts


@pytest.mark.parametrize("kind", [events.TruncatedGeometric, events.OptimalSelection, events.LaplaceThreshold])
def test_selection_curve_is_the_worst_neighbour(kind):
    event = kind(epsilon=0.5, delta=1e-4)
    law = selection.law(event)
    p = law.release_probability(np.arange(200))
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
