"""Training with DP-SGD: public settings, and the loop from noisy sums to parameters.

`Training` is what privacy and the optimiser need, `Engine` is speed alone. Gradients come from a provider, see
`gradients` and `head`; the gate clips them, adds them up and draws the noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate.mechanisms import Mechanism
from reticent.gate.step import Floats, Gradients, NoisySteps, Parameters, Steps, flattened, split
from reticent.privacy import events
from reticent.released.optimizers import Adam, Sgd


class Draws(Protocol):
    """A permit of the gate, or of one run of a private selection."""

    def draw(self, mechanism: Mechanism[Gradients, Steps], value: Gradients) -> Steps:
        """Draws a mechanism that was paid for."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Public facts: everything that privacy and the optimiser need, safe to print and log.

    Args:
        noise_multiplier: Standard deviation of the noise over clip_norm.
        rate: Chance that an example is in a step's batch.
        steps: How many steps.
        clip_norm: Most that one example can add to the sum of a step.
        batch: What the noisy sum is divided by: a public guess of the batch size, never the real one.
        optimizer: What a step does with the noisy mean.

    Example:
        >>> sgd = Sgd(learning_rate=0.1)
        >>> Training(noise_multiplier=1, rate=0.1, steps=40, clip_norm=1, batch=64, optimizer=sgd).event.steps
        40
    """

    noise_multiplier: float
    rate: float
    steps: int
    clip_norm: float
    batch: float
    optimizer: Adam | Sgd

    def __post_init__(self) -> None:
        errors.set_real(self, "noise_multiplier", above=0, below=2.0**20)
        errors.set_real(self, "rate", above=0, below=math.nextafter(1, 2))
        errors.set_whole(self, "steps", at_least=1)
        errors.set_real(self, "clip_norm", above=1e-30, below=1e30)
        errors.set_real(self, "batch", above=0, below=math.inf)
        if not isinstance(self.optimizer, Adam | Sgd):
            raise errors.InvalidValue("Expected an optimizer: Adam(...) or Sgd(...).")

    @property
    def event(self) -> events.DpSgd:
        """What training costs; to be spent before it begins."""
        return events.DpSgd(noise_multiplier=self.noise_multiplier, rate=self.rate, steps=self.steps)


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Speed alone: nothing here changes what is spent.

    Args:
        memory: Bytes that the activations of one micro-batch may take; few suit a processor, a GPU wants more.
        rows: Most examples of a micro-batch.
        bf16: Compute the encoder in bfloat16 where torch holds that to be safe; slower on many processors.
        prefetch: Draw the next step's batch and noise while gradients are computed.
    """

    memory: int = 48 << 20
    rows: int = 16
    bf16: bool = False
    prefetch: bool = True

    def __post_init__(self) -> None:
        errors.set_whole(self, "memory", at_least=1)
        errors.set_whole(self, "rows", at_least=1)


def train(
    gradients: Gradients,
    training: Training,
    permit: Draws,
    *,
    engine: Engine | None = None,
    start: Parameters | None = None,
    progress: Callable[[float], None] | None = None,
) -> dict[str, npt.NDArray[np.float32]]:
    """Trains with differential privacy and returns the last parameters; one that diverged beyond numbers is 0.

    Guarantees (add or remove one example):
      - Names, shapes and the number of steps follow from public facts.     test_neighbours_give_the_same_shapes
      - What it draws was paid for: `training.event` is in the permit.      test_training_needs_its_permit

    Args:
        gradients: Sensitive.
        training: Public facts.
        permit: Of a spend whose event has `training.event` in it.
        engine: Speed.
        start: Where to begin, public, in any order of names; the gradients' own start by default.
        progress: Called with the fraction done.
    """
    like = gradients.start
    point = flattened(like if start is None else {name: start[name] for name in like})
    mean = noisy_means(gradients, training, permit, engine=engine)
    update = training.optimizer.update(len(point))
    for step in range(1, training.steps + 1):
        update(point, mean(point))
        if progress is not None:
            progress(step / training.steps)
    trained = split(point, like, np.float32)
    return {name: np.where(np.isfinite(values), values, np.float32(0)) for name, values in trained.items()}


def noisy_means(
    gradients: Gradients, training: Training, permit: Draws, *, engine: Engine | None = None
) -> Callable[[Floats], Floats]:
    """Returns a function from parameters to a noisy mean gradient, to be called once for each step of the training."""
    ahead = engine is None or engine.prefetch
    sums = permit.draw(NoisySteps(training.event, training.clip_norm, ahead), gradients)
    scale = training.clip_norm / training.batch

    def mean(point: Floats) -> Floats:
        noisy = sums(point)
        noisy *= scale
        return noisy

    return mean
