"""Exact before sampled: the probabilities that are drawn, as fractions of 2^256, against their (epsilon, delta)."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent import errors
from reticent.budget import Budget
from reticent.privacy import accounting, events, gaussian, planning, selection

KINDS = [events.TruncatedGeometric, events.OptimalSelection, events.LaplaceThreshold]
EPSILONS = [1e-6, 1e-3, 0.1, 1.0, 8.0, 20.0]
DELTAS = [1e-15, 1e-9, 1e-5, 0.1]


def drawn(event: events.LabelSelection, size: int) -> mpmath.mpf:
    return mpmath.mpf(selection.law(event).coin(size)) / 2**256


def exact_divergence(p: mpmath.mpf, q: mpmath.mpf, epsilon: float) -> mpmath.mpf:
    """Hockey-stick divergence of two coins: enumerated over both outcomes, both directions."""
    scale = mpmath.exp(mpmath.mpf(epsilon))
    forth = max(p - scale * q, 0) + max((1 - p) - scale * (1 - q), 0)
    back = max(q - scale * p, 0) + max((1 - q) - scale * (1 - p), 0)
    return max(forth, back)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_exact_privacy_of_one_label(kind, epsilon, delta):
    """No tolerance: the drawn fractions satisfy (epsilon, delta) exactly, in both directions, for n = 0..2k."""
    event = kind(epsilon=epsilon, delta=delta)
    sizes = selection.sizes_to_check(selection.law(event).threshold).tolist()
    worst = mpmath.mpf(0)
    with mpmath.workprec(600):
        after, reached = mpmath.mpf(0), -1
        for size in sizes:
            before = after if size == reached else drawn(event, size)
            after, reached = drawn(event, size + 1), size + 1
            worst = max(worst, exact_divergence(before, after, epsilon))
        assert worst <= mpmath.mpf(delta)
        # and the budget is used: a mechanism that releases nothing would pass the line above
        assert worst >= mpmath.mpf(delta) * (0.4 if epsilon <= 1 else 1e-9)
    for size in sizes[:: len(sizes) // 20 + 1]:
        assert selection.divergence(event, size, epsilon) <= delta * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize("kind", KINDS)
def test_one_more_than_the_budget_is_caught(kind):
    """The check above can fail: the same coins, claimed to cost a little less."""
    event = kind(epsilon=1.0, delta=1e-5)
    sizes = selection.sizes_to_check(selection.law(event).threshold)
    law = selection.drawn_law(selection.law(event), sizes)
    assert selection.hockey_stick(law[:, :-1], law[:, 1:], 0.999).max() > 1e-5
    assert selection.hockey_stick(law[:, :-1], law[:, 1:], 1.0).max() > 0.4e-5


@pytest.mark.parametrize("kind", KINDS)
def test_planned_and_drawn_probabilities_agree(kind):
    for epsilon, delta in [(1e-6, 1e-15), (0.025, 2.5e-7), (1.0, 1e-5), (20.0, 0.1)]:
        event = kind(epsilon=epsilon, delta=delta)
        turn = math.ceil(selection.law(event).threshold)
        sizes = np.unique(np.clip([0, 1, 2, turn // 2, turn - 1, turn, turn + 1, 2 * turn, 3 * turn], 0, None))
        planned = selection.law(event).release_probability(sizes)
        with mpmath.workprec(600):
            exact = [float(drawn(event, int(size))) for size in sizes]
        np.testing.assert_allclose(planned, exact, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_optimal_solves_the_recursion(epsilon, delta):
    """An independent oracle: Theorem 1 step by step, in exact arithmetic."""
    event = events.OptimalSelection(epsilon=epsilon, delta=delta)
    last = min(2 * selection.OptimalLaw(event).turn + 3, 3000)
    claimed = selection.law(event).release_probability(np.arange(last + 1))
    with mpmath.workprec(400):
        up, slip, probability = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(delta), mpmath.mpf(0)
        for size in range(last + 1):
            assert claimed[size] == pytest.approx(float(probability), rel=1e-9, abs=1e-18)
            probability = min(up * probability + slip, 1 - (1 - probability - slip) / up, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_optimal_is_never_worse(kind):
    for epsilon, delta in [(0.1, 1e-6), (1.0, 1e-7), (8.0, 1e-5)]:
        sizes = np.arange(1, 400)
        best = selection.law(events.OptimalSelection(epsilon=epsilon, delta=delta)).release_probability(sizes)
        other = selection.law(kind(epsilon=epsilon, delta=delta)).release_probability(sizes)
        assert np.all(other <= best * (1 + 1e-9) + 1e-15)
        assert np.all(best <= selection.upper_bound(sizes, epsilon, delta) * (1 + 1e-9))


def test_truncated_geometric_is_its_noise():
    """Another road: sum the pmf of the truncated noise."""
    event = events.TruncatedGeometric(epsilon=0.3, delta=1e-4)
    k = selection.TruncatedGeometricLaw(event).k
    z = np.arange(-k, k + 1)
    pmf = np.exp(-0.3 * np.abs(z))
    pmf /= pmf.sum()
    sizes = np.arange(0, 2 * k + 3)
    summed = [0.0, *(float(pmf[z > k - n].sum()) for n in sizes[1:])]
    np.testing.assert_allclose(selection.law(event).release_probability(sizes), summed, atol=1e-13)


@given(st.floats(1e-6, 20), st.floats(1e-15, 0.1), st.sampled_from(KINDS))
def test_probabilities_behave(epsilon, delta, kind):
    event = kind(epsilon=epsilon, delta=delta)
    rule = selection.law(event)
    sizes = selection.sizes_to_check(min(rule.threshold, 2000.0))
    claimed = rule.release_probability(sizes)
    assert claimed[0] == 0
    assert np.all((claimed >= 0) & (claimed <= 1))
    assert np.all(np.diff(claimed) >= -1e-12)
    assert 0 < claimed[1] <= delta * (1 + 1e-12)
    assert Fraction(rule.coin(1), 2**256) <= Fraction(delta)


def test_golden_probabilities(golden):
    for row in golden["selection"]:
        budget = Budget(epsilon=row["epsilon"], delta=row["delta"])
        plan = planning.plan(budget, mechanism=row["mechanism"], share=row["share"], class_sizes=[row["size"]])
        assert plan.classes[0].release_probability == pytest.approx(row["value"], abs=row["tolerance"]), row["source"]
        if "threshold" in row:
            assert plan.threshold == row["threshold"], row["source"]
    for row in golden["upper_bound"]:
        bound = float(selection.upper_bound(row["size"], row["epsilon"], row["delta"]))
        assert bound == pytest.approx(row["value"], abs=row["tolerance"]), row["source"]


def test_golden_imagenet_r(golden, shared_data):
    lines = (shared_data / "imagenet_r_train_class_sizes.csv").read_text().split()
    sizes = np.array([int(line.rsplit(",", 1)[1]) for line in lines[1:]])
    assert sizes.sum() == 24_000
    for row in golden["imagenet_r"]:
        event = events.TruncatedGeometric(epsilon=8 * row["share"], delta=1e-5 * row["share"])
        p = selection.law(event).release_probability(sizes)
        assert p.sum() == pytest.approx(row["expected"], abs=0.06), row["source"]
        assert abs(row["paper"] - p.sum()) <= 4 * math.sqrt(float((p * (1 - p)).sum())) + 0.5, row["source"]


# --- the joint Gaussian


def joint(epsilon: float, delta: float, count_weight: float) -> events.JointGaussian:
    return planning.joint_gaussian(Budget(epsilon=epsilon, delta=delta), count_weight)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("count_weight", [0.003, 0.1, 0.9])
def test_exact_privacy_of_the_joint_release(epsilon, count_weight):
    """By integration, for a new label and for labels of every size around the threshold, in both directions."""
    event = joint(epsilon, 1e-5, count_weight)
    turn = math.ceil(event.threshold)
    sizes = sorted({0, 1, 2, turn // 2, turn - 1, turn, turn + 1, 2 * turn, 3 * turn, 10 * turn})
    divergences = [selection.divergence(event, max(size, 0), epsilon) for size in sizes]
    assert max(divergences) <= 1e-5 * (1 + 1e-9)
    assert divergences[0] == pytest.approx(1e-5, rel=1e-6)
    assert divergences[-1] == pytest.approx(1e-5, rel=1e-3)  # the count slot is rounded down to grid steps


def test_joint_divergence_golden():
    """THEORY section 4: n = 0 -> 1: 1.0e-5; 51 -> 52: 9.2e-6; 153 -> 154: 1.0e-5."""
    event = joint(1.0, 1e-5, 0.1)
    assert selection.divergence(event, 0, 1.0) == pytest.approx(1.0e-5, rel=1e-6)
    assert selection.divergence(event, 51, 1.0) == pytest.approx(9.2e-6, rel=1e-2)
    assert selection.divergence(event, 153, 1.0) == pytest.approx(1.0e-5, rel=1e-4)


def test_joint_divergence_is_the_sampled_one(rng):
    """Independent oracle: Monte Carlo over count slot and sum, with the likelihood ratio written out."""
    event = events.JointGaussian(noise_multiplier=1.2, count_weight=0.3, threshold=4.0)
    size, epsilon, trials = 4, 0.4, 400_000
    c, a, sigma = math.sqrt(0.3), math.sqrt(0.7), 1.2
    noise = rng.rounded_gaussian(sigma * 2**20, (2, trials)) / 2**20
    u, w = c * (size + 1) + noise[0], a * (size + 1) + noise[1]
    seen = u > c * event.threshold
    loss = (c * (u - c * size) + a * (w - a * size) - 0.5) / sigma**2
    sampled = np.where(seen, np.maximum(0, 1 - np.exp(epsilon - loss)), 0.0)
    hidden = 1 - selection.law(event).release_probability([size, size + 1])
    expected = selection.divergence(event, size, epsilon) - max(0.0, hidden[1] - math.exp(epsilon) * hidden[0])
    assert sampled.mean() == pytest.approx(expected, abs=5 * sampled.std() / math.sqrt(trials))


def test_joint_without_its_threshold_is_caught():
    event = joint(1.0, 1e-5, 0.1)
    broken = events.JointGaussian(
        noise_multiplier=event.noise_multiplier, count_weight=0.1, threshold=event.threshold - 2
    )
    assert selection.divergence(broken, 0, 1.0) > 1.5e-5
    assert accounting.delta(broken, 1.0) > 1.5e-5


def test_exposure_takes_the_worst_split():
    """Enumerates every partition of j examples over new labels."""
    rule = selection.GaussianLaw(events.JointGaussian(noise_multiplier=1.0, count_weight=0.5, threshold=6.0))

    def partitions(n: int, largest: int) -> list[list[int]]:
        if n == 0:
            return [[]]
        return [[k, *rest] for k in range(min(n, largest), 0, -1) for rest in partitions(n - k, k)]

    for j, chance in enumerate(rule.exposures(8)):
        quiet = [math.prod(1 - float(rule.release_probability(k)) for k in split) for split in partitions(j, j)]
        assert chance == pytest.approx(1 - min(quiet), rel=1e-9, abs=1e-16)


def test_gaussian_threshold_rounds_towards_privacy():
    for exposure in (1e-15, 1e-5, 0.1):
        tau = selection.gaussian_threshold(3.7, 0.1, exposure)
        with mpmath.workdps(50):
            c = mpmath.mpf(selection.count_step(0.1)) / selection.SCALE
            passed = mpmath.ncdf((1 - mpmath.mpf(tau)) * c / 3.7)
        assert exposure * (1 - 1e-9) <= float(passed) <= exposure


def test_unknown_rule_is_refused():
    with pytest.raises(errors.UnsupportedEvent, match="No selection rule"):
        selection.law(events.Gaussian(noise_multiplier=1.0))  # type: ignore[call-overload]


def test_smallest_class_is_the_smallest():
    rule = selection.law(events.OptimalSelection(epsilon=0.05, delta=1e-6))
    for probability in (0.5, 0.99):
        size = selection.smallest_class(rule, probability)
        assert rule.release_probability(size) >= probability > rule.release_probability(size - 1)


def test_analytic_shift_agrees():
    """The divergence of a label that is always released is the plain Gaussian's."""
    event = joint(1.0, 1e-5, 0.1)
    assert selection.divergence(event, 10_000, 0.7) == pytest.approx(
        gaussian.delta(1 / event.noise_multiplier, 0.7), rel=1e-5
    )
