"""Loops of a step of DP-SGD: each row by itself, against slow versions and against broken ones."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reticent.gate import step_kernel
from reticent.numerics import precision
from reticent.numerics.loops import compiled
from reticent.sensitive.head import snapped

ROUNDING = 2.0**-20


@given(x=st.floats(-800.0, 0.0))
@example(x=-math.log(2.0) * 0.49999)  # where r is as far from zero as it can be
@example(x=-math.log(2.0) * 178.5)
def test_exponentials_are_close_everywhere(x):
    with precision.bits(120) as mp:
        exact = mp.exp(max(x, -700.0))
        assert abs(step_kernel.exp(x) / exact - 1) < 2.0**-41


def test_exponentials_keep_what_is_not_a_number():
    assert math.isnan(step_kernel.exp(math.nan))
    assert step_kernel.exp(-math.inf) == step_kernel.exp(-700.0) > 0
    assert step_kernel.exp(0.0) == 1.0


def errors_of(products, units, labels, bias=None, their_units=None) -> np.ndarray:
    products = np.asarray(products, np.float32)
    classes = products.shape[1]
    found = np.empty(products.shape)
    step_kernel.softmax_errors(
        products,
        np.asarray(units, np.float64),
        np.ones(classes) if their_units is None else np.asarray(their_units, np.float64),
        np.zeros(classes) if bias is None else np.asarray(bias, np.float64),
        np.asarray(labels, np.int64),
        found,
    )
    return found


@pytest.mark.parametrize("classes", [1, 2, 7, 8, 9, 64, 150])
def test_errors_are_those_of_softmax_and_depend_on_no_other_row(classes):
    draw = np.random.default_rng(classes)
    products = np.rint(1000 * draw.normal(size=(40, classes)))
    units, theirs, bias = draw.random(40) / 100, draw.random(classes) + 0.5, draw.normal(size=classes)
    labels = draw.integers(0, classes, size=37)
    found = errors_of(products, units, labels, bias, theirs)
    logits = products * units[:, None] * theirs + bias
    slow = np.exp(logits - logits.max(axis=1, keepdims=True))
    slow /= slow.sum(axis=1, keepdims=True)
    slow[np.arange(37), labels] -= 1
    np.testing.assert_allclose(found, slow, rtol=1e-11, atol=1e-12)
    for order in (np.arange(37)[::-1], np.arange(1, 37, 3), np.array([5])):
        assert (errors_of(products[order], units[order], labels[order], bias, theirs) == found[order]).all()


def test_errors_of_what_has_no_probabilities_are_not_numbers():
    """Logits beyond numbers, of either sign and in any one class, and labels that are no class: NaN throughout."""
    for bad in (np.nan, -np.nan, np.inf):
        for place in range(9):
            bias = np.zeros(9)
            bias[place] = bad
            assert np.isnan(errors_of(np.ones((2, 9)), [1.0, 1.0], [0, 8], bias)).all()
    mixed = errors_of(np.ones((4, 3)), [1.0, np.nan, 1.0, 1.0], [0, 0, 3, -1])
    assert np.isnan(mixed).all(axis=1).tolist() == [False, True, True, True]
    assert mixed[0].tolist() == pytest.approx([-2 / 3, 1 / 3, 1 / 3])
    below = errors_of([[0, 5, -3]], [1.0], [1], [0.0, -np.inf, 0.0])
    assert below[0].tolist() == pytest.approx([1 / (1 + math.exp(-3)), -1.0, 1 / (1 + math.exp(3))])


def test_errors_do_not_depend_on_what_all_logits_have_in_common():
    """Also where all of them are far below zero, or far above: the largest one is taken off first."""
    expected = errors_of([[0, 1, -2]], [1.0], [2])
    for common in (-5000.0, -3.0, 5000.0):
        found = errors_of([[0, 1, -2]], [1.0], [2], np.full(3, common))
        np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_the_largest_logit_is_taken_off_to_the_last_bit():
    """Next to 1e300 the last bit is 1e284: one bit off, and no class or every class would be the largest."""
    first = -1e300
    second = math.nextafter(first, 0.0)
    third = math.nextafter(second, 0.0)
    beside = ((first, second), (second, third), (-third, -second), (-second, -first))
    for low, high in (*beside, (first, 0.0), (0.0, -first)):
        for bias in ([low, high], [high, low]):
            found = errors_of([[0, 0]], [1.0], [bias.index(high)], bias)
            np.testing.assert_allclose(found, [[0.0, 0.0]], atol=1e-300)


def test_numbers_of_the_exponential_fit_together():
    with precision.bits(120) as mp:
        high, low = step_kernel._LOG2_HIGH, step_kernel._LOG2_LOW
        assert abs(mp.mpf(high) + mp.mpf(low) - mp.log(2)) < 2.0**-80
        assert abs(step_kernel._PER_LOG2 * mp.log(2) - 1) < 2.0**-53
    assert (high * 2.0**32).is_integer()  # so that whole numbers times it are exact
    whole = step_kernel._WHOLE
    assert math.ulp(whole) == math.ulp(whole - 2**20) == math.ulp(whole + 2**20) == 1.0
    assert np.float64(whole).view(np.int64) % 2**12 == 0
    assert np.float64(math.exp(step_kernel._BELOW)) > 2.0**-1022
    assert np.iinfo(np.int64).max == step_kernel._MAGNITUDE
    assert 0 < math.ldexp(1.0, -step_kernel._LEAST_EXPONENT) < math.inf
    assert step_kernel._IN_ANY_ORDER == ("reassoc",)  # and nothing about what is not finite


def test_rows_at_the_edge_of_a_rule_are_scaled_alike():
    """A row is scaled first where its squares are extreme: a power of two more or less changes its unit alone."""
    row = np.array([[3.0, -5.0, 0.7]])
    values, unit = snapped(row)
    for power in (-1000, -340, -330, 0, 300, 330, 340, 1000):
        others, other = snapped(np.ldexp(row, power))
        if power > -900:
            assert (others == values).all()
            assert other[0] == pytest.approx(math.ldexp(unit[0], power), rel=1e-14)
        else:
            assert not (others * other[:, None] > math.ldexp(1.0, -890)).any()
    assert snapped(row.astype(np.float32))[0].tolist() == values.tolist()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_become_whole_numbers_of_the_given_norm(kind):
    """Each row by itself, also after one that is not finite; zero stays zero, and small rows are as good as others."""
    rows = np.array([[3, -4], [0, 0], [np.nan, 1], [5, 12], [0, -np.inf], [1e-30, 0], [1e30, 1e30]], kind)
    values, units = np.full(rows.shape, 7, np.int16), np.full(len(rows), 7.0)
    step_kernel.snap_rows(rows, 4096.0, values, units)
    whole = [[2458, -3277], [0, 0], [0, 0], [1575, 3781], [0, 0], [4096, 0], [2896, 2896]]
    assert np.array_equal(values, whole)
    lengths = np.array([5.0, 1.0, np.nan, 13.0, np.nan, kind(1e-30), np.sqrt(2.0) * kind(1e30)])
    np.testing.assert_allclose(units, lengths / 4096, rtol=1e-14)
    tiny = np.array([[1e-300, 0.0]])
    step_kernel.snap_rows(tiny, 4096.0, values[:1], units[:1])
    assert (values[0].tolist(), units[0]) == ([4096, 0], pytest.approx(1e-300 / 4096))


def test_eighths_are_rounded():
    every = np.arange(-(2**15), 2**15).astype(np.int16).reshape(128, 512)
    found = np.empty(every.shape, np.float32)
    step_kernel.eighths(every, found)
    assert (found == (every.astype(np.int64) + 4) // 8).all()
    assert np.abs(found - every / 8.0).max() == 0.5


def clipped_by(loop, norms, most) -> list[float]:
    norms = np.asarray(norms, np.float64)
    found = np.empty(norms.shape[1])
    loop(norms, most, ROUNDING, found)
    return [float(scale) for scale in found]


def exceeds(scales: list[float], norms, most: float) -> bool:
    return any(
        sum((Fraction(scale) * Fraction(norm)) ** 2 for norm in column) > Fraction(most) ** 2
        for scale, column in zip(scales, zip(*norms, strict=True), strict=True)
    )


NORM = st.one_of(st.floats(0.0, 1e150), st.floats(0.0, 3.0))


@given(first=st.lists(NORM, min_size=4, max_size=4), most=st.sampled_from([1e-20, 0.3, 1.0, 1e20]))
def test_scales_never_leave_more_than_the_clipping_norm(first, most):
    norms = [first, first[::-1]]
    assert not exceeds(clipped_by(step_kernel.clipping_scales, norms, most), norms, most)


def test_scales_that_forget_a_parameter_are_noticed():
    """The broken twin clips the first norm alone."""

    def forgetful(norms, most, rounding, out):
        step_kernel.clipping_scales(norms[:1], most, rounding, out)

    norms = [[0.9, 2.0], [0.9, 0.1]]
    assert not exceeds(clipped_by(step_kernel.clipping_scales, norms, 1.0), norms, 1.0)
    assert exceeds(clipped_by(forgetful, norms, 1.0), norms, 1.0)


@pytest.mark.parametrize(("norm", "scale"), [(1.4, 1.0), (1.5, 1.0), (1.6, 0.0), (9.0, 0.0)])
def test_what_a_factor_leaves_too_long_is_not_used(norm, scale):
    """The second look by itself: a rounding of -1 asks for twice the clipping norm, and 1.5 of it are let through."""
    found = np.empty(1)
    step_kernel.clipping_scales(np.array([[norm]]), 1.0, -1.0, found)
    assert found.tolist() == [scale]


def factors_of(errors, on_weight, on_bias, squares) -> tuple[np.ndarray, np.ndarray]:
    left, found = np.empty(np.shape(errors)), np.empty(len(errors))
    step_kernel.whole_factors(
        np.asarray(errors, float), np.asarray(on_weight, float), np.asarray(on_bias, float), squares, left, found
    )
    return left, found


@pytest.mark.parametrize("classes", [1, 3, 16, 37])
def test_factors_are_truncated_and_measured_as_they_are_added(classes):
    draw = np.random.default_rng(classes)
    errors = draw.normal(size=(5, classes)) / math.sqrt(classes)
    on_weight, on_bias = np.full(5, 2.0**20), np.full(5, 2.0**30)
    right = draw.integers(1, 2**20, size=5).astype(float)
    left, squares = factors_of(errors, on_weight, on_bias, right)
    bias = [[math.trunc(e * 2.0**30) for e in row] for row in errors]
    assert left.tolist() == [[math.trunc(e * 2.0**20) for e in row] for row in errors]
    for row in range(5):
        exact = sum(int(n) ** 2 for n in left[row]) * int(right[row]) + sum(n * n for n in bias[row])
        assert squares[row] == pytest.approx(exact, rel=2.0**-40)
    sums = np.zeros(classes, np.int64)
    kept = np.array([True, False, True, False, True])
    step_kernel.keep(errors, on_bias, kept, left, sums)
    assert sums.tolist() == [bias[0][j] + bias[2][j] + bias[4][j] for j in range(classes)]
    assert left.any(axis=1).tolist() == kept.tolist()


def test_what_is_not_finite_has_no_norm_and_adds_nothing():
    errors = np.array([[np.nan, 1.0], [np.inf, 0.0], [1.0, 1.0]])
    left, squares = factors_of(errors, [1.0] * 3, [1.0, 1.0, np.nan], np.ones(3))
    kept = squares <= 2.0**80
    assert kept.tolist() == [False, False, False]
    sums = np.zeros(2, np.int64)
    step_kernel.keep(errors, np.ones(3), kept, left, sums)
    assert (left.tolist(), sums.tolist()) == ([[0.0, 0.0]] * 3, [0, 0])


def test_whole_numbers_are_added_exactly():
    sums = np.array([1, -(2**62), 7], np.int64)
    step_kernel.add_whole(sums, np.array([2.0**53, -1.0, -8.0]))
    assert sums.tolist() == [2**53 + 1, -(2**62) - 1, -1]


def test_divisions_by_zero_raise_nothing():
    from numba import types

    @compiled(types.float64(types.float64, types.float64), fastmath=())
    def divide(a, b):
        return a / b

    assert divide(1.0, 0.0) == math.inf
    assert math.isnan(divide(0.0, 0.0))
