"""The attack on DP-SGD through an encoder: modules whose rows influence each other, or that remember rows."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import reticent as rt
from reticent import encoders, errors
from reticent.encoders.encoder import Backend
from reticent.gate.step import TERM_SCALE, Gradients, clipped_sum
from reticent.privacy import accounting
from reticent.sensitive.gradients import AdapterGradients
from reticent.sensitive.training import Engine, train
from tests.conftest import ALPHA
from tests.encoders.mixing import PROBE, WIDTH, mixing, module, remembering
from tests.encoders.samples import TORCH, needs_torch
from tests.sensitive.by_hand import moved, settings

pytestmark = pytest.mark.usefixtures("one_thread")
LARGEST = "largest value"
CLIP_NORM = 0.1


def backend_of(first: Any, *, own: bool = False) -> Backend:
    return encoders.wrap(module(first, own=own), width=WIDTH, name="mine", probe=PROBE).backend


def neighbours() -> tuple[list[Any], np.ndarray]:
    """Fifteen rows, and a long one that a mixing module lets all others feel."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(16, WIDTH)).astype(np.float32)
    rows[15] *= 1e4
    return [(row,) for row in rows], np.zeros(16, np.int64)


class Blind(AdapterGradients):
    """The broken twin: micro-batches of sixteen rows, whatever public examples show."""

    def _tells_rows_apart(self, item: Any, count: int) -> bool:
        return True


def gradients(kind: Any, backend: Backend) -> Any:
    return kind(backend, encoders.film, *neighbours(), 3, Engine(rows=16))


def sixteen_rows(backend: Backend) -> Backend:
    """As if the model came with the package."""
    return replace(backend, rows=lambda _: 16)


def clipping_norms_moved(found: Gradients) -> tuple[bool, float]:
    """Whether the last example moves the sum by its own vector and nothing else, and by how many clipping norms."""
    at = moved(found.start)
    whole, less, alone = (
        clipped_sum(found, at, rows, CLIP_NORM) for rows in (np.arange(16), np.arange(15), np.array([15]))
    )
    change = {name: value - less[name] for name, value in whole.items()}
    squared = sum(n * n for value in change.values() for n in value.ravel().tolist())
    return all((value == alone[name]).all() for name, value in change.items()), squared**0.5 / TERM_SCALE


@needs_torch
@pytest.mark.parametrize("several", [False, True], ids=["wrapped", "sixteen rows"])
@pytest.mark.parametrize("name", mixing() if TORCH else [])
def test_one_example_of_a_mixing_module_moves_the_sum_by_its_own_gradient(name, several):
    backend = backend_of(mixing()[name])
    found = gradients(AdapterGradients, sixteen_rows(backend) if several else backend)
    own, norms = clipping_norms_moved(found)
    assert own
    assert 0 < norms <= 1


@needs_torch
def test_rows_of_a_mixing_module_would_move_the_sum():
    """The twin, so that the test above can fail: one example moves the sum by many clipping norms."""
    own, norms = clipping_norms_moved(gradients(Blind, sixteen_rows(backend_of(mixing()[LARGEST]))))
    assert not own
    assert norms > 8


@needs_torch
def test_a_mode_of_training_changes_nothing():
    """A module that mixes rows in training mode alone: encoders are evaluated, also where they are trained through."""

    def first(self, x):
        return x / x.abs().max() if self.training else x

    backend = backend_of(first, own=True)
    backend.module.train()
    own, norms = clipping_norms_moved(gradients(AdapterGradients, sixteen_rows(backend)))
    assert own
    assert norms <= 1
    assert backend.module.training


@needs_torch
@pytest.mark.parametrize("name", ["counter", "running_mean", "last_batch", "dropout"])
def test_gradients_that_change_are_refused(name):
    """What remembers with gradients alone: encoding does not show it, and the spend must not come first."""
    import torch

    def first(self, x):
        return remembering()[name](self, x) if torch.is_grad_enabled() else x

    encoder = encoders.wrap(module(first, own=True), width=WIDTH, name="mine", probe=PROBE)
    model = rt.ContinualClassifier(
        encoder=encoder,
        labels=rt.PublicLabels(["a", "b"]),
        learner=rt.PeftEnsemble(adapter=encoders.film),
        budget=rt.Budget(epsilon=1.0, delta=1e-5),
    )
    with pytest.raises(errors.InvalidValue, match=r"^Expected an encoder that remembers no examples"):
        model.learn_task(np.zeros((4, WIDTH)), ["a", "b", "a", "b"], name="march")
    assert model.statement().spends == ()


# --- the membership attack on released parameters


class Remembered:
    """Gradients at one point, computed once for many games."""

    def __init__(self, found: Any, at: Any, rows: int) -> None:
        self.start, self.size = found.start, rows
        self.total = clipped_sum(found, at, np.arange(rows), CLIP_NORM)

    def blocks(self, parameters: Any, rows: Any) -> Any:
        yield self

    def norms(self) -> dict[str, np.ndarray]:
        return {}

    def add(self, sums: Any, scales: Any) -> None:
        for name, value in self.total.items():
            sums[name][...] += value


@dataclass(frozen=True)
class Draws:
    """Draws like a permit; games are not paid for."""

    noise: Any

    def draw(self, mechanism: Any, value: Any) -> Any:
        return mechanism(value, rng=self.noise)


def wins(found: Any, games: int, noise: Any) -> int:
    """How often a Bayes attacker says right, from released parameters, whether the last example was there."""
    multiplier = accounting.noise_multiplier(rt.Budget(epsilon=1.0, delta=1e-5), rate=1.0, steps=1)
    training = settings(noise_multiplier=multiplier, rate=1.0, steps=1, clip_norm=CLIP_NORM, batch=1.0)
    start = moved(found.start)  # where an earlier task has ended
    worlds = [Remembered(found, start, rows) for rows in (15, 16)]
    without, there = (_flat(world.total) * (CLIP_NORM / TERM_SCALE) for world in worlds)
    right = 0
    for game in range(games):
        released = train(worlds[game % 2], training, Draws(noise), start=start)
        step = (_flat(start) - _flat(released)) / training.optimizer.learning_rate
        guess = (step - (without + there) / 2) @ (there - without) > 0
        right += int(guess == bool(game % 2))
    return right


def _flat(values: Any) -> np.ndarray:
    return np.concatenate([np.asarray(value, np.float64).ravel() for value in values.values()])


def within_the_bound(right: int, games: int) -> bool:
    """Whether so many wins are likely enough at epsilon 1 and delta 1e-5."""
    most = (np.e + 1e-5) / (1 + np.e)
    return bool(binom.sf(right - 1, games, most) >= ALPHA)


@needs_torch
def test_the_membership_attack_on_a_mixing_module_stays_within_the_bound(rng):
    games = 250
    backend = backend_of(mixing()[LARGEST])
    assert within_the_bound(wins(gradients(AdapterGradients, backend), games, rng), games)
    assert not within_the_bound(wins(gradients(Blind, sixteen_rows(backend)), games, rng), games)
