"""Laws of label selection at their edges: sizes that cannot be, types of sizes, and the turn."""

import mpmath
import numpy as np
import pytest

from reticent.privacy import events, selection
from reticent.privacy.selection.laws import upper_bound

KINDS = (events.TruncatedGeometric, events.OptimalSelection, events.LaplaceThreshold)
SIZES = [0, 1, 2, 5, 9, 12, 13, 14, 20, 40]


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_below_one_are_never_released(kind):
    law = selection.law(kind(epsilon=1.0, delta=1e-5))
    assert [law.coin(size) for size in (-20, -3, -1, 0)] == [0, 0, 0, 0]
    assert law.release_probability([-20, -3, -1, 0]).tolist() == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int8])
def test_probabilities_are_computed_in_float64(kind, dtype):
    """Whatever type the sizes have: in float32 the chance of a single example is wrong in the seventh digit."""
    law = selection.law(kind(epsilon=0.7, delta=1e-5))
    found = law.release_probability(np.array(SIZES, dtype=dtype))
    assert found.dtype == np.float64
    assert found.tolist() == law.release_probability(SIZES).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8])
def test_noisy_counts_are_computed_in_float64(dtype):
    law = selection.GaussianLaw(events.LabelCounts(noise_multiplier=3.7, threshold=17.3))
    assert law.release_probability(np.array(SIZES, dtype=dtype)).tolist() == law.release_probability(SIZES).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_bounds_and_divergences_are_computed_in_float64(dtype):
    sizes = np.array(SIZES[1:], dtype=dtype)
    assert upper_bound(sizes, 0.7, 1e-5).tolist() == upper_bound(SIZES[1:], 0.7, 1e-5).tolist()
    p, q = np.array([0.1, 0.9], dtype=dtype), np.array([0.3, 0.7], dtype=dtype)
    wide = p.astype(np.float64), q.astype(np.float64)
    assert selection.hockey_stick(p, wide[1], 0.3) == selection.hockey_stick(*wide, 0.3)
    assert selection.hockey_stick(wide[0], q, 0.3) == selection.hockey_stick(*wide, 0.3)
    assert selection.hockey_stick(p, q, 0.3) == selection.hockey_stick(*wide, 0.3)


def test_a_test_that_counts_in_whole_numbers_has_probabilities():
    law = selection.BinaryTestLaw(1.0, lambda n: int(n > 3))
    assert law.release_probability([1, 4]).dtype == np.float64
    assert law.release_probability([-1, 0, 3, 4]).tolist() == [0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("epsilon", [8.0, 20.0, 30.0])
def test_a_single_example_is_released_with_chance_delta_to_the_last_digit(epsilon):
    """Where the law turns at the first example already: 1 - (1 - delta) would lose eleven digits."""
    law = selection.law(events.OptimalSelection(epsilon=epsilon, delta=1e-5))
    assert float(law.release_probability(1)) == pytest.approx(1e-5, rel=1e-14, abs=0)
    assert float(law.release_probability(1)) == pytest.approx(float(mpmath.mpf(law.coin(1)) / 2**256), rel=1e-14, abs=0)


def test_every_size_is_visited_up_to_ten_thousand():
    assert selection.sizes_to_check(10_000).tolist() == list(range(20_002))
    assert len(selection.sizes_to_check(10_000.5)) < 1_010
