"""Training, in pairs: the measured bound stays under the claim, and exceeds it for a broken twin."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.encoders import film, last_layer
from reticent.gate.grid import TERM_SCALE
from reticent.gate.step import Block, NoisySteps, clipped_sum, flattened
from reticent.lab.attack import games, training_games
from reticent.privacy import accounting, events
from reticent.released.optimizers import Sgd
from reticent.sensitive.head import HeadGradients
from reticent.sensitive.learners import PeftEnsemble
from reticent.sensitive.training import Training
from tests.sensitive.by_hand import needs_torch

DELTA = 1e-5


@dataclass(frozen=True)
class Canary:
    """One example with a gradient of this norm along the first axis; the mutant ignores the clipping."""

    norm: float = 10.0
    clipped: bool = True

    size = 1

    @property
    def start(self):
        return {"w": np.zeros(2, np.float32)}

    def blocks(self, parameters, rows):
        gradients = np.tile([self.norm, 0.0], (len(rows), 1))
        yield Block({"w": gradients}) if self.clipped else Unclipped({"w": gradients})


class Unclipped(Block):
    """Forgets to clip: adds its gradients whole, whatever the gate says."""

    def add(self, sums, scales):
        sums["w"] += (self.rows["w"] * TERM_SCALE).astype(np.int64).sum(axis=0)


def training(epsilon: float, *, rate: float = 1.0, steps: int = 1) -> Training:
    noise = accounting.noise_multiplier(rt.Budget(epsilon=epsilon, delta=DELTA), rate=rate, steps=steps)
    rule = Sgd(learning_rate=0.1)
    return Training(noise_multiplier=noise, rate=rate, steps=steps, clip_norm=1.0, batch=1.0, optimizer=rule)


def half_the_noise(real: Training) -> Training:
    return replace(real, noise_multiplier=real.noise_multiplier / 2)


def played(real: Training, gradients: Any = None, *, told: Training | None = None, trials: int = 3_000) -> games.Result:
    canary = Canary() if gradients is None else gradients
    return training_games.play_training(told or real, canary, delta=DELTA, claimed=real.event, trials=trials)


def test_training_stays_within_its_claim():
    found = played(training(4.0))
    assert found.verdict == games.CONSISTENT, found
    assert found.tightness > 0.5  # the attack is not trivial
    assert found.claimed == pytest.approx(4.0, abs=1e-3)
    assert found.limit == pytest.approx((np.exp(4) + DELTA) / (1 + np.exp(4)), abs=1e-3)


def test_half_the_noise_is_detected():
    real = training(1.0)
    assert played(real, told=half_the_noise(real), trials=4_000).verdict == games.VIOLATED


def test_missing_clipping_is_detected():
    real = training(1.0)
    assert played(real, Canary(clipped=False), trials=500).verdict == games.VIOLATED
    assert played(real, Canary(norm=1.0), trials=500).verdict == games.CONSISTENT


def test_a_real_head_stays_within_its_claim():
    head = HeadGradients(np.array([[10.0, 0.0]], np.float32), np.array([0]), 2)
    real = training(8.0, steps=2)
    assert played(real, head, trials=500).verdict == games.CONSISTENT
    assert played(real, head, told=half_the_noise(real), trials=500).verdict == games.VIOLATED


def learned(adapter: Any, *, steps: int = 2, rate: float = 0.5) -> PeftEnsemble:
    return PeftEnsemble(adapter=adapter, epochs=round(steps * rate), rate=rate, task_size=20).resolved(None)


def quarter(event: events.DpSgd, clip: float) -> NoisySteps:
    return NoisySteps(replace(event, noise_multiplier=event.noise_multiplier / 4), clip)


@pytest.mark.parametrize("adapter", [last_layer, pytest.param(film, marks=needs_torch)], ids=str)
def test_many_canaries_play_in_one_training(adapter):
    """Through the head alone, and back through a tiny encoder: the same gradients as in learning a task."""
    learner = learned(adapter)
    real = training(8.0, rate=0.5, steps=2).event
    settings: dict[str, Any] = {
        "claimed": real,
        "delta": DELTA,
        "adapter": adapter is film,
        "trials": 256 if adapter is film else 2_000,
    }
    found = training_games.play_steps(learner, real, **settings)
    assert found.verdict == games.CONSISTENT, found
    assert found.accuracy > 0.6  # 0.77
    assert training_games.play_steps(learner, real, **settings, mechanism=quarter).verdict == games.VIOLATED


@needs_torch
def test_canaries_of_one_training_do_not_meet():
    """Each moves a column of its own by nearly the clipping norm; together they are as alone."""
    for adapter, encoder in ((last_layer, None), (film, training_games.tiny_encoder(16))):
        canaries = training_games.Canaries(learned(adapter), 16, encoder)
        assert canaries.lengths.min() > 0.98
        assert canaries.lengths.max() <= 1.0
        alone = clipped_sum(canaries.gradients(np.array([3])), canaries.like, np.array([0]), 1.0)
        along = canaries.along(flattened(alone) / TERM_SCALE)
        assert along[3] == pytest.approx(canaries.lengths[3])
        assert np.abs(np.delete(along, 3)).max() < 1e-12


def test_replays_of_training_measure_the_claim():
    learner, real = learned(last_layer), training(1.0, rate=0.5, steps=4).event
    found = training_games.replay_steps(learner, real, claimed=real, delta=DELTA)
    assert found.verdict == games.CONSISTENT
    assert found.tightness > 0.9
    less = replace(real, noise_multiplier=0.9 * real.noise_multiplier)
    assert training_games.replay_steps(learner, less, claimed=real, delta=DELTA).verdict == games.VIOLATED


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_many_steps_are_audited(rate):
    real = training(1.0, rate=rate, steps=10 if rate == 1 else 5)
    found = played(real, trials=10_000)
    assert found.verdict == games.CONSISTENT, found
    assert played(real, told=half_the_noise(real), trials=10_000).verdict == games.VIOLATED
