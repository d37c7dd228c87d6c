"""The joint Gaussian release of one label, by integration."""

import math

import numpy as np
import pytest

from reticent.budget import Budget
from reticent.privacy import accounting, events, gaussian, planning, selection


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


def test_divergence_of_a_large_label_is_the_gaussian_one():
    """The divergence of a label that is always released is the plain Gaussian's."""
    event = joint(1.0, 1e-5, 0.1)
    assert selection.divergence(event, 10_000, 0.7) == pytest.approx(
        gaussian.delta(1 / event.noise_multiplier, 0.7), rel=1e-5
    )
