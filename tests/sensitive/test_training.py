"""Training: what follows from public facts, and what it may draw."""

import math

import numpy as np
import pytest

from reticent import errors
from reticent.gate.noise import NoiseSource
from reticent.privacy import events
from reticent.sensitive.head import HeadGradients
from reticent.sensitive.training import train
from tests.sensitive.by_hand import joined, moved, paid, settings

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_start_may_name_its_values_in_any_order():
    draw = np.random.default_rng(1)
    gradients = HeadGradients(draw.normal(size=(20, 3)).astype(np.float32), draw.integers(0, 3, 20), 3)
    start = moved(gradients.start)
    turned = dict(reversed(start.items()))
    assert list(turned) != list(start)
    training = settings()
    found = [
        train(gradients, training, paid(training, NoiseSource.seeded(4)), start=begin) for begin in (start, turned)
    ]
    assert list(found[0]) == list(found[1]) == list(gradients.start)
    assert (joined(found[0]) == joined(found[1])).all()


def test_neighbours_give_the_same_shapes(rng):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(20, 4)).astype(np.float32), draw.integers(0, 3, size=20)
    x[4] = np.nan
    described = []
    for keep in (slice(None), slice(1, None), slice(0, 0), slice(4, 5)):
        fractions: list[float] = []
        part, training = HeadGradients(x[keep], y[keep], 3), settings()
        end = train(part, training, paid(training, rng), progress=fractions.append)
        described.append(({name: (v.shape, v.dtype) for name, v in end.items()}, fractions))
        assert all(np.isfinite(value).all() for value in end.values())
    assert described[1:] == described[:1] * 3
    assert described[0][1] == pytest.approx([1 / 3, 2 / 3, 1])


def test_training_needs_its_permit(rng):
    gradients = HeadGradients(np.ones((3, 2), np.float32), np.zeros(3, np.int64), 2)
    training = settings()
    for other in ({"noise_multiplier": 0.5}, {"steps": 4}, {"rate": 0.6}):
        with pytest.raises(errors.NotPaidFor, match="was not paid for"):
            train(gradients, settings(**other), paid(training, rng))
    permit = paid(training, rng)
    train(gradients, training, permit)
    with pytest.raises(errors.NotPaidFor, match="drawn its DpSgd already"):
        train(gradients, training, permit)


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": 0},
        {"rate": 1.1},
        {"steps": 0},
        {"clip_norm": 0},
        {"batch": 0},
        {"clip_norm": math.nan},
        {"optimizer": None},
    ],
)
def test_settings_are_validated_at_construction(change):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        settings(**change)


def test_the_event_follows_from_public_facts():
    assert settings().event == events.DpSgd(noise_multiplier=1.0, rate=0.5, steps=3)
    with pytest.raises(errors.InvalidValue, match="features of shape"):
        HeadGradients(np.zeros((3, 2), np.float32), np.zeros(2, np.int64), 2)
