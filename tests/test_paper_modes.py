"""What is called `paper` follows the paper to the letter: each beside twenty lines that were written from the paper.

Noise is taken off by comparing what was released with the exact sums: the rest must be normal, of the paper's
deviation. Training is compared without noise and with whole batches, where it has one right answer.
"""

import importlib.util
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import reticent as rt
from reticent.encoders import film, last_layer, wrap
from reticent.lab.baselines.oracles import experiment
from reticent.privacy import events
from tests.conftest import ALPHA

EPSILON, DELTA, SHARE, WIDTH = 4.0, 1e-5, 0.25, 16
BUDGET = rt.Budget(epsilon=EPSILON, delta=DELTA)
SIZES = (4, 2_100)  # ours changes its ways above 2,000 labels
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


def labels(size: int) -> list[str]:
    return [*"abcd", *(f"never {i}" for i in range(size - 4))]


def task(found: str, each: int, seed: int) -> tuple[np.ndarray, list[str]]:
    centres = np.random.default_rng(7).normal(size=(26, WIDTH)) + 0.5
    draw = np.random.default_rng(seed)
    x = np.concatenate([centres[ord(label) - 97] + draw.normal(size=(each, WIDTH)) for label in found])
    return x.astype(np.float32), [label for label in found for _ in range(each)]


STREAM = [("march", *task("ab", 90, 0)), ("april", *task("bcd", 80, 1))]
TEST = task("abcd", 40, 2)


# --- from the paper: Algorithm "Cosine Classifier", and the analytic Gaussian mechanism that it names


def deviation(epsilon: float, delta: float) -> float:
    """Balle and Wang 2018, Theorem 8, for sensitivity one."""

    def gap(sigma: float) -> float:
        a, b = 1 / (2 * sigma), epsilon * sigma
        return float(stats.norm.cdf(a - b) - math.exp(epsilon) * stats.norm.cdf(-a - b) - delta)

    return float(optimize.brentq(gap, 0.05, 100, xtol=1e-12))


def exact_sums(x: np.ndarray, y: list[str], rows: list[str]) -> np.ndarray:
    unit = x.astype(np.float64) / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
    return np.stack([unit[np.array(y) == label].sum(axis=0) for label in rows])


def nearest(x: np.ndarray, noisy: dict[str, Any]) -> list[str]:
    """argmax over labels of the cosine of the feature and the label's sum over all tasks."""
    names = list(noisy)
    sums = np.stack([noisy[name] for name in names])
    cosines = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (sums / np.linalg.norm(sums, axis=1, keepdims=True)).T
    return [names[i] for i in cosines.argmax(axis=1)]


def refuse_other_noise(noise: np.ndarray, sigma: float) -> None:
    energy = float(np.square(noise / sigma).sum())
    assert ALPHA < stats.chi2.cdf(energy, noise.size) < 1 - ALPHA
    assert abs(noise.sum()) < stats.norm.isf(ALPHA) * sigma * math.sqrt(noise.size)


@pytest.mark.parametrize("size", SIZES)
def test_the_papers_cosine_with_public_labels(size):
    space = labels(size)
    model = rt.ContinualClassifier(labels=rt.PublicLabels(space), learner=rt.Cosine.paper(), budget=BUDGET)
    total: dict[str, Any] = dict.fromkeys(space, 0.0)
    for (name, x, y), sigma in zip(STREAM, [deviation(EPSILON, DELTA)] * 2, strict=True):
        release = model.learn_task(x, y, name=name).releases[-1]
        rows = [space[row] for row in release.parameters["rows"]]
        assert rows == space  # every label is updated in every task
        refuse_other_noise(release.parameters["sums"] - exact_sums(x, y, rows), sigma)
        total = {label: total[label] + value for label, value in zip(rows, release.parameters["sums"], strict=True)}
    assert model.predict(TEST[0]).tolist() == nearest(TEST[0], total)


def test_the_papers_cosine_with_released_labels():
    model = rt.ContinualClassifier(
        labels=rt.ReleasedLabels.paper(share=SHARE), learner=rt.Cosine.paper(), budget=BUDGET
    )
    sigma = deviation(EPSILON * (1 - SHARE), DELTA * (1 - SHARE))
    total: dict[str, Any] = {}
    for name, x, y in STREAM:
        release = model.learn_task(x, y, name=name).releases[-1]
        rows = [model.directory.model.labels.labels[row] for row in release.parameters["rows"]]
        assert sorted(rows) == sorted(set(y))  # classes of eighty are released; what is known is no label of this task
        refuse_other_noise(release.parameters["sums"] - exact_sums(x, y, rows), sigma)
        total |= {
            label: total.get(label, 0) + value for label, value in zip(rows, release.parameters["sums"], strict=True)
        }
    assert model.predict(TEST[0]).tolist() == nearest(TEST[0], total)


def test_other_noise_is_noticed():
    draw = np.random.default_rng(0)
    for sigma in (0.9, 1.1):
        with pytest.raises(AssertionError):
            refuse_other_noise(draw.normal(0, sigma, size=(2_000, WIDTH)), 1.0)


# --- from the paper: Algorithm "PEFT Ensemble", with DP-SGD and Adam


def adam(steps: int, rate: Any, gradient: Any, point: Any) -> Any:
    first = second = np.zeros_like(point)
    for step in range(1, steps + 1):
        g = gradient(point)
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
        point = point - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return point


def clipped(gradients: Any, clip_norm: Any) -> Any:
    return gradients * np.minimum(1, clip_norm / np.linalg.norm(gradients, axis=1, keepdims=True))


def papers_head(x: np.ndarray, y: list[str], rows: list[str], settings: rt.PeftEnsemble) -> Any:
    """A zero head over all labels, 40 epochs of whole batches; the last column is the bias."""
    with_one = np.column_stack([x.astype(np.float64), np.ones(len(x))])
    target = np.array([[label == row for row in rows] for label in y], dtype=float)

    def gradient(point: np.ndarray) -> Any:
        logits = with_one @ point.reshape(len(rows), -1).T
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        error = chances / chances.sum(axis=1, keepdims=True) - target
        norms = np.linalg.norm(error, axis=1) * np.linalg.norm(with_one, axis=1)
        error *= np.minimum(1, settings.clip_norm / norms)[:, None]
        return (error.T @ with_one).ravel() / settings.task_size

    return adam(40, settings.learning_rate, gradient, np.zeros(len(rows) * (WIDTH + 1))).reshape(len(rows), -1)


def hardly_any_noise(*_: object, rate: float, steps: int) -> events.DpSgd:
    return events.DpSgd(noise_multiplier=1e-6, rate=rate, steps=steps)


def whole_batches(adapter: object) -> rt.PeftEnsemble:
    paper = rt.PeftEnsemble.paper(adapter=adapter, rate=1.0, learning_rate=0.01, clip_norm=0.7, task_size=500)
    return replace(paper, calibrate=hardly_any_noise)


@pytest.mark.parametrize("size", SIZES)
def test_the_papers_heads_have_a_row_for_each_label(size):
    space, learner = labels(size), whole_batches(last_layer)
    model = experiment(learner, rt.PublicLabels(space), budget=BUDGET)
    heads = []
    for name, x, y in STREAM:
        release = model.learn_task(x, y, name=name).releases[-1]
        found: dict[str, Any] = dict(release.parameters)
        assert release.event == events.DpSgd(noise_multiplier=1e-6, rate=1.0, steps=40)  # counts are not paid for
        assert release.parameters["rows"].tolist() == list(range(size))
        heads.append(papers_head(x, y, space, learner))
        np.testing.assert_allclose(found["head.weight"], heads[-1][:, :-1], atol=2e-3)
        np.testing.assert_allclose(found["head.bias"], heads[-1][:, -1], atol=2e-3)
    with_one = np.column_stack([TEST[0], np.ones(len(TEST[0]))])
    logits = np.max([with_one @ head.T for head in heads], axis=0)  # ArgMax over all models and labels
    answers = [space[i] for i in logits.argmax(axis=1)]
    assert np.mean(model.predict(TEST[0]) == answers) > 0.98  # as far as logits differ by more than their rounding


def test_the_papers_heads_are_paid_for_by_training_alone():
    paper = rt.PeftEnsemble.paper(adapter=last_layer, task_size=500)
    model = rt.ContinualClassifier(labels=rt.PublicLabels(labels(2_100)), learner=paper, budget=BUDGET)
    (release,) = model.learn_task(*STREAM[0][1:], name="march").releases
    assert isinstance(release.event, events.DpSgd)
    assert (release.event.rate, release.event.steps) == (0.1, 400)
    assert model.spent()["epsilon"] <= EPSILON


def test_the_papers_heads_with_released_labels():
    learner = whole_batches(last_layer)
    model = experiment(learner, rt.ReleasedLabels.paper(share=SHARE), budget=BUDGET)
    for name, x, y in STREAM:
        release = model.learn_task(x, y, name=name).releases[-1]
        rows = [model.directory.model.labels.labels[row] for row in release.parameters["rows"]]
        assert sorted(rows) == sorted(set(y))  # a head has what its task released
        mine = papers_head(x, y, rows, learner)
        found: dict[str, Any] = dict(release.parameters)
        np.testing.assert_allclose(found["head.weight"], mine[:, :-1], atol=2e-3)


@needs_torch
def test_the_papers_film_is_trained_with_its_head():
    import torch

    learner = whole_batches(film)
    torch.manual_seed(0)  # of the module's weights
    module = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH))
    probe = np.linspace(-1, 1, WIDTH, dtype=np.float32)
    encoder = wrap(module, width=WIDTH, name="tiny", probe=probe)
    model = experiment(learner, rt.PublicLabels(list("abcd")), budget=BUDGET, encoder=encoder)
    x, y = task("abcd", 3, 3)
    (release,) = model.learn_task(x, y, name="march").releases

    scales = [p for layer in (module[0], module[2]) for p in (layer.weight, layer.bias)]
    start = np.concatenate([*(p.detach().numpy().ravel() for p in scales), np.zeros(4 * WIDTH + 4)]).astype(float)

    weight, bias = module[1].weight.detach().double(), module[1].bias.detach().double()

    def loss(values: tuple[torch.Tensor, ...], row: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.layer_norm(row, (WIDTH,), values[0], values[1]) @ weight.T + bias
        hidden = torch.nn.functional.layer_norm(hidden, (WIDTH,), values[2], values[3])
        return torch.nn.functional.cross_entropy(values[4].view(4, WIDTH) @ hidden + values[5], label)

    of_each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    inputs, targets = torch.tensor(x, dtype=torch.float64), torch.tensor(["abcd".index(label) for label in y])

    def gradient(point: np.ndarray) -> Any:
        """One example at a time, by autograd: all of its gradient is clipped together."""
        found = of_each(torch.tensor(point).split([WIDTH] * 4 + [4 * WIDTH, 4]), inputs, targets)
        return clipped(torch.cat(found, dim=1).numpy(), learner.clip_norm).sum(axis=0) / learner.task_size

    trained = adam(40, learner.learning_rate, gradient, start)
    named = ("film.0.weight", "film.0.bias", "film.2.weight", "film.2.bias", "head.weight", "head.bias")
    mine = dict(zip(named, np.split(trained, np.cumsum([WIDTH] * 4 + [4 * WIDTH])), strict=True))
    assert sorted(release.parameters) == sorted((*named, "rows"))
    before = dict(zip(named, np.split(start, np.cumsum([WIDTH] * 4 + [4 * WIDTH])), strict=True))
    for name, value in mine.items():
        # a zero head sends no gradient back, so Adam's first step of the adapter is noise of its full length, 0.01
        apart = np.abs(release.parameters[name].ravel() - value)
        assert np.median(apart) < 0.02
        assert apart.max() < 0.15
        assert np.median(np.abs(value - before[name])) > 0.05
