"""Losses of a sampled Gaussian: the library's dots of one step, and convolutions of them, both by other means here."""

import math
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.stats import norm

from reticent.privacy import events, gaussian, pld, sampled

CASES = [(0.74, 0.001, 2e-3), (1.84, 0.01, 1e-3), (7.57, 0.1, 3e-3), (0.5, 0.9, 0.05), (3.0, 0.5, 0.01)]


def parts(distribution: Any) -> Iterator[tuple[int, np.ndarray, float]]:
    """Both directions: lowest point, masses, mass of infinite loss."""
    for pmf in (distribution._pmf_remove.to_dense_pmf(), distribution._pmf_add.to_dense_pmf()):
        yield pmf._lower_loss, pmf._probs, pmf._infinity_mass


def mean(masses: np.ndarray) -> float:
    return float(masses @ np.arange(len(masses)))


@pytest.mark.parametrize(("noise", "rate", "width"), CASES)
def test_dots_are_those_of_the_library(noise, rate, width):
    library = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=width
    )
    for (lower, ours, infinite), (theirs, masses, their_infinite), curve in zip(
        parts(sampled.distribution(noise, rate, 1, width)),
        parts(library),
        (sampled.removed, sampled.added),
        strict=True,
    ):
        deltas = curve((theirs + np.arange(len(masses))) * width, noise, rate)
        np.testing.assert_allclose(sampled.connected(deltas, width), masses, rtol=0, atol=2e-13 / width)
        assert infinite == pytest.approx(their_infinite + sampled.TAIL, rel=1e-6)
        # one step keeps its points but for those that hold less than the tail
        kept = masses[lower - theirs :][: len(ours)]
        np.testing.assert_allclose(ours, kept, rtol=0, atol=2e-13 / width)
        assert masses.sum() - kept.sum() < 1e-14


def by_high_precision(epsilon: float, noise: float, rate: float) -> tuple[float, float]:
    """The mass of one law up to the best point minus e^epsilon times that of the other, for both directions."""
    with mpmath.workdps(40):
        q, factor = mpmath.mpf(rate), mpmath.exp(mpmath.mpf(epsilon))

        def below(x: Any, shift: int, share: Any) -> Any:
            return (1 - share) * mpmath.ncdf(x / noise) + share * mpmath.ncdf((x + shift) / noise)

        removed, added = 1 - factor, mpmath.mpf(0)
        if (inner := 1 + (factor - 1) / q) > 0:
            x = -mpmath.mpf(1) / 2 - noise**2 * mpmath.log(inner)
            removed = below(x, 1, q) - factor * below(x, 1, 0)
        if (inner := 1 + (1 / factor - 1) / q) > 0:
            x = mpmath.mpf(1) / 2 + noise**2 * mpmath.log(inner)
            added = below(x, -1, 0) - factor * below(x, -1, q)
        return float(removed), float(added)


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.5), (0.3, 0.001), (5.0, 0.2)])
def test_curves_are_those_of_high_precision(noise, rate):
    for epsilon in (-0.2, -0.0003, 0.0, 0.0005, 0.1, 1.5, 8.0):
        removed, added = by_high_precision(epsilon, noise, rate)
        given = np.array([epsilon])
        assert sampled.removed(given, noise, rate)[0] == pytest.approx(removed, abs=1e-15, rel=1e-9)
        assert sampled.added(given, noise, rate)[0] == pytest.approx(added, abs=1e-15, rel=1e-9)


def test_losses_at_their_ends_and_beyond_are_numbers():
    rate, noise = 0.3, 0.02
    end = math.log1p(-rate)
    around = np.array([-1e4, math.nextafter(end, -1), end, math.nextafter(end, 0), 0.0, 900.0, 1e5])
    removed = sampled.removed(around, noise, rate)
    assert removed[:3].tolist() == (-np.expm1(around[:3])).tolist()
    assert removed[3] == pytest.approx(rate, abs=1e-15)
    assert removed[5] == pytest.approx(
        rate * norm.sf(900.0 * noise - 0.5 / noise + noise * math.log(1 / rate)), rel=1e-9
    )
    assert removed[6] == 0.0
    added = sampled.added(-around, noise, rate)
    assert added[:4] == pytest.approx([0.0] * 4, abs=1e-15)
    assert added[:2].tolist() == [0.0, 0.0]
    assert added[5:].tolist() == [1.0, 1.0]
    assert sampled.removed(np.array([1.0]), 1.0, 1e-300).tolist() == [0.0]


@pytest.mark.parametrize(
    ("noise", "rate", "epsilon"),
    [(0.0227, 1e-6, 1040.0), (0.0232, 1e-9, 790.0), (0.1, 1 - 2.0**-53, 36.7), (0.2, 1 - 2.0**-53, 34.0)],
)
def test_extreme_rates_lose_no_mass(noise, rate, epsilon):
    """e^epsilon / rate is no float64, or e^-epsilon is next to 1 - rate: the mass there was once taken for none."""
    removed, added = by_high_precision(epsilon, noise, rate)
    assert max(removed, added) > 1e-10
    given = np.array([epsilon])
    assert sampled.removed(given, noise, rate)[0] == pytest.approx(removed, abs=1e-15, rel=1e-9)
    assert sampled.added(given, noise, rate)[0] == pytest.approx(added, abs=1e-15, rel=1e-9)


def test_large_losses_at_small_rates_count():
    part = pld.Part(events.DpSgd(noise_multiplier=0.0227, rate=1e-6, steps=1), 1)
    found = pld.compose(frozenset([part]), pld.FINE)
    assert found.delta(1_000.0) >= by_high_precision(1_000.0, 0.0227, 1e-6)[0] > 1e-7
    assert found.epsilon(1e-8) > 1_000  # it was 697


@pytest.mark.parametrize("side", [-math.inf, math.inf])
def test_no_rounding_at_an_end_is_beyond_it(side):
    """For some rates e^epsilon - 1 is below -rate in float64 at the last epsilon before the end."""
    for rate in np.linspace(0.001, 0.999, 2_000).tolist():
        end = np.array([math.nextafter(math.log1p(-rate), side)])
        assert sampled.removed(end, 1.0, rate) == pytest.approx(rate, abs=1e-14)
        assert sampled.added(-end, 1.0, rate) == pytest.approx(0.0, abs=1e-14)


def test_masses_have_the_divergence_of_every_dot():
    deltas, width = np.array([0.5, 0.25, 0.1, 0.02]), math.log(2)  # convex in e^epsilon
    masses = sampled.connected(deltas, width)
    for place, delta in enumerate(deltas):
        above = np.arange(len(masses)) - place
        found = deltas[-1] + np.sum(masses * np.maximum(0.0, -np.expm1(-above * width)))
        assert found == pytest.approx(delta, abs=1e-15)
    assert masses.sum() + deltas[-1] == pytest.approx(1.0, abs=1e-15)
    assert (masses > 0).all()


def test_dots_off_by_rounding_have_no_negative_masses():
    width = math.log(2)
    risen, flat = (sampled.connected(np.array([0.5, delta, 0.1]), width) for delta in (0.6, 0.5))
    assert risen.tolist() == flat.tolist()
    assert flat.tolist()[:2] == [0.5, 0.0]
    assert flat[2] == pytest.approx(0.8)


@pytest.mark.parametrize("steps", [1, 2, 7, 40])
@pytest.mark.parametrize("lowest", [-30, -3, 0, 11])
def test_steps_are_convolved(lowest, steps):
    masses = np.random.default_rng(steps).dirichlet(np.full(25, 0.2)) * 0.999
    total = np.ones(1)
    for _ in range(steps):
        total = np.convolve(total, masses)
    lower, found = sampled.repeated(lowest, masses, steps)
    offset = lower - steps * lowest
    assert offset >= 0
    np.testing.assert_allclose(found, total[offset : offset + len(found)], rtol=0, atol=1e-14)
    assert total[:offset].sum() + total[offset + len(found) :].sum() <= sampled.TAIL
    assert 0.999**steps - found.sum() < 1e-13
    assert (found >= 0).all()


def test_a_step_wider_than_the_sum_is_wound_around_the_circle():
    """Far points that hold next to nothing cost nothing: the grid is as wide as what the sum needs."""
    masses = np.zeros(200_001)
    masses[[0, 99_999, 100_000, 100_001, 200_000]] = 1e-300, 0.25, 0.5, 0.25, 1e-300
    lower, found = sampled.repeated(-100_000, masses, 100)
    assert len(found) < 20_000
    assert lower + mean(found) == pytest.approx(0.0, abs=1e-6)
    exact = np.ones(1)
    for _ in range(100):
        exact = np.convolve(exact, [0.25, 0.5, 0.25])
    np.testing.assert_allclose(found[-100 - lower :][: len(exact)], exact, rtol=0, atol=1e-14)


def test_bounds_on_tails_are_chernoffs():
    """Sums of coins: no bound is beyond the best of the orders, in either direction, nor beyond the last point."""
    masses, steps = np.array([0.75, 0.25]), 10_000
    lower, upper = sampled._reach(3, masses, steps)
    deviation = math.sqrt(steps * 0.75 * 0.25)
    assert 5.9 < (3 * steps + 0.25 * steps - lower) / deviation < 9.6
    assert 5.9 < (upper - 3 * steps - 0.25 * steps) / deviation < 9.6
    for end, sign in ((lower, -1), (upper, 1)):
        best = min(
            (steps * math.log(0.75 * math.exp(3 * sign * t) + 0.25 * math.exp(4 * sign * t)) + math.log(2e15)) / t
            for t in sampled._ORDERS / 4
        )
        assert sign * end == math.ceil(best)
    assert sampled._reach(-2, masses, 3) == (-6, -3)
    assert sampled._ORDERS[[0, 1, -1]].tolist() == [2.0**-10, 2.0**-9, 2.0**9]


def test_infinite_losses_and_tails_add_up():
    """Noise so small that a step's end is reached: what has infinite loss has it in any step."""
    one = [infinite - sampled.TAIL for _, _, infinite in parts(sampled.distribution(1.0, 0.5, 1, 0.01))]
    many = [infinite - sampled.TAIL for _, _, infinite in parts(sampled.distribution(1.0, 0.5, 1000, 0.01))]
    assert one[0] > 1e-30
    assert many == pytest.approx([1000 * part for part in one], rel=1e-6)
    assert sampled.TAIL == 1e-15


@pytest.mark.parametrize("noise", [0.1, 1.0, 1e4])
def test_a_rate_next_to_nothing_has_a_grid_of_two_points_or_more(noise):
    for lower, masses, _ in parts(sampled.distribution(noise, 5e-324, 3, 0.5)):
        assert lower <= 0
        assert masses.sum() == pytest.approx(1.0)


def test_it_is_composed_with_others():
    loss = pld.compose(
        frozenset(
            [
                pld.Part(events.DpSgd(noise_multiplier=2.0, rate=0.1, steps=10), 1),
                pld.Part(events.Gaussian(noise_multiplier=4.0), 1),
            ]
        ),
        pld.FINE,
    )
    alone = gaussian.delta(0.25, 0.5)
    assert alone < loss.delta(0.5) < 4 * alone


def test_full_batches_are_gaussians():
    full = pld.Part(events.DpSgd(noise_multiplier=2.0, rate=1.0, steps=4), 1).distribution(0.01)
    assert full.get_delta_for_epsilon(1.0) == pytest.approx(gaussian.delta(1.0, 1.0), rel=1e-3)
