"""DP-SGD through modules whose rows influence each other: how far one example moves a step, and who wins the game."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import binom

import reticent as rt
from reticent import encoders
from reticent.encoders.encoder import Backend
from reticent.gate.grid import TERM_SCALE
from reticent.gate.noise import NoiseSource
from reticent.gate.step import Floats, Gradients, clipped_sum
from reticent.privacy import accounting
from reticent.sensitive.gradients import AdapterGradients
from reticent.sensitive.training import Engine, train
from tests.assurance.part import Part
from tests.conftest import ALPHA
from tests.encoders.mixing import PROBE, WIDTH, mixing, module
from tests.sensitive.by_hand import moved, settings

LARGEST = "largest value"
CLIP_NORM = 0.1
GAMES = 5_000
_MOST = (np.e + 1e-5) / (1 + np.e)  # games that an attacker may win at epsilon 1 and delta 1e-5


def backend_of(first: Any, *, own: bool = False) -> Backend:
    return encoders.wrap(module(first, own=own), width=WIDTH, name="mine", probe=PROBE).backend


def neighbours() -> tuple[list[Any], np.ndarray]:
    """Fifteen rows, and a long one that a mixing module lets all others feel."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(16, WIDTH)).astype(np.float32)
    rows[15] *= 1e4
    return [(row,) for row in rows], np.zeros(16, np.int64)


class Blind(AdapterGradients):
    """The broken twin: micro-batches of sixteen rows, because its probes see nothing."""

    def _in_public(self, block: Any) -> list[Floats]:
        return [np.zeros((len(block[0]), 1))]


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
    return bool(binom.sf(right - 1, games, _MOST) >= ALPHA)


# --- all of it


def measure() -> Part:
    """Moves of one example through every mixing module, and the games on the first of them."""
    rows, passed, noise = [], True, NoiseSource.from_os()
    for name, first in mixing().items():
        backend = backend_of(first)
        real = [clipping_norms_moved(gradients(AdapterGradients, it)) for it in (backend, sixteen_rows(backend))]
        _, twin = clipping_norms_moved(gradients(Blind, sixteen_rows(backend)))
        passed = passed and all(own and 0 < norms <= 1 for own, norms in real)
        rows.append((name, *(f"{norms:.2f}" for _, norms in real), f"{twin:.2f}", ""))
    backend = backend_of(mixing()[LARGEST])
    won = [
        wins(it, GAMES, noise) for it in (gradients(AdapterGradients, backend), gradients(Blind, sixteen_rows(backend)))
    ]
    passed = passed and within_the_bound(won[0], GAMES) and not within_the_bound(won[1], GAMES)
    real_share, twin_share = (f"{right / GAMES:.3f}" for right in won)
    rows.append(("games won", real_share, "", twin_share, f"at most {_MOST:.3f}"))
    return Part(
        title="Modules whose rows influence each other",
        says="One example is added to fifteen. The table says by how many clipping norms it moves the sum of a step: "
        "at most 1 where each example is bounded. The twin takes sixteen rows at a time, whatever probes show.",
        header=("what the module does", "wrapped", "shared batches, probed", "twin", "bound"),
        rows=tuple(rows),
        passed=passed,
    )
