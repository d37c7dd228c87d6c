"""Sums of gradients the slow and obvious way, and what their tests share."""

import importlib.util

import numpy as np
import pytest

from reticent import Budget
from reticent.gate.gate import Gate, Permit
from reticent.gate.grid import TERM_SCALE
from reticent.gate.noise import NoiseSource
from reticent.gate.step import Gradients, clipped_sum
from reticent.lab.baselines.oracles import LabLedger
from reticent.released.optimizers import Sgd
from reticent.sensitive.training import Training

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


needs_bert = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers")


def settings(**changes) -> Training:
    usual = {"noise_multiplier": 1.0, "rate": 0.5, "steps": 3, "clip_norm": 1.0, "batch": 8.0}
    return Training(**{**usual, "optimizer": Sgd(learning_rate=0.1), **changes})


def paid(training: Training, noise: NoiseSource) -> Permit:
    """A permit for one training, of a ledger that refuses nothing."""
    return Gate(LabLedger.create(None, Budget(epsilon=1.0, delta=1e-5)), noise).spend(training.event, task="task")


def clipped(gradients: Gradients, parameters, rows, clip_norm: float) -> dict[str, np.ndarray]:
    """The gate's exact sum of clipped gradients, as numbers."""
    sums = clipped_sum(gradients, parameters, np.asarray(rows), clip_norm)
    return {name: value * (clip_norm / TERM_SCALE) for name, value in sums.items()}


def joined(values) -> np.ndarray:
    return np.concatenate([np.asarray(value, dtype=np.float64).ravel() for value in values.values()])


def moved(start, seed: int = 0, scale: float = 0.3):
    draw = np.random.default_rng(seed)
    return {name: (value + draw.normal(size=value.shape) * scale).astype(np.float32) for name, value in start.items()}


def slow_sum(gradients: list[dict[str, np.ndarray]], clip_norm: float) -> np.ndarray:
    """The obvious version: one vector per example, clipped, added."""
    total = np.zeros_like(joined(gradients[0]))
    for gradient in gradients:
        vector = joined(gradient)
        total += vector * min(1.0, clip_norm / np.linalg.norm(vector))
    return total


def batch_clipped(gradients: list[dict[str, np.ndarray]], clip_norm: float) -> np.ndarray:
    """The mutant: clips the sum, not the examples."""
    total = np.sum([joined(gradient) for gradient in gradients], axis=0)
    return np.asarray(total * min(1.0, len(gradients) * clip_norm / np.linalg.norm(total)))


def agrees(found, slow: np.ndarray, rtol: float) -> bool:
    return bool(np.linalg.norm(joined(found) - slow) <= rtol * np.linalg.norm(slow))
