"""Optimisers: what a step does with a noisy mean gradient. Post-processing of what was released."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reticent import errors

Floats = npt.NDArray[np.float64]
Update = Callable[[Floats, Floats], None]


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """Plain steps, with momentum where asked."""

    learning_rate: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        errors.set_real(self, "learning_rate", above=0, below=math.inf)
        errors.set_real(self, "momentum", above=0, below=1, at_least=True)

    def update(self, size: int) -> Update:
        """Returns a rule that moves parameters in place; its state lives as long as one training."""
        velocity = np.zeros(size)

        def step(point: Floats, gradient: Floats) -> None:
            np.multiply(velocity, self.momentum, out=velocity)
            np.add(velocity, gradient, out=velocity)
            point -= self.learning_rate * velocity

        return step


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam as published, without weight decay."""

    learning_rate: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        errors.set_real(self, "learning_rate", above=0, below=math.inf)
        object.__setattr__(
            self, "betas", tuple(errors.real("beta", beta, above=0, below=1, at_least=True) for beta in self.betas)
        )
        errors.set_real(self, "eps", above=0, below=1)

    def update(self, size: int) -> Update:
        """Returns a rule that moves parameters in place; its state lives as long as one training."""
        from reticent.released.adam_kernel import adam_step  # compiled when something is trained

        first, second, (beta, other) = np.zeros(size), np.zeros(size), self.betas
        decay = [1.0, 1.0]

        def step(point: Floats, gradient: Floats) -> None:
            # moments are kept without their factors 1 - beta, which are put in at the end
            decay[:] = decay[0] * beta, decay[1] * other
            rate = self.learning_rate * (1 - beta) / (1 - decay[0])
            by = math.sqrt((1 - other) / (1 - decay[1])) / rate
            adam_step(point, gradient, first, second, beta, other, by, self.eps / rate)

        return step
