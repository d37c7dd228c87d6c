"""A linear head: sums against a slow loop, products that are exact, clipping that never exceeds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reticent.gate.grid import TERM_SCALE
from reticent.gate.step import clipped_sum
from reticent.released.optimizers import Adam
from reticent.sensitive.head import Head, HeadGradients, _shortened, _whole_product, snapped
from reticent.sensitive.training import train
from tests.sensitive.by_hand import (
    agrees,
    batch_clipped,
    clipped,
    joined,
    moved,
    needs_torch,
    paid,
    settings,
    slow_sum,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def head_alone(x, y, parameters) -> list[dict[str, np.ndarray]]:
    import torch

    found = []
    for row, label in zip(x, y, strict=True):
        w, b = (torch.tensor(parameters[name].astype(np.float64), requires_grad=True) for name in parameters)
        loss = torch.nn.functional.cross_entropy(
            (w @ torch.tensor(row.astype(np.float64)) + b)[None], torch.tensor([label])
        )
        found.append(dict(zip(parameters, (g.numpy() for g in torch.autograd.grad(loss, [w, b])), strict=True)))
    return found


@needs_torch
@pytest.mark.parametrize("clip_norm", [0.3, 1.0, 100.0])
def test_head_sums_single_examples(clip_norm):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(90, 7)), draw.integers(0, 4, size=90)
    gradients = HeadGradients(x, y, 4)  # type: ignore[arg-type]  # float64, to compare closely
    at = moved(gradients.start)
    found = clipped(gradients, at, np.arange(90), clip_norm)
    alone = head_alone(x, y, at)
    assert agrees(found, slow_sum(alone, clip_norm), 1e-3)
    single = clipped(HeadGradients(x.astype(np.float32), y, 4), at, np.arange(90), clip_norm)
    assert agrees(single, slow_sum(alone, clip_norm), 1e-3)
    assert clip_norm == 100.0 or not agrees(found, batch_clipped(alone, clip_norm), 0.01)


@pytest.mark.parametrize("classes", [2, 10, 22, 100])
def test_head_blocks_change_nothing(classes):
    """Errors are the same, to the bit, beside any other rows of the batch and at any position."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(70, 384)).astype(np.float32), draw.integers(0, classes, size=70)
    at = moved(HeadGradients(x, y, classes).start)
    alone = np.concatenate([Head(at).errors(snapped(x[[i]]), y[[i]]) for i in range(70)])
    for order in (np.arange(70), np.arange(70)[::-1], draw.permutation(70), np.arange(1, 70), np.arange(0, 70, 3)):
        assert (Head(at).errors(snapped(x[order]), y[order]) == alone[order]).all()


@pytest.mark.parametrize("length", [10.0, 1e6])
def test_copies_of_an_example_count_alike(length):
    """An example between two classes, where a last bit of a long product decides: no copy may see other bits.

    Products in float32 move 16 copies apart by 1e-4 clipping norms at length 10, and by 3 at length 10^6.
    """
    draw = np.random.default_rng(0)
    weight = draw.normal(size=(22, 384)).astype(np.float32)
    at = {"head.weight": weight, "head.bias": np.zeros(22, np.float32)}
    apart, between = weight[0].astype(float) - weight[1], weight[0].astype(float) + weight[1]
    between -= apart * (between @ apart) / (apart @ apart)
    x = np.repeat(between[None] * length / np.linalg.norm(between), 16, axis=0).astype(np.float32)
    gradients = HeadGradients(x, np.full(16, 2), 22)
    one = joined(clipped(gradients, at, np.arange(1), 1.0))
    for copies in range(2, 17):
        together = joined(clipped(gradients, at, np.arange(copies), 1.0))
        assert (together == copies * one).all()


@pytest.mark.parametrize("width", [1, 2, 384, 1280, 5000, 200_000])
def test_products_of_snapped_rows_are_exact(width):
    """The largest whole numbers there can be, against Python's: no partial sum is beyond 2^24, which float32 holds."""
    draw = np.random.default_rng(width)
    rows = np.copysign(1 - 1e-3 * draw.random((3, width)), draw.normal(size=(3, width)))
    rows[0] = 1.0
    rows[1, 1:] = 0.0
    values, units = snapped(rows)
    shorter = _shortened(values)
    for whole, largest in ((values, 2**15), (shorter, 2**12)):
        assert (whole == np.rint(whole)).all()
        squares = [sum(int(n) ** 2 for n in row) for row in whole]
        assert 0.7 * largest**2 < max(squares) <= largest**2
    exact = [[sum(int(a) * int(b) for a, b in zip(r, s, strict=True)) for s in shorter] for r in shorter]
    assert max(abs(n) for row in exact for n in row) <= 2**24
    found = _whole_product(values, values)
    assert found.tolist() == exact
    assert np.allclose(values * units[:, None], rows, rtol=0, atol=0.51 * units.max())
    lengths = np.linalg.norm(rows, axis=1)  # a row is off by half a unit for each column at most
    most = 1.2 * math.sqrt(width) / 2**12 * np.outer(lengths, lengths)
    assert (np.abs(found * (64 * np.outer(units, units)) - rows @ rows.T) < most).all()


def test_tiny_huge_and_bad_rows_snap():
    rows = np.array([[0.0, 0.0], [5e-324, 0.0], [1e308, -1e-308], [3e-200, 4e-200], [np.inf, 1.0], [np.nan, 1.0]])
    values, units = snapped(rows)
    assert (values[:2] * units[:2, None]).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert values[1].tolist() == [round(2**15 - 1 - 4.5 * math.sqrt(2)), 0]  # it was cast from infinity
    assert values[2, 0] * units[2] == pytest.approx(1e308, rel=1e-4)
    assert (values[3] * units[3]).tolist() == pytest.approx([3e-200, 4e-200], rel=1e-4)
    assert np.isfinite(units[:4]).all()
    assert np.isnan(units[4:]).all()
    assert not values[4:].any()


EXTREME = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1e-45, 3e38, -3e38, math.inf, math.nan]),
)


@given(
    x=arrays(np.float32, (3, 4), elements=EXTREME),
    weight=arrays(np.float32, (2, 4), elements=EXTREME),
    clip_norm=st.sampled_from([1e-20, 0.1, 1.0, 1e10]),
)
def test_clipped_gradients_never_exceed(x, weight, clip_norm):
    """One example at a time: the sum is that example's part."""
    gradients = HeadGradients(x, np.array([0, 1, 1]), 2)
    at = {"head.weight": weight, "head.bias": np.zeros(2, np.float32)}
    for row in range(3):
        vector = joined(clipped(gradients, at, np.array([row]), clip_norm))
        assert math.hypot(*vector) <= clip_norm


def test_neighbours_differ_by_one_unit():
    """Rows far too long, many of them: with one more, the sum moves by that one's own vector, in whole numbers."""
    draw = np.random.default_rng(0)
    x, y = (100 * draw.normal(size=(500, 6))).astype(np.float32), draw.integers(0, 3, size=500)
    gradients = HeadGradients(x, y, 3)
    at = moved(gradients.start)
    whole = clipped_sum(gradients, at, np.arange(500), 0.7)
    for left in (0, 63, 64, 499):
        less = clipped_sum(gradients, at, np.delete(np.arange(500), left), 0.7)
        alone = clipped_sum(gradients, at, np.array([left]), 0.7)
        for name, value in whole.items():
            assert value.dtype == np.int64
            assert (value - less[name] == alone[name]).all()
        squared = sum(n * n for value in alone.values() for n in value.ravel().tolist())
        assert 0.99 * TERM_SCALE**2 < squared <= int(TERM_SCALE) ** 2


def test_the_head_learns(rng):
    draw = np.random.default_rng(0)
    y = draw.integers(0, 3, size=300)
    x = (np.eye(3)[y] + 0.1 * draw.normal(size=(300, 3))).astype(np.float32)
    training = settings(noise_multiplier=0.5, rate=0.3, batch=90, steps=40, optimizer=Adam(learning_rate=0.1))
    end = train(HeadGradients(x, y, 3), training, paid(training, rng))
    assert np.mean(np.argmax(x @ end["head.weight"].T + end["head.bias"], axis=1) == y) > 0.95
