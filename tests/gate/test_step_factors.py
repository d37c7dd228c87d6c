"""Outer products of a head: whole numbers whose norm counts weights and bias together."""

import numpy as np

from reticent.gate.step import TERM_SCALE, Block, OuterProducts


def outer(error: float, length: float) -> OuterProducts:
    return OuterProducts("w", "b", np.array([[error]]), np.array([[length]]), np.array([2.0**-3]), np.array([length]))


def added(error: float, length: float) -> dict[str, int]:
    sums = {"w": np.zeros((1, 1), np.int64), "b": np.zeros(1, np.int64)}
    Block({}, outer(error, length)).add(sums, np.ones(1))
    return {name: int(value.ravel()[0]) for name, value in sums.items()}


def test_factors_are_whole_numbers():
    factors = outer(1 / 3, 5.0).factors(np.array([True]), np.array([0.7]))
    for part in (factors.left, factors.right, factors.bias):
        assert part.tolist() == np.trunc(part).tolist()
        assert part.any()
    assert factors.squares().dtype == np.float64
    squares = (factors.left * factors.right).ravel()[0] ** 2 + factors.bias.ravel()[0] ** 2
    assert factors.squares().tolist() == [squares]


def test_the_norm_is_over_weights_and_bias():
    """0.6 and 0.8 fit, and 0.61 and 0.8 do not, though each does by itself."""
    fits = added(0.8, 8 * 0.75 * (1 - 1e-6))
    assert fits["b"] == int(0.8 * TERM_SCALE)
    assert 0.599 < fits["w"] / TERM_SCALE <= 0.6
    assert added(0.8, 8 * 0.77) == {"w": 0, "b": 0}
    assert added(0.99, 8 * 0.01)["b"] == int(0.99 * TERM_SCALE)


def test_features_of_length_zero_add_their_bias_alone():
    assert added(0.5, 0.0) == {"w": 0, "b": int(0.5 * TERM_SCALE)}
