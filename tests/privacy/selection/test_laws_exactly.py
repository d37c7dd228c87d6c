"""Laws and divergences at their edges: found by mutants that survived the other tests."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from reticent import errors
from reticent.numerics import precision
from reticent.privacy import accounting, events, pld, profiles, selection
from reticent.privacy.selection import divergences, laws


def test_probabilities_are_rounded_down_to_coins():
    with precision.bits(laws.WORKING_BITS) as mp:
        third = mp.mpf(1) / 3
        assert laws.to_coin(third, mp) == 2**256 // 3
        assert laws.to_coin(mp.mpf(1), mp) == 2**256
        epsilon, delta = laws.with_margin(events.OptimalSelection(epsilon=0.5, delta=0.25), mp)
        assert epsilon == mp.mpf(0.5) * (1 - mp.mpf(2) ** -64)
        assert delta == mp.mpf(0.25) * (1 - mp.mpf(2) ** -64)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-6), (1.0, 1e-5), (8.0, 0.1), (0.5, 0.9)])
def test_optimal_coins_solve_the_recursion_with_their_margin(epsilon, delta):
    law = selection.OptimalLaw(events.OptimalSelection(epsilon=epsilon, delta=delta))
    with precision.bits(2 * laws.WORKING_BITS) as mp:
        part = 1 - mp.ldexp(1, -64)
        up, slip, probability = mp.exp(epsilon * part), delta * part, mp.mpf(0)
        for size in range(2 * law.turn + 4):
            assert abs(law.coin(size) - mp.ldexp(probability, 256)) <= 2**32
            probability = min(up * probability + slip, 1 - (1 - probability - slip) / up, 1)
    assert law.coin(-1) == 0


def test_the_truncation_point_is_one_more_where_rounding_would_overspend():
    """Here delta is the exact chance of a single example at k = 3 to 64 bits: with the margin of the coins k is 4."""
    law = selection.TruncatedGeometricLaw(
        events.TruncatedGeometric(epsilon=0.9071044921875, delta=0.029046973766990947)
    )
    with precision.bits(laws.WORKING_BITS) as mp:
        assert mp.ceil(laws.turning_point(law.event.epsilon, law.event.delta, mp)) == 3
    assert law.k == 4


@pytest.mark.parametrize("delta", [0.3, 0.5, 0.8])
def test_laplace_with_a_large_delta(delta):
    law = selection.LaplaceLaw(events.LaplaceThreshold(epsilon=0.7, delta=delta))
    sizes = np.arange(6)
    tau = law.threshold
    expected = [
        0.0,
        *(0.5 * math.exp(-0.7 * (tau - n)) if n <= tau else 1 - 0.5 * math.exp(0.7 * (tau - n)) for n in sizes[1:]),
    ]
    assert law.release_probability(1) == pytest.approx(delta, rel=1e-12)
    np.testing.assert_allclose(law.release_probability(sizes), expected, rtol=1e-12)
    np.testing.assert_allclose([law.coin(int(n)) / 2**256 for n in sizes], expected, rtol=1e-12)


def test_the_turn_of_a_test_is_where_it_passes_more_often_than_not():
    assert selection.BinaryTestLaw(1.0, lambda n: 0.1).threshold == 10_000
    assert selection.BinaryTestLaw(1.0, lambda n: 0.9 if n >= 9_999 else 0.5).threshold == 9_999
    law = selection.BinaryTestLaw(1.0, lambda n: 1 / 3 if n == 1 else 0.75)
    assert law.threshold == 2
    assert [law.coin(n) for n in (-1, 0, 1, 2)] == [0, 0, int(1 / 3 * 2**54) << 202, 3 << 254]
    assert law.release_probability([[0, 1], [2, -4]]).tolist() == [[0.0, 1 / 3], [0.75, 0.0]]


class Line:
    """A law of this test: n of 64 examples are released with probability n / 64."""

    event = events.LaplaceThreshold(epsilon=1.0, delta=0.1)
    threshold = 32.0

    def release_probability(self, sizes):
        return np.minimum(np.asarray(sizes) / 64, 1.0)


def test_smallest_classes_of_a_line():
    for size in range(1, 65):
        assert selection.smallest_class(Line(), size / 64) == size
        assert selection.smallest_class(Line(), (size - 0.5) / 64) == size


def test_upper_bounds_are_the_formula():
    for epsilon, delta in ((0.1, 1e-6), (2.0, 1e-9)):
        sizes = [0, 1, 2, 5]
        expected = [min(1.0, delta * math.expm1(n * epsilon) / math.expm1(epsilon)) for n in sizes]
        np.testing.assert_allclose(selection.upper_bound(sizes, epsilon, delta), expected, rtol=1e-12)
    assert selection.upper_bound(10_000, 1.0, 1e-5) == 1.0


def test_sizes_to_check_reach_beyond_the_turn():
    assert divergences.sizes_to_check(3.2).tolist() == list(range(10))
    assert divergences.sizes_to_check(-5.0).tolist() == [0, 1]
    assert divergences.sizes_to_check(10_000).tolist() == list(range(20_002))
    many = divergences.sizes_to_check(50_000.5).tolist()
    assert set(range(49_997, 50_004)) <= set(many)
    assert (many[0], many[-1]) == (0, 100_003)
    assert 990 <= len(many) <= 1_001
    assert many == sorted(set(many))


def test_hockey_sticks_look_both_ways():
    assert float(selection.hockey_stick([1.0, 0.0], [0.25, 0.75], math.log(2))) == pytest.approx(0.75)
    assert float(selection.hockey_stick([0.25, 0.75], [1.0, 0.0], math.log(2))) == pytest.approx(0.75)
    assert float(selection.hockey_stick([0.9, 0.1], [0.5, 0.5], math.log(3))) == pytest.approx(0.2)


@pytest.mark.parametrize("size", [1, 3, 4, 7])
def test_joint_divergence_is_the_one_on_a_grid(size):
    """Both directions, on a fine grid over the noisy count and the noisy sum; what is hidden is one outcome."""
    event = events.JointGaussian(noise_multiplier=1.2, count_weight=0.3, threshold=4.0)
    law = selection.GaussianLaw(event)
    c, a, sigma = 1.2 / law.count_noise, math.sqrt(0.7), 1.2
    step = 0.02
    u = c * 4.0 + step * (np.arange(700) + 0.5)  # beyond the threshold
    w = np.arange(-7.0, 7.0 + a, step)
    shown = [
        np.outer(norm.pdf(u, c * n, sigma), norm.pdf(w, a * (n - size), sigma)) * step**2 for n in (size, size + 1)
    ]
    hidden = [float(norm.cdf(c * 4.0, c * n, sigma)) for n in (size, size + 1)]
    p, q = (np.append(part.ravel(), rest) for part, rest in zip(shown, hidden, strict=True))
    for epsilon in (0.0, 0.4, 1.0):
        exact = float(selection.hockey_stick(p, q, epsilon))
        assert selection.divergence(event, size, epsilon) == pytest.approx(exact, rel=2e-3, abs=1e-6)


def test_chances_of_certain_exposure_are_no_more_than_one():
    for chance in (1.0, 1.5):
        exposed = profiles.Exposed(profiles.PlainGaussian(0.5), chance)
        assert exposed.delta(1.0) == 1.0
        assert exposed.epsilon(0.5) == math.inf
    assert profiles.Exposed(profiles.PlainGaussian(9.0), 0.7).delta(0.0) == 1.0


def test_selection_of_huge_classes_is_the_worst_pair_of_its_parameters():
    """(epsilon, delta)-DP and nothing else: delta + (1 - delta) (e^spent - e^epsilon) / (e^spent + 1)."""
    event = events.OptimalSelection(epsilon=0.01, delta=1e-9)
    assert selection.law(event).threshold > 1_000
    for epsilon in (0.0, 0.004, 0.009):
        expected = 1e-9 + (1 - 1e-9) * (math.exp(0.01) - math.exp(epsilon)) / (math.exp(0.01) + 1)
        assert profiles.OneSelection(event).delta(epsilon) == pytest.approx(expected, rel=1e-9)
    assert profiles.OneSelection(event).delta(0.01) == 1e-9


def test_selection_with_little_noise_may_lose_nearly_everything():
    event = events.LaplaceThreshold(epsilon=8.0, delta=0.1)
    drawn = selection.drawn_law(selection.law(event), range(6))
    exact = float(selection.hockey_stick(drawn[:, :-1], drawn[:, 1:], 0.0).max())
    assert exact > 0.8
    assert profiles.OneSelection(event).delta(0.0) == pytest.approx(exact, rel=1e-9)


def test_groups_of_examples_cost_their_closed_form():
    event = events.OptimalSelection(epsilon=0.2, delta=1e-6, examples_per_person=3)
    epsilon, delta = pld.group(event)
    assert epsilon == pytest.approx(0.6)
    assert delta == pytest.approx(1e-6 * math.expm1(0.6) / math.expm1(0.2), rel=1e-11)
    assert delta >= 1e-6 * math.expm1(0.6) / math.expm1(0.2)
    assert pld.group(events.OptimalSelection(epsilon=0.2, delta=1e-6)) == (0.2, 1e-6)
    assert pld.group(events.OptimalSelection(epsilon=90.0, delta=1e-6, examples_per_person=10)) == (900.0, 1.0)


@pytest.mark.parametrize("kind", [row.event for row in selection.TABLE])
def test_selections_with_parameters_beyond_use_are_refused(kind):
    for epsilon, delta in ((0.0, 1e-5), (1.0, 0.0), (1.0, 1.0), (-1.0, 1e-5), (1.0, -1e-5), (math.inf, 1e-5)):
        with pytest.raises(errors.InvalidValue):
            kind(epsilon=epsilon, delta=delta)
    assert accounting.delta(kind(epsilon=1.0, delta=0.999), 1.0) == 0.999
    assert mpmath.mp.prec == 53  # nothing above leaves a working precision behind
