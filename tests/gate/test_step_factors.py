"""Outer products of a head: whole numbers whose norm counts weights and bias together."""

import math
from typing import Any

import numpy as np
import pytest

from reticent.gate import outer_products
from reticent.gate.grid import TERM_SCALE
from reticent.gate.outer_products import Directions, OuterProducts
from reticent.gate.step import Block


def outer(error: float, value: int) -> OuterProducts:
    return OuterProducts(
        "w", "b", np.array([[error]]), Directions.of(np.array([[value]], np.int16)), np.array([2.0**-13])
    )


def added(error: float, value: int) -> dict[str, int]:
    sums = {"w": np.zeros((1, 1), np.int64), "b": np.zeros(1, np.int64)}
    Block({}, outer(error, value)).add(sums, np.ones(1))
    return {name: int(found.ravel()[0]) for name, found in sums.items()}


def test_directions_are_measured_by_the_gate():
    """Whole numbers of 16 bits, the largest included; more rows than are squared at a time; any others are refused."""
    draw = np.random.default_rng(0)
    values = draw.integers(-(2**15), 2**15, size=(outer_products._AT_ONCE * 2 + 3, 5)).astype(np.int16)
    values[0], values[-1] = -(2**15), 2**15 - 1
    found = Directions.of(values)
    assert found.squares.tolist() == [sum(n * n for n in row) for row in values.tolist()]
    some = found.taken(np.array([7, 0]))
    assert (some.values.tolist(), some.squares.tolist()) == (values[[7, 0]].tolist(), found.squares[[7, 0]].tolist())
    for other in (np.float64, np.int32, np.uint16):
        with pytest.raises(ValueError, match="16 bits"):
            Directions.of(values.astype(other))
    assert "sensitive" in repr(found)


def test_factors_are_whole_numbers():
    factors = outer(1 / 3, 5).factors(np.array([0.7]))
    assert factors.left.tolist() == [[math.trunc(0.7 / 3 * 2.0**27)]]
    bias = math.trunc(0.7 / 3 * TERM_SCALE)
    assert factors.squares.tolist() == [(factors.left[0, 0] * 5) ** 2 + float(bias) ** 2]
    weights, biases = np.zeros((1, 1), np.int64), np.zeros(1, np.int64)
    factors.add(weights, biases, np.array([True]))
    assert (weights.tolist(), biases.tolist()) == ([[5 * math.trunc(0.7 / 3 * 2.0**27)]], [bias])
    down = outer(-1 / 3, 5).factors(np.array([0.7]))
    assert (down.left + factors.left).tolist() == [[0.0]]


def test_norms_are_those_of_features_in_their_units():
    found = outer(-0.5, 3).norms()
    assert found["w"].tolist() == [0.5 * 3 * 2.0**-13]
    assert found["b"].tolist() == [0.5]


def test_the_norm_is_over_weights_and_bias():
    """0.6 and 0.8 fit, and 0.61 and 0.8 do not, though each does by itself."""
    fits = added(0.8, math.floor(2**13 * 0.75))
    assert fits["b"] == int(0.8 * TERM_SCALE)
    assert 0.599 < fits["w"] / TERM_SCALE <= 0.6
    assert added(0.8, math.floor(2**13 * 0.77)) == {"w": 0, "b": 0}
    assert added(0.99, 81)["b"] == int(0.99 * TERM_SCALE)


def test_features_of_length_zero_add_their_bias_alone():
    assert added(0.5, 0) == {"w": 0, "b": int(0.5 * TERM_SCALE)}


def test_what_is_not_finite_is_left_out_beside_what_is():
    errors_ = np.array([[0.25], [np.nan], [np.inf]])
    outer = OuterProducts("w", "b", errors_, Directions.of(np.ones((3, 1), np.int16)), np.ones(3))
    for scales in (np.ones(3), np.array([1.0, 0.0, 0.0])):
        sums = {"w": np.zeros((1, 1), np.int64), "b": np.zeros(1, np.int64)}
        Block({}, outer).add(sums, scales)
        assert {name: float(value.ravel()[0]) / TERM_SCALE for name, value in sums.items()} == {"w": 0.25, "b": 0.25}


def test_sums_of_more_rows_than_float64_holds_are_exact(monkeypatch):
    """In pieces: the largest products there can be, one more row than a piece has."""
    monkeypatch.setattr(outer_products, "_EXACT_ROWS", 4)
    n = 9
    outer = OuterProducts("w", "b", np.full((n, 1), 0.5), Directions.of(np.full((n, 1), 3, np.int16)), np.full(n, 0.25))
    sums = {"w": np.zeros((1, 1), np.int64), "b": np.zeros(1, np.int64)}
    Block({}, outer).add(sums, np.ones(n))
    assert {name: value.ravel().tolist() for name, value in sums.items()} == {
        "w": [n * 3 * 2**37],
        "b": [n * 2**39],
    }


def test_shapes_that_do_not_fit_are_refused():
    """Compiled loops do not look where an array ends, so the gate does."""
    values = Directions.of(np.ones((3, 2), np.int16))
    good = OuterProducts("w", "b", np.ones((3, 4)), values, np.ones(3))
    wrong = [
        (np.ones((2, 4)), values, np.ones(3)),
        (np.ones((3, 4)), values.taken(slice(0, 2)), np.ones(3)),
        (np.ones((3, 4)), Directions(values.values, np.ones(2)), np.ones(3)),
        (np.ones((3, 4)), values, np.ones(2)),
        (np.ones(3), values, np.ones(3)),
    ]
    for given in wrong:
        with pytest.raises(ValueError, match="for each example"):
            OuterProducts("w", "b", *given)
    with pytest.raises(ValueError, match="for each example"):
        good.factors(np.ones(2))
    for weight, bias, kept in (((4, 3), 4, 3), ((3, 2), 4, 3), ((4, 2), 3, 3), ((4, 2), 4, 2)):
        sums = np.zeros(weight, np.int64), np.zeros(bias, np.int64)
        with pytest.raises(ValueError, match="shapes of its parameters"):
            good.factors(np.ones(3)).add(*sums, np.ones(kept, np.bool_))
    whole = np.zeros((4, 2), np.int64), np.zeros(4, np.int64)
    good.factors(np.full(3, 2.0**-10)).add(*whole, np.ones(3, np.bool_))
    assert (np.unique(whole[0]).tolist(), np.unique(whole[1]).tolist()) == ([3 * 2**30], [3 * 2**30])


def test_errors_of_any_layout_are_added_alike():
    draw = np.random.default_rng(0)
    error, values = draw.normal(size=(5, 3)).astype(np.float32), Directions.of(np.ones((5, 2), np.int16))
    found = []
    same: Any
    for same in (error.astype(np.float64), error, np.asfortranarray(error), np.repeat(error, 2, axis=0)[::2]):
        sums = {"w": np.zeros((3, 2), np.int64), "b": np.zeros(3, np.int64)}
        Block({}, OuterProducts("w", "b", same, values, np.ones(5))).add(sums, np.full(5, 0.01))
        found.append({name: value.tolist() for name, value in sums.items()})
    assert found[0] == found[1] == found[2] == found[3]
    assert any(found[0]["b"])
