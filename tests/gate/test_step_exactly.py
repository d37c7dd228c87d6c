"""Steps of DP-SGD by hand: few gradients, noise that the test chooses, sums in whole numbers."""

import math
from typing import Any

import numpy as np
import pytest

from reticent import errors
from reticent.gate.grid import TERM_SCALE
from reticent.gate.outer_products import Directions, OuterProducts
from reticent.gate.step import Again, Block, NoisySteps, bounded, clipped_sum, flattened, split
from reticent.privacy import events
from tests.gate.told import Told

LIMIT = 1 - 2.0**-20  # of a clipped gradient, in clipping norms


class Given:
    """Gradients that the test gives: two parameters, one row for each example."""

    start = {"a": np.zeros((2, 2), np.float32), "b": np.zeros(1, np.float32)}  # noqa: RUF012

    def __init__(self, a: list[list[float]], b: list[list[float]]) -> None:
        self.a, self.b, self.size = np.array(a, float), np.array(b, float), len(b)
        self.seen: list[Any] = []

    def blocks(self, parameters, rows):
        self.seen.append(({name: value.tolist() for name, value in parameters.items()}, rows.tolist()))
        for row in rows:
            yield Block({"a": self.a[[row]], "b": self.b[[row]]})


def test_a_step_is_the_sum_of_clipped_gradients_plus_noise():
    gradients = Given(a=[[0.5, 0, 0, 0], [0, 0, -0.25, 0.5]], b=[[0.25], [-1.0]])
    noise = [1, -2, 3, 4, 5]
    source = Told(noise, noise)
    event = events.DpSgd(noise_multiplier=3.0, rate=1.0, steps=2)
    steps = NoisySteps(event, 2.0, ahead=False)(gradients, rng=source)
    sums = steps(np.arange(5.0))
    expected = np.array([0.25, 0, -0.125, 0.25, -0.375]) + np.array(noise) / 2**24
    assert sums.tolist() == expected.tolist()
    assert gradients.seen == [({"a": [[0.0, 1.0], [2.0, 3.0]], "b": [4.0]}, [0, 1])]
    assert source.asked == [(3.0 * (1 + math.sqrt(5) / 2**24) * 2**24, 5)]
    assert steps.left == 1
    steps(np.zeros(5))
    assert steps.left == 0


def test_batches_are_drawn_by_coins_of_the_rate():
    asked = []

    class Coins(Told):
        def successes(self, n, chance):
            import mpmath

            asked.append((n, float(chance(mpmath))))
            return np.array([1])

    gradients = Given(a=[[1.0, 0, 0, 0], [0, 1.0, 0, 0]], b=[[0.0], [0.0]])
    steps = NoisySteps(events.DpSgd(noise_multiplier=1.0, rate=0.25, steps=1), 2.0)(gradients, rng=Coins(0))
    assert steps(np.zeros(5)).tolist() == [0.0, 0.5, 0.0, 0.0, 0.0]
    assert asked == [(2, 0.25)]


def test_long_gradients_are_scaled_to_the_clipping_norm_together():
    """The norm is over all parameters; at most the norm is added, and hardly less."""
    gradients = Given(a=[[6.0, 0, 0, 0]], b=[[8.0]])
    sums = clipped_sum(gradients, gradients.start, np.array([0]), 0.5)
    total = math.hypot(sums["a"].ravel()[0], sums["b"][0]) / TERM_SCALE
    assert LIMIT * (1 - 1e-9) <= total <= 1
    assert sums["a"].ravel()[0] / sums["b"][0] == pytest.approx(0.75)


def test_factors_of_clipping_are_exact():
    norms = {"a": np.array([0.0, 1.0, 3.0, np.inf, np.nan, 1e-300, 1e300]), "b": np.array([0.0, 0, 4.0, 0, 0, 0, 0])}
    found = bounded(norms, 2.0)
    assert found[:2].tolist() == [1.0, 1.0]
    assert found[2] == pytest.approx(2.0 * LIMIT / 5, rel=1e-14)
    assert found[3:5].tolist() == [0.0, 0.0]
    assert found[5] == 1.0
    assert found[6] in (0.0, pytest.approx(2e-300))
    at = bounded({"a": np.array([2.0 * LIMIT, 2.0])}, 2.0)
    assert at[0] == 1.0
    assert at[1] == pytest.approx(LIMIT, rel=1e-14)


def test_more_gradients_than_examples_are_refused():
    class Twice(Given):
        def blocks(self, parameters, rows):
            yield Block({"a": self.a, "b": self.b})
            yield Block({"a": self.a, "b": self.b})

    gradients = Twice(a=[[1.0, 0, 0, 0]], b=[[0.0]])
    with pytest.raises(errors.InvalidValue, match="one gradient for each example"):
        clipped_sum(gradients, gradients.start, np.array([0]), 1.0)


def test_a_step_that_is_made_anew_counts_nothing_twice():
    class Tired(Given):
        tired = True

        def blocks(self, parameters, rows):
            for number, row in enumerate(rows):
                if number == 1 and self.tired:
                    self.tired = False
                    raise Again
                yield Block({"a": self.a[[row]], "b": self.b[[row]]})

    gradients = Tired(a=[[0.5, 0, 0, 0], [0, 0.5, 0, 0]], b=[[0.0], [0.25]])
    sums = clipped_sum(gradients, gradients.start, np.array([0, 1]), 1.0)
    assert (sums["a"] / TERM_SCALE).tolist() == [[0.5, 0.5], [0.0, 0.0]]
    assert (sums["b"] / TERM_SCALE).tolist() == [0.25]


def test_memory_that_runs_out_is_told_to_the_gradients():
    told = []

    class Full(Block):
        def add(self, sums, scales):
            raise MemoryError("full")

    class Generated(Given):
        def blocks(self, parameters, rows):
            try:
                yield Full({"a": self.a, "b": self.b})
            except MemoryError as error:
                told.append(str(error))
            yield Block({"a": self.a[:0], "b": self.b[:0]})

    class Listed(Given):
        def blocks(self, parameters, rows):
            return [Full({"a": self.a, "b": self.b})]

    rows = np.array([0])
    gradients = Generated(a=[[0.5, 0, 0, 0]], b=[[0.0]])
    clipped_sum(gradients, gradients.start, rows, 1.0)
    assert told == ["full"]
    listed = Listed(a=[[0.5, 0, 0, 0]], b=[[0.0]])
    with pytest.raises(MemoryError):
        clipped_sum(listed, listed.start, rows, 1.0)


def test_a_head_is_multiplied_out_exactly():
    """Errors times features, in whole numbers of 2^-40 clipping norms, with the scale of each example."""
    errors_ = np.array([[0.5, -0.5], [0.25, 0.0]])
    values, units = np.array([[3, 4], [0, 0]], np.int16), np.array([0.125, 1.0])
    outer = OuterProducts("w", "c", errors_, Directions.of(values), units)
    norms = outer.norms()
    assert norms["w"].tolist() == [math.sqrt(0.5) * 5 * 0.125, 0.0]
    assert norms["c"].tolist() == [math.sqrt(0.5), 0.25]
    sums = {"w": np.zeros((2, 2), np.int64), "c": np.zeros(2, np.int64)}
    Block({}, outer).add(sums, np.array([0.5, 1.0]))
    weights = 0.5 * errors_[0][:, None] * values[0] * 0.125
    assert (sums["w"] / TERM_SCALE).tolist() == weights.tolist()
    assert (sums["c"] / TERM_SCALE).tolist() == [0.5, -0.25]
    Block({}, outer).add(sums, np.array([0.5, 0.0]))  # the second is left out
    assert (sums["w"] / TERM_SCALE).tolist() == (2 * weights).tolist()
    assert (sums["c"] / TERM_SCALE).tolist() == [0.75, -0.5]


def test_parameters_are_split_and_joined_in_order():
    like = {"b": np.zeros((2, 1), np.float32), "a": np.zeros(3, np.float32)}
    parts = split(np.arange(5.0), like, np.float32)
    assert {name: part.tolist() for name, part in parts.items()} == {"b": [[0.0], [1.0]], "a": [2.0, 3.0, 4.0]}
    assert parts["a"].dtype == np.float32
    assert flattened(parts).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert flattened({}).dtype == np.float64
    assert np.isinf(split(np.array([1e300]), {"a": np.zeros(1, np.float32)}, np.float32)["a"]).all()


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, 1e-30, 1e30, math.nan, math.inf])
def test_clipping_norms_beyond_use_are_refused(clip_norm):
    event = events.DpSgd(noise_multiplier=1.0, rate=1.0, steps=1)
    with pytest.raises(errors.InvalidValue, match="clip_norm"):
        NoisySteps(event, clip_norm)
    assert NoisySteps(event, 1e-29).ahead
