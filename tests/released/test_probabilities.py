"""Probabilities: exact where there is a formula, and calibrated on features that are as the model of them says."""

import math

import numpy as np
import pytest
from scipy.special import expit

from reticent.encoders import last_layer
from reticent.labels import LabelSpace
from reticent.numerics.rows import softmax
from reticent.privacy import events
from reticent.released.aggregate import pooled
from reticent.released.denoise import Blocks
from reticent.released.ensemble import Ensemble
from reticent.released.model import Model
from reticent.released.probabilities import noise_in, temperature
from reticent.released.release import Release
from reticent.released.sums import Sums
from tests.released.test_model import RULES, model_of

ALPHA = 1e-6
WIDTH = 48


@pytest.mark.parametrize("rule", RULES)
def test_probabilities_sum_to_one_and_agree(rule):
    model = model_of(RULES[rule])
    x = np.random.default_rng(1).normal(size=(30, 3))
    x[7] = np.nan
    found = model.probabilities(x, None)
    usable = np.arange(30) != 7
    assert np.isnan(found[7]).all()
    assert np.allclose(found[usable].sum(axis=1), 1, atol=1e-12)
    assert (found[usable] >= 0).all()
    rows, _, chances = model.best(x, None, 2, weighed=True)
    assert (rows == model.top(x, None, 2)[0]).all()
    assert (rows[usable, 0] == found[usable].argmax(axis=1)).all()
    assert np.array_equal(chances[usable], -np.sort(-found[usable], axis=1)[:, :2])
    assert np.isnan(chances[7]).all()


def test_where_no_label_may_win_all_are_alike():
    model = Model(LabelSpace(("a", "b", "c", "d")), Sums(lambda blocks: np.zeros(blocks.sums.shape[::2])))
    model = model.with_release(model_of(Sums()).releases[0])
    assert model.probabilities(np.eye(3), None).tolist() == [[0.25] * 4] * 3
    assert model.best(np.eye(3), None, 1, weighed=True).chances.tolist() == [[0.25]] * 3


def test_a_label_without_a_release_has_no_probability():
    model = model_of(Sums())
    grown = Model(LabelSpace(("a", "b", "c", "new")), model.rule, model.releases)
    assert grown.probabilities(np.eye(3), None)[:, 3].tolist() == [0.0] * 3


@pytest.mark.parametrize("noise", [0.0, 0.003])
@pytest.mark.parametrize("apart", [2.0, 0.6])
def test_temperature_is_that_of_two_gaussians(noise, apart):
    """The log odds of two Gaussians, from their means and variance, against the softmax of the two scores."""
    cosine, width = 1 - apart / 2, 400
    rows = np.zeros((2, width))
    rows[:, 0], rows[0, 1], rows[1, 2] = math.sqrt(cosine), math.sqrt(1 - cosine), math.sqrt(1 - cosine)
    rows[:, 4:] = math.sqrt(noise * width / (width - 4)) * np.resize([[1], [-1]], width - 4)
    rows[1, 4::2] *= -1  # as much noise in each, and none in common
    length = 1 / math.sqrt(1 + (1 / 0.65**2 - 1) * apart / 2)
    mean, variance = length * apart / 2, apart * (1 - length**2) / 17 + 2 * noise
    heat = temperature(rows, np.full(2, noise))
    for difference in (-0.3, 0.1, 0.2):
        expected = expit(2 * mean * difference / variance)
        assert softmax(np.array([[difference, 0.0]]), heat)[0, 0] == pytest.approx(expected, rel=1e-9)


def test_temperature_follows_the_scale_of_scores():
    rows = np.random.default_rng(0).normal(size=(20, 30))
    one, ten = temperature(rows, np.full(20, 0.1)), temperature(10 * rows, np.full(20, 10.0))
    assert ten == pytest.approx(10 * one)
    assert temperature(rows[:1], np.ones(1)) == 1.0


def test_noise_of_weights_is_found_whatever_combined_them():
    draw = np.random.default_rng(3)
    sums, noise = draw.normal(size=(5, 4, WIDTH)) * 50, draw.uniform(1, 9, size=(5, 4))
    parts = draw.normal(size=(5, 4))
    noise[2, 1], sums[2, 1], parts[2, 1] = np.inf, 0.0, 0.0  # a task without the label
    weights = np.einsum("lt,ltk->lk", parts, sums)
    expected = np.square(parts * np.where(np.isfinite(noise), noise, 0)).sum(axis=1)
    assert noise_in(weights, Blocks(sums, noise, 5)) == pytest.approx(expected, rel=1e-4)
    assert noise_in(np.zeros((1, 3)), Blocks(np.zeros((1, 2, 3)), np.full((1, 2), np.inf), 1)).tolist() == [0.0]


def drawn(classes: int, each: int, noise: float, seed: int) -> tuple[list[Release], np.ndarray, np.ndarray]:
    """Releases of noisy sums, and examples to test with: classes around means of length 0.65, in 17 directions."""
    draw = np.random.default_rng(seed)
    basis = np.linalg.qr(draw.normal(size=(WIDTH, 17)))[0].T
    means = draw.normal(size=(classes, 17))
    means *= 0.65 / np.linalg.norm(means, axis=1, keepdims=True)
    y = np.repeat(np.arange(classes), 4000 // classes)
    x = (means[y] + draw.normal(size=(len(y), 17)) * math.sqrt((1 - 0.65**2) / 17)) @ basis
    sums = each * means @ basis + noise * draw.normal(size=(classes, WIDTH))
    parameters = {
        "rows": np.arange(classes, dtype=np.int32),
        "sums": sums.astype(np.float32),
        "noise": np.full(classes, noise, np.float32),
    }
    new = Release(task="t", labels=LabelSpace(()), parameters=parameters, event=events.Public(), private=True)
    return [new], x / np.linalg.norm(x, axis=1, keepdims=True), y


def gap(found: np.ndarray, y: np.ndarray) -> float:
    """How far mean confidence is from accuracy."""
    return abs(float(found.max(axis=1).mean() - (found.argmax(axis=1) == y).mean()))


@pytest.mark.parametrize("noise", [10.0, 20.0])
def test_confidence_is_near_accuracy(noise):
    """On features that are as the model of them says; two fifths and five halves of the temperature are rejected."""
    releases, x, y = drawn(20, 200, noise, seed=5)
    model = Model(LabelSpace(tuple(range(20))), Sums(), tuple(releases))
    scores, heat = model.scores(x, None), model._temperature
    most = 0.03 + math.sqrt(math.log(2 / ALPHA) / (2 * len(y)))
    assert gap(model.probabilities(x, None), y) < most
    assert gap(softmax(scores, heat / 2.5), y) > most
    assert gap(softmax(scores, heat * 2.5), y) > most


def test_pooled_heads_have_a_temperature_and_others_are_logits():
    heads = model_of(Ensemble(aggregate=pooled)).releases
    space = LabelSpace(("a", "b", "c"))
    long = Model(space, Ensemble(last_layer, pooled, 10.0), heads)._temperature
    short = Model(space, Ensemble(last_layer, pooled, 1.0), heads)._temperature
    assert long == pytest.approx(10 * short)
    assert Model(space, Ensemble(), heads)._temperature == 1.0
