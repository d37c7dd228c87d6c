"""Steps of DP-SGD: noise with its exact scale, Poisson batches, no step that was not paid for."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2

from reticent import errors
from reticent.gate.grid import TERM_SCALE
from reticent.gate.noise import NoiseSource
from reticent.gate.outer_products import Directions, OuterProducts
from reticent.gate.step import Block, NoisySteps, flattened, on_the_grid
from reticent.privacy import events
from reticent.sensitive.head import HeadGradients
from tests.conftest import ALPHA

POINT = np.zeros(5000)


class Nothing:
    """No gradient at all: what is left is noise."""

    start = {"a": np.zeros((40, 50), np.float32), "b": np.zeros(3000, np.float32)}  # noqa: RUF012
    size = 5

    def blocks(self, parameters, rows):
        return ()


def steps(noise: float, clip_norm: float = 1.0, rate: float = 0.5, count: int = 3, *, ahead: bool = True) -> NoisySteps:
    return NoisySteps(events.DpSgd(noise_multiplier=noise, rate=rate, steps=count), clip_norm, ahead)


def has_scale(values: np.ndarray, noise_multiplier: float) -> bool:
    """Two-sided chi-square test of the variance of the noisy sums."""
    statistic = float(np.sum(values**2)) / noise_multiplier**2
    return bool(2 * min(chi2.cdf(statistic, values.size), chi2.sf(statistic, values.size)) >= ALPHA)


@pytest.mark.parametrize(("noise", "clip_norm"), [(0.7, 1.0), (3.0, 0.01), (12.0, 50.0)])
def test_noise_has_its_scale(noise, clip_norm, rng):
    draw = steps(noise, clip_norm, count=10)(Nothing(), rng=rng)
    assert has_scale(np.array([draw(POINT) for _ in range(10)]), noise)
    mutant = steps(noise / 2, clip_norm, count=10)(Nothing(), rng=rng)
    assert not has_scale(np.array([mutant(POINT) for _ in range(10)]), noise)


def test_the_slack_is_paid_for():
    asked = []

    class Watched(NoiseSource):
        def rounded_gaussian(self, sigma, shape):
            asked.append(sigma)
            return super().rounded_gaussian(sigma, shape)

    draw = steps(2.0)(Nothing(), rng=Watched(seed=1))
    for _ in range(3):
        draw(POINT)
    slack = math.sqrt(5000) * 2**-24
    assert asked == pytest.approx([2.0 * 2**24 * (1 + slack)] * 3, rel=1e-15)
    assert asked[0] > 2.0 * 2**24


WORDS = st.integers(-(2**63), 2**63 - 1)


@given(sums=st.lists(WORDS, min_size=1, max_size=5), noise=st.lists(st.integers(-(2**52), 2**52), min_size=5))
@example(sums=[2**63 - 1, -(2**63)], noise=[2**30] * 5)
def test_sums_that_wrap_around_are_post_processing(sums, noise):
    """A batch so large that int64 wraps still gives a function of the noisy sum, and of nothing else."""
    total, drawn = np.array(sums, np.int64), np.array(noise[: len(sums)], np.int64)
    found = (on_the_grid([total[:1], total[1:]], drawn) * 2.0**24).tolist()
    for wraps in (0, 1, -3):  # the sums that int64 cannot tell from these
        exact = [(s + wraps * 2**64) // 2**16 + z for s, z in zip(sums, noise, strict=False)]
        assert found == [(value + 2**47) % 2**48 - 2**47 for value in exact]


def test_sums_are_exact_for_any_number_of_examples():
    """A float64 sum of a million thirds is off in its last bits; whole numbers are not, whatever was added before."""
    thirds = Block({"a": np.full((1 << 20, 1), 1 / 3)})
    sums = {"a": np.array([2**62], np.int64)}
    thirds.add(sums, np.ones(1 << 20))
    assert sums["a"].tolist() == [2**62 + (1 << 20) * (2**40 // 3)]


def test_no_gradient_adds_more_than_its_norm_says():
    """The gate measures what it adds: scales that are too large for a gradient leave it out."""
    errors_, values = np.array([[3.0, -3.0], [0.1, -0.1]]), np.array([[8, 6], [8, 6]], np.int16)
    outer = OuterProducts("w", "b", errors_, Directions.of(values), np.ones(2))
    for rows, kept in ((np.array([[0.0], [0.0]]), 1), (np.array([[np.nan], [0.7]]), 1), (np.array([[0.0], [1.6]]), 0)):
        sums = {name: np.zeros(shape, np.int64) for name, shape in (("w", (2, 2)), ("b", 2), ("a", 1))}
        Block({"a": rows}, outer).add(sums, np.full(2, 0.5))
        squared = sum(n * n for value in sums.values() for n in value.ravel().tolist())
        assert (squared > 0) == kept
        assert squared <= int(TERM_SCALE) ** 2


def test_empty_batches_draw_noise(rng):
    for size, labels in ((0, []), (3, [-1, -1, -1])):
        gradients = HeadGradients(np.zeros((size, 4), np.float32), np.array(labels, dtype=np.int64), 3)
        draw = steps(1.0)(gradients, rng=rng)
        assert all((draw(flattened(gradients.start)) != 0).all() for _ in range(3))


@pytest.mark.parametrize("ahead", [True, False])
def test_steps_end_with_the_event(ahead, rng):
    draw = steps(1.0, count=2, ahead=ahead)(Nothing(), rng=rng)
    for _ in range(2):
        assert draw(POINT).shape == POINT.shape
    for _ in range(2):
        with pytest.raises(errors.NotPaidFor, match="All steps that were paid for are drawn"):
            draw(POINT)


def test_batches_are_poisson(rng):
    sizes = []

    class Counting(Nothing):
        size = 1000

        def blocks(self, parameters, rows):
            sizes.append(len(rows))
            assert len(np.unique(rows)) == len(rows)
            return ()

    draw = steps(1.0, rate=0.1, count=50)(Counting(), rng=rng)
    for _ in range(50):
        draw(POINT)
    assert binomtest(sum(sizes), 50_000, 0.1).pvalue >= ALPHA
    assert len(set(sizes)) > 5
    steps(1.0, rate=1.0, count=1)(Counting(), rng=rng)(POINT)
    assert sizes[-1] == 1000


def test_prefetching_changes_no_draw():
    """The same seed gives the same sums with and without it; only the time differs."""
    draw = np.random.default_rng(0)
    gradients = HeadGradients(draw.normal(size=(50, 4)).astype(np.float32), draw.integers(0, 3, size=50), 3)
    found = []
    for ahead in (True, False):
        step = steps(1.0, count=6, ahead=ahead)(gradients, rng=NoiseSource.seeded(4))
        found.append([step(flattened(gradients.start)) for _ in range(6)])
    np.testing.assert_array_equal(found[0], found[1])
