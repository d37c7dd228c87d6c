"""Accuracy between measured points, by hand."""

import dataclasses

import pytest

from reticent import Budget, errors
from reticent.privacy import expected, planning

CURVE = expected.Curve(
    data="toy",
    labels=3,
    sizes=(10.0, 100.0, 1_000.0),
    signals=(1.0, 10.0, 1_000.0),
    accuracy=((0.1, 0.2, 0.3), (0.4, 0.6, 0.8), (0.5, 0.7, 0.9)),
)


@pytest.mark.parametrize(
    ("size", "signal", "accuracy"),
    [
        (100, 10, 0.6),
        (10, 1, 0.1),
        (1_000, 1_000, 0.9),
        (1, 0.01, 0.1),  # outside, the nearest
        (10**6, 10**6, 0.9),
        (1, 10**6, 0.3),
        (10**6, 0.01, 0.5),
        (100, 100, 0.7),  # half way, by logarithms
        (1_000**0.5, 10, 0.4),
        (1_000**0.5, 100, 0.475),
        (100 * 10**0.5, 10**0.5, 0.55),
    ],
)
def test_accuracy_is_interpolated_by_logarithms(size, signal, accuracy):
    assert CURVE.at(size, size / signal) == pytest.approx(accuracy)


def test_a_label_that_is_not_released_is_never_right():
    plan = planning.plan(Budget(epsilon=1.0, delta=1e-5), class_sizes=[40, 500])
    guess = expected.expected(plan, CURVE)
    first = plan.classes[0]
    assert 0.1 < first.release_probability < 0.9999
    assert plan.sigma is not None
    assert guess.public == CURVE.at(40, plan.sigma_without_labels)
    assert guess.released == pytest.approx(first.release_probability * CURVE.at(40, plan.sigma))
    assert (guess.epsilon, guess.release_probability) == (1.0, first.release_probability)
    whole = dataclasses.replace(plan, sigma=None)  # all of the budget for labels leaves no sums
    assert expected.expected(whole, CURVE).released == 0
    assert guess.json() == dataclasses.asdict(guess)
    assert CURVE.json() == dataclasses.asdict(CURVE)


def test_stored_curves_rise_in_sizes_and_signals():
    assert len(set(expected.names())) == len(expected.names()) > 0
    for name in expected.names():
        curve = expected.like(name)
        assert curve.data == name
        assert list(curve.sizes) == sorted(set(curve.sizes))
        assert list(curve.signals) == sorted(set(curve.signals))
        assert all(len(row) == len(curve.signals) for row in curve.accuracy)
        assert len(curve.accuracy) == len(curve.sizes)
        assert curve.labels > 1
    with pytest.raises(errors.InvalidValue, match="Expected --like with one of"):
        expected.like("unheard of")
    assert expected.EPSILONS == (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
