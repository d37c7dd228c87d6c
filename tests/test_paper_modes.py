"""What is called `paper` follows the paper to the letter: each beside twenty lines that were written from the paper.

Noise is taken off by comparing what was released with the exact sums: the rest must be normal, of the deviation that
follows from the budget. Training is compared without noise and with whole batches, where it has one right answer.
"""

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import optimize, stats

import reticent as rt
from reticent.encoders import film, last_layer, wrap
from reticent.lab.baselines.oracles import experiment
from reticent.privacy import events
from tests.conftest import ALPHA

EPSILON, DELTA, SHARE, WIDTH = 4.0, 1e-5, 0.25, 16
FOR_LABELS, REST = (EPSILON * SHARE, DELTA * SHARE), (EPSILON * (1 - SHARE), DELTA * (1 - SHARE))
BUDGET, RELEASED = rt.Budget(epsilon=EPSILON, delta=DELTA), rt.ReleasedLabels.paper(share=SHARE)
NAMES = [f"label {i:04}" for i in range(2_200)]
SIZES = (4, 2_100)  # ours changes its ways above 2,000 labels
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
ADAPTERS = [pytest.param(last_layer, id="last layer"), pytest.param(film, id="film", marks=needs_torch)]


def task(found: Sequence[int], each: int, seed: int, width: int = WIDTH) -> tuple[np.ndarray, list[str]]:
    centres = np.random.default_rng(7).normal(size=(len(NAMES), width)) + 0.5
    rows = np.repeat(found, each)
    x = centres[rows] + np.random.default_rng(seed).normal(size=(len(rows), width))
    return x.astype(np.float32), [NAMES[row] for row in rows]


def stream(first: int, each: int, width: int = WIDTH) -> list[tuple[str, np.ndarray, list[str]]]:
    """The first labels; then two new ones, and some that come back."""
    april = task((1, first, first + 1, *range(2, min(first, 100))), each, 1, width)
    return [("march", *task(range(first), each, 0, width)), ("april", *april)]


def released_rows(model: rt.ContinualClassifier, release: Any) -> list[Any]:
    known = model.directory.model.labels.labels
    return [known[row] for row in release.parameters["rows"]]


def refuse_other_noise(noise: np.ndarray, sigma: float) -> None:
    energy = float(np.square(noise / sigma).sum())
    assert ALPHA / 2 < stats.chi2.cdf(energy, noise.size) < 1 - ALPHA / 2
    assert abs(noise.sum()) < stats.norm.isf(ALPHA / 2) * sigma * math.sqrt(noise.size)


def refuse_other_answers(answers: np.ndarray, scores: np.ndarray, names: list[str], rounding: float) -> None:
    """An answer has the largest score, as far as scores differ by more than their rounding; nearly all do."""
    best = np.sort(scores, axis=1)
    assert np.mean(best[:, -1] - best[:, -2] > rounding) > 0.9
    found = scores[np.arange(len(scores)), [names.index(answer) for answer in answers]]
    assert (best[:, -1] - found <= rounding).all()


def refuse_other_chance(found: int, trials: int, chance: float) -> None:
    assert stats.binom.cdf(found, trials, chance) > ALPHA / 2
    assert stats.binom.sf(found - 1, trials, chance) > ALPHA / 2


def test_other_noise_answers_and_chances_are_noticed():
    draw = np.random.default_rng(0)
    for sigma in (0.9, 1.1):
        with pytest.raises(AssertionError):
            refuse_other_noise(draw.normal(0, sigma, size=(2_000, WIDTH)), 1.0)
        with pytest.raises(AssertionError):
            refuse_other_chance(round(sigma * 1_600), 3_200, 0.5)
    names = np.array(NAMES[:4])
    refuse_other_answers(names, np.eye(4), [*names], 1e-3)
    for answers, scores in ((np.roll(names, 1), np.eye(4)), (names, np.zeros((4, 4)))):
        with pytest.raises(AssertionError):
            refuse_other_answers(answers, scores, [*names], 1e-3)


# --- from the paper: the release of labels, and what it leaves of the budget


def truncation(epsilon: float, delta: float) -> int:
    """k of the paper's label release, from Theorem 6 of Desfontaines et al. 2022."""
    return math.ceil(math.log((math.exp(epsilon) + 2 * delta - 1) / ((math.exp(epsilon) + 1) * delta)) / epsilon)


SURE = 2 * truncation(*FOR_LABELS) + 1  # examples with which a label is always released


def release_chance(size: int, epsilon: float, delta: float) -> float:
    """size + Z > k, where Z is between -k and k, and z has a chance proportional to (1 - p)^|z| = e^(-epsilon |z|)."""
    k = truncation(epsilon, delta)
    z = np.arange(-k, k + 1)
    weight = np.exp(-epsilon * np.abs(z))
    return float(weight[size + z > k].sum() / weight.sum())


def test_the_papers_labels_are_released_by_its_law():
    k, each = truncation(*FOR_LABELS), 400
    sizes = np.repeat([1, k - 1, k, k + 1, SURE], each)
    labels = np.array(NAMES[: len(sizes)])
    y = np.repeat(labels, sizes).tolist()
    model = rt.ContinualClassifier(labels=RELEASED, learner=rt.Cosine.paper(), budget=BUDGET)
    model.learn_task(np.ones((len(y), 1), np.float32), y, name="march")
    released = np.isin(labels, model.classes_)
    for size in np.unique(sizes):
        refuse_other_chance(released[sizes == size].sum(), each, release_chance(size, *FOR_LABELS))


# --- from the paper: Algorithm "Cosine Classifier", and the analytic Gaussian mechanism that it names


def deviation(epsilon: float, delta: float) -> float:
    """Balle and Wang 2018, Theorem 8, for sensitivity one."""

    def gap(sigma: float) -> float:
        a, b = 1 / (2 * sigma), epsilon * sigma
        return float(stats.norm.cdf(a - b) - math.exp(epsilon) * stats.norm.cdf(-a - b) - delta)

    return float(optimize.brentq(gap, 0.05, 100, xtol=1e-12))


def unit(rows: np.ndarray) -> Any:
    return rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)


def exact_sums(x: np.ndarray, y: list[str], rows: list[str]) -> np.ndarray:
    sums = {row: np.zeros(x.shape[1]) for row in rows}
    for label, row in zip(y, unit(x), strict=True):
        sums[label] += row
    return np.stack([sums[row] for row in rows])


@pytest.mark.parametrize(("size", "width"), [(4, 2_000), (2_100, WIDTH)])
def test_the_papers_cosine_with_public_labels(size, width):
    space, sigma = NAMES[:size], deviation(EPSILON, DELTA)
    model = rt.ContinualClassifier(labels=rt.PublicLabels(space), learner=rt.Cosine.paper(), budget=BUDGET)
    total = np.zeros((size, width))
    for name, x, y in stream(2, 80, width):
        release: Any = model.learn_task(x, y, name=name).releases[-1]
        assert released_rows(model, release) == space  # every label is updated in every task
        assert release.event.noise_multiplier == pytest.approx(sigma, rel=1e-9)
        refuse_other_noise(release.parameters["sums"] - exact_sums(x, y, space), sigma)
        total += release.parameters["sums"]
    x = task(range(4), 20, 2, width)[0]
    refuse_other_answers(model.predict(x), unit(x) @ unit(total).T, space, 1e-5)


@pytest.mark.parametrize(("first", "width"), [(2, 2_000), (2_100, WIDTH)])
def test_the_papers_cosine_with_released_labels(first, width):
    model = rt.ContinualClassifier(labels=RELEASED, learner=rt.Cosine.paper(), budget=BUDGET)
    sigma = deviation(*REST)
    total: dict[str, Any] = {}
    for name, x, y in stream(first, SURE, width):
        release: Any = model.learn_task(x, y, name=name).releases[-1]
        labels, gaussian = release.event.parts
        assert isinstance(labels, events.TruncatedGeometric)
        assert (labels.epsilon, labels.delta) == pytest.approx(FOR_LABELS, rel=1e-6)
        assert gaussian.noise_multiplier == pytest.approx(sigma, rel=1e-9)
        rows, sums = released_rows(model, release), release.parameters["sums"]
        assert sorted(rows) == sorted(set(y))  # what is known, and was not released again, is no label of this task
        refuse_other_noise(sums - exact_sums(x, y, rows), sigma)
        total |= {label: total.get(label, 0) + value for label, value in zip(rows, sums, strict=True)}
    x = task((0, 1, first, first + 1), 20, 2, width)[0]
    refuse_other_answers(model.predict(x), unit(x) @ unit(np.stack([*total.values()])).T, [*total], 1e-5)


# --- from the paper: Algorithm "PEFT Ensemble", with DP-SGD and Adam

LARGE = rt.Budget(epsilon=90, delta=DELTA)  # with half of it two examples release a label, but for a chance of e^-45
FILM = ("film.0.weight", "film.0.bias", "film.2.weight", "film.2.bias")
HALFWAY = 10**8  # gradients over so many examples are like Adam's 1e-8: that they have the right length matters


class Twin(NamedTuple):
    """Parameters one after the other: where they start, their gradient, and from parameters and inputs to logits."""

    start: np.ndarray
    gradient: Callable[[Any], Any]
    logits: Callable[[Any, np.ndarray], np.ndarray]


def flat(parameters: Any) -> np.ndarray:
    names = [name for name in (*FILM, "head.weight", "head.bias") if name in parameters]
    assert {*names, "rows"} == set(parameters)
    return np.concatenate([parameters[name].ravel() for name in names]).astype(np.float64)


def adam(steps: int, rate: Any, gradient: Any, point: Any) -> Any:
    first = second = np.zeros_like(point)
    for step in range(1, steps + 1):
        g = gradient(point)
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
        point = point - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return point


def head_twin(x: np.ndarray, y: list[str], rows: list[str], settings: Any) -> Twin:
    """A zero head: weights, then biases; the gradient of an example is its error times its features."""
    features, at = x.astype(np.float64), {row: i for i, row in enumerate(rows)}
    target = np.eye(len(rows))[[at[label] for label in y]]

    def logits(point: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return np.asarray(inputs @ point[: -len(rows)].reshape(len(rows), -1).T + point[-len(rows) :])

    def gradient(point: np.ndarray) -> Any:
        found = logits(point, features)
        chances = np.exp(found - found.max(axis=1, keepdims=True))
        error = chances / chances.sum(axis=1, keepdims=True) - target
        norms = np.linalg.norm(error, axis=1) * np.sqrt(np.square(features).sum(axis=1) + 1)
        error *= np.minimum(1, settings.clip_norm / norms)[:, None]
        return np.append(error.T @ features, error.sum(axis=0)) / settings.task_size

    return Twin(np.zeros(len(rows) * (x.shape[1] + 1)), gradient, logits)


def tiny(width: int) -> Any:
    import torch

    torch.manual_seed(0)  # of the module's weights
    return torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, width), torch.nn.LayerNorm(width))


def film_twin(x: np.ndarray, y: list[str], rows: list[str], settings: Any) -> Twin:
    """Scales and biases of the normalisation layers, then a zero head; all of an example's gradient is clipped."""
    import torch

    width, at = x.shape[1], {row: i for i, row in enumerate(rows)}
    module, normed = tiny(width), torch.nn.functional.layer_norm
    weight, bias = module[1].weight.detach().double(), module[1].bias.detach().double()
    scales = [p.detach().numpy() for layer in (module[0], module[2]) for p in (layer.weight, layer.bias)]
    parts = [*[width] * 4, len(rows) * width, len(rows)]
    inputs, targets = torch.tensor(x, dtype=torch.float64), torch.tensor([at[label] for label in y])

    def answer(values: Any, row: Any) -> Any:
        hidden = normed(row, (width,), values[0], values[1]) @ weight.T + bias
        return normed(hidden, (width,), values[2], values[3]) @ values[4].view(-1, width).T + values[5]

    def loss(values: Any, row: Any, target: Any) -> Any:
        return torch.nn.functional.cross_entropy(answer(values, row), target)

    of_each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))

    def gradient(point: np.ndarray) -> Any:
        found = torch.cat(of_each(torch.tensor(point).split(parts), inputs, targets), dim=1).numpy()
        return np.minimum(1, settings.clip_norm / np.linalg.norm(found, axis=1)) @ found / settings.task_size

    def logits(point: np.ndarray, asked: np.ndarray) -> Any:
        return answer(torch.tensor(point).split(parts), torch.tensor(asked, dtype=torch.float64)).numpy()

    return Twin(np.concatenate([*scales, np.zeros(sum(parts[4:]))]).astype(np.float64), gradient, logits)


def encoder_of(learner: Any, width: int) -> Any:
    probe = np.linspace(-1, 1, width, dtype=np.float32)
    return None if learner.adapter == last_layer else wrap(tiny(width), width=width, name="tiny", probe=probe)


def hardly_any_noise(*_: object, rate: float, steps: int) -> events.DpSgd:
    return events.DpSgd(noise_multiplier=1e-6, rate=rate, steps=steps)


def without_noise(adapter: object, **settings: Any) -> rt.PeftEnsemble:
    """Whole batches, unless the settings say otherwise."""
    fixed = {"rate": 1.0, "learning_rate": 0.01, "clip_norm": 3.0, "task_size": HALFWAY}
    return replace(rt.PeftEnsemble.paper(adapter=adapter, **{**fixed, **settings}), calibrate=hardly_any_noise)


def learned(model: Any, learner: Any, name: str, x: np.ndarray, y: list[str]) -> tuple[Any, list[Any], Twin]:
    """Learns a task; of one with many labels only every so many examples can be encoded, which saves time."""
    some = np.arange(len(y)) % (len(y) // 25 if len(set(y)) > 100 else 1) == 0
    x[~some] = np.nan
    alone = learner.adapter == last_layer
    inputs = x if alone else [row if usable else None for row, usable in zip(x, some, strict=True)]
    release = model.learn_task(inputs, y, name=name).releases[-1]
    rows = released_rows(model, release)
    return release, rows, (head_twin if alone else film_twin)(x[some], np.array(y)[some].tolist(), rows, learner)


def refuse_other_training(learner: Any, policy: Any, first: int, each: int) -> None:
    """Two tasks, here and by the twin: the same rows, cost, parameters and answers."""
    model = experiment(learner, policy, budget=LARGE, encoder=encoder_of(learner, WIDTH))
    x_new = task((*range(min(first, 100)), first, first + 1), 10, 2)[0]
    largest = np.full((len(x_new), len(NAMES)), -np.inf)  # ArgMax over all models and labels
    for name, x, y in stream(first, each):
        release, rows, twin = learned(model, learner, name, x, y)
        training = release.event
        if isinstance(policy, rt.PublicLabels):
            assert rows == [*policy.labels]  # a row for each; counts are not paid for
        else:
            assert sorted(rows) == sorted(set(y))  # a head has what its task released
            labels, training = release.event.parts
            assert isinstance(labels, events.TruncatedGeometric)
            assert (labels.epsilon, labels.delta) == pytest.approx((45, DELTA / 2), rel=1e-6)
        assert training == events.DpSgd(noise_multiplier=1e-6, rate=1.0, steps=40)
        trained = adam(40, learner.learning_rate, twin.gradient, twin.start)
        np.testing.assert_allclose(flat(release.parameters), trained, rtol=0, atol=5e-4)
        at = [NAMES.index(row) for row in rows]
        largest[:, at] = np.maximum(largest[:, at], twin.logits(trained, x_new))
    refuse_other_answers(model.predict(x_new), largest, NAMES, 2e-3)


@pytest.mark.parametrize("size", SIZES)
def test_the_papers_heads_have_a_row_for_each_label(size):
    refuse_other_training(without_noise(last_layer), rt.PublicLabels(NAMES[:size]), 2, 80)


@needs_torch
@pytest.mark.parametrize("size", SIZES)
def test_the_papers_film_is_trained_with_its_head(size):
    refuse_other_training(without_noise(film), rt.PublicLabels(NAMES[:size]), 2, 5)


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("first", [2, 2_100])
def test_the_papers_peft_with_released_labels(first, adapter):
    refuse_other_training(without_noise(adapter), rt.ReleasedLabels.paper(share=0.5), first, 2)


# --- from the paper: noise and batches of DP-SGD


def spent_delta(sigma: float, rate: float, steps: int) -> float:
    """Gopi et al. 2021: the losses of a step on a grid, composed by a Fourier transform; for the worse neighbour."""
    width, n = 1e-4, 1 << 20
    x = np.linspace(-15 * sigma, 15 * sigma + 1, n)
    without = stats.norm.pdf(x, 0, sigma)
    losses = np.log1p(rate * np.expm1((2 * x - 1) / (2 * sigma**2)))  # of a sampled example against none
    found = []
    for loss, density in ((losses, without * np.exp(losses)), (-losses, without)):
        place, mass = loss / width, density * (x[1] - x[0])
        low = np.floor(place).astype(np.int64)
        grid = np.bincount(low % n, mass * (1 - place + low), n) + np.bincount((low + 1) % n, mass * (place - low), n)
        total = np.fft.fftshift(np.fft.irfft(np.fft.rfft(grid) ** steps, n))
        above = (np.arange(n) - n // 2) * width - EPSILON
        found.append(total[above > 0] @ -np.expm1(-above[above > 0]))
    return float(max(found))


def test_the_papers_heads_are_paid_for_by_training_alone():
    paper = rt.PeftEnsemble.paper(adapter=last_layer, task_size=500)
    model = rt.ContinualClassifier(labels=rt.PublicLabels(NAMES[:2_100]), learner=paper, budget=BUDGET)
    (release,) = model.learn_task(*stream(2, 80)[0][1:], name="march").releases
    assert isinstance(release.event, events.DpSgd)
    assert (release.event.rate, release.event.steps) == (0.1, 400)
    assert spent_delta(release.event.noise_multiplier, 0.1, 400) == pytest.approx(DELTA, rel=0.01)
    assert model.spent()["epsilon"] <= EPSILON


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize(
    ("policy", "budget", "share", "first", "each", "width"),
    [
        pytest.param(rt.PublicLabels(NAMES[:4]), BUDGET, 0.0, 2, 30, 1_000, id="public, below"),
        pytest.param(rt.PublicLabels(NAMES[:2_100]), BUDGET, 0.0, 2, 30, WIDTH, id="public, above"),
        pytest.param(RELEASED, BUDGET, SHARE, 2, SURE, 1_000, id="released, below"),
        pytest.param(rt.ReleasedLabels.paper(share=0.5), LARGE, 0.5, 2_100, 2, WIDTH, id="released, above"),
    ],
)
def test_the_papers_steps_have_their_noise(policy, budget, share, first, each, width, adapter):
    """A single step of Adam moves a parameter by g / (|g| + 1e-8), so g can be read off it."""
    settings: Any = {"epochs": 1, "rate": 1.0, "learning_rate": 1.0, "clip_norm": 2.0, "task_size": 2 * HALFWAY}
    learner = rt.PeftEnsemble.paper(adapter=adapter, **settings)
    model = rt.ContinualClassifier(labels=policy, learner=learner, budget=budget, encoder=encoder_of(learner, width))
    sigma = deviation(budget.epsilon * (1 - share), budget.delta * (1 - share))
    for name, x, y in stream(first, each, width):
        release, _, twin = learned(model, learner, name, x, y)
        training = release.event.parts[1] if share else release.event
        assert (training.rate, training.steps) == (1.0, 1)
        assert training.noise_multiplier == pytest.approx(sigma, rel=1e-4)
        moved = twin.start - flat(release.parameters)
        noise = 1e-8 * moved / (1 - np.abs(moved)) - twin.gradient(twin.start)
        refuse_other_noise(noise * learner.task_size / 2.0, sigma)


def test_the_papers_batches_are_poisson_samples():
    """Each example has a feature of its own, whose weight shows in which of two batches it was."""
    n, rate, step, task_size = 1_000, 0.45, 100.0, 10**14  # gradients far below 1e-8: Adam is proportional to them
    settings = {"epochs": 1, "rate": rate, "learning_rate": step, "clip_norm": 1.0, "task_size": task_size}
    model = experiment(without_noise(last_layer, **settings), rt.PublicLabels(NAMES[:2]), budget=LARGE)
    lengths, classes = np.where(np.arange(n) % 2, 0.5, 3.0), np.arange(n) // 2 % 2
    norms = math.sqrt(0.5) * np.sqrt(lengths**2 + 1)  # the error is a half and minus a half: some are clipped
    gradients = np.where(classes, 0.5, -0.5) * lengths * np.minimum(1, 1.0 / norms) / (rate * task_size)
    first, second = 1 + 0.09 / 0.19, 0.1 / 0.19  # what Adam's two steps make of the two gradients
    sizes, both = [], np.zeros((2, 2), int)
    for name in ("march", "april", "may"):
        release: Any = model.learn_task(np.diag(lengths), [NAMES[i] for i in classes], name=name).releases[-1]
        times = release.parameters["head.weight"][0] / (-step / 1e-8 * gradients)
        in_first = times > 1
        in_second = times - first * in_first > second / 2
        np.testing.assert_allclose(times, first * in_first + second * in_second, rtol=0, atol=0.01)
        sizes += [in_first.sum(), in_second.sum()]
        np.add.at(both, (in_first.astype(int), in_second.astype(int)), 1)
    for found, chance in zip(both.ravel(), np.outer([1 - rate, rate], [1 - rate, rate]).ravel(), strict=True):
        refuse_other_chance(found, 3 * n, chance)
    assert len(set(sizes)) > 1  # six batches of one size have a chance below 1e-8
