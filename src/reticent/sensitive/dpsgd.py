"""DP-SGD: Poisson-sampled steps on sums of clipped per-example gradients, with noise on an integer grid.

`Training` is what privacy and the optimiser need, `Engine` is speed alone. Gradients come from a provider, see
`gradients`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate.noise import NoiseSource
from reticent.privacy import events

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Parameters = Mapping[str, npt.NDArray[np.float32]]
Clip = Callable[[Mapping[str, Floats], float], Mapping[str, Floats]]
Scales = Callable[[Mapping[str, Floats]], dict[str, Floats]]
Update = Callable[[Floats, Floats], None]

_GRID = 2.0**24  # steps per clip_norm; a finer grid makes more draws fall back on the exact road
_B_MAX = 2.0**19
_ROUNDING = 2.0**-20  # more than all rounding of a norm and a scale in float64, for up to 2^31 parameters


# --- public settings


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
        first, second, work = np.zeros(size), np.zeros(size), np.empty(size)
        decay = [1.0, 1.0]

        def step(point: Floats, gradient: Floats) -> None:
            # moments are kept without their factors 1 - beta, which are put in at the end
            for place, (moment, power) in enumerate(((first, gradient), (second, np.square(gradient, out=work)))):
                decay[place] *= self.betas[place]
                np.multiply(moment, self.betas[place], out=moment)
                np.add(moment, power, out=moment)
            rate = self.learning_rate * (1 - self.betas[0]) / (1 - decay[0])
            np.sqrt(second, out=work)
            np.multiply(work, math.sqrt((1 - self.betas[1]) / (1 - decay[1])) / rate, out=work)
            np.add(work, self.eps / rate, out=work)
            np.divide(first, work, out=work)
            np.subtract(point, work, out=point)

        return step


def flat(norms: Mapping[str, Floats], clip_norm: float) -> dict[str, Floats]:
    """Scales the gradient of an example as one vector of norm at most clip_norm.

    >>> flat({"a": np.array([3.0, 0.0]), "b": np.array([4.0, 1.0])}, 1.0)["a"].tolist()
    [0.2, 1.0]
    """
    total = _joint(norms)
    scale = np.minimum(1.0, clip_norm / np.maximum(total, clip_norm * 0.5))
    return dict.fromkeys(norms, scale)


def per_layer(norms: Mapping[str, Floats], clip_norm: float) -> dict[str, Floats]:
    """Scales the gradient of each of L layers by itself, to norm at most clip_norm / sqrt(L).

    >>> per_layer({"a.weight": np.array([3.0]), "b.weight": np.array([0.5])}, math.sqrt(2))["a.weight"].tolist()
    [0.3333333333333333]
    """
    layers: dict[str, dict[str, Floats]] = {}
    for name, norm in norms.items():
        layers.setdefault(name.rpartition(".")[0], {})[name] = norm
    each = clip_norm / math.sqrt(len(layers))
    return {name: scale for layer in layers.values() for name, scale in flat(layer, each).items()}


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
        clip: How an example's gradient is scaled: `flat`, `per_layer`, or from norms by parameter to factors.

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
    clip: Clip = flat

    def __post_init__(self) -> None:
        errors.set_real(self, "noise_multiplier", above=0, below=2.0**20)
        errors.set_real(self, "rate", above=0, below=math.nextafter(1, 2))
        errors.set_whole(self, "steps", at_least=1)
        errors.set_real(self, "clip_norm", above=1e-30, below=1e30)
        errors.set_real(self, "batch", above=0, below=_B_MAX)
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
        bf16: Compute the encoder in bfloat16 where torch holds that to be safe; slow on processors that lack it.
        prefetch: Draw the next step's batch and noise while gradients are computed.
    """

    memory: int = 48 << 20
    rows: int = 16
    bf16: bool = False
    prefetch: bool = True

    def __post_init__(self) -> None:
        errors.set_whole(self, "memory", at_least=1)
        errors.set_whole(self, "rows", at_least=1)


# --- training


class Gradients(Protocol):
    """Sensitive: examples, and the gradients of their losses.

    The gradient of an example must not depend on the others, not even in its last bits: the sensitivity rests on it.
    """

    @property
    def start(self) -> dict[str, npt.NDArray[np.float32]]:
        """Initial parameters, public."""

    def clipped_sum(self, parameters: Parameters, rows: Ints, clip: Scales) -> dict[str, Floats]:
        """Returns the sum over the given examples of their gradients, each scaled as `clip` says of its norms."""


def train(
    gradients: Gradients,
    size: int,
    training: Training,
    *,
    rng: NoiseSource,
    engine: Engine | None = None,
    start: Parameters | None = None,
    noisy_sums_seen: Callable[[dict[str, Floats]], None] | None = None,
    progress: Callable[[float], None] | None = None,
) -> dict[str, npt.NDArray[np.float32]]:
    """Trains with differential privacy and returns the last parameters. Spend `training.event` before.

    Guarantees (add or remove one example):
      - Every step is a Poisson-sampled Gaussian mechanism with at least the event's noise, on the computer too.
                                                      test_noise_has_its_scale, test_neighbours_differ_by_one_unit
      - An empty batch is a step like any other.      test_empty_batches_draw_noise
      - Names, shapes and the number of steps follow from public facts.     test_neighbours_give_the_same_shapes
      - The engine changes no law.                    test_prefetching_changes_no_law

    Args:
        gradients: Sensitive.
        size: How many examples there are. Sensitive.
        training: Public facts.
        rng: Where batches and noise come from.
        engine: Speed.
        start: Where to begin, public, in any order of names; the gradients' own start by default.
        noisy_sums_seen: Is given each step's noisy sums over clip_norm, which may be published.
        progress: Is given the fraction done.
    """
    like = gradients.start
    point = flattened(like if start is None else {name: start[name] for name in like})
    mean = noisy_means(gradients, size, training, rng=rng, engine=engine, noisy_sums_seen=noisy_sums_seen)
    update = training.optimizer.update(len(point))
    for step in range(1, training.steps + 1):
        update(point, mean(point))
        if progress is not None:
            progress(step / training.steps)
    return unflattened(point, like)


def noisy_means(
    gradients: Gradients,
    size: int,
    training: Training,
    *,
    rng: NoiseSource,
    engine: Engine | None = None,
    noisy_sums_seen: Callable[[dict[str, Floats]], None] | None = None,
) -> Callable[[Floats], Floats]:
    """Returns a function from parameters to a noisy mean gradient, to be called once for each step of the training.

    Each call is one step of `training.event`, whatever is done with its result. See `train`.
    """
    like = gradients.start
    parameters = len(flattened(like))
    # One example moves the sum by at most clip_norm (`_bounded`), so sum / clip_norm by 1: the others' gradients do not
    # depend on it (`Gradients`). Added up in float64 in any order, n terms of norm 1 are off by at most n^2 2^-53, and
    # so are a neighbour's: 2 B_max^2 2^-53 for n <= B_max.
    # Rounding moves every coordinate by half a step, on both sides: sqrt(d) steps. Hence the integers of neighbours
    # differ by at most (1 + slack) 2^24, and noise of (1 + slack) 2^24 noise_multiplier keeps the event true.
    slack = math.sqrt(parameters) / _GRID + 2 * _B_MAX**2 * 2.0**-53
    sigma = training.noise_multiplier * (1 + slack) * _GRID
    scales = partial(_bounded, training.clip, training.clip_norm)
    draw = partial(_draw, rng, size, training.rate, sigma, parameters)
    draws = _draws(draw, training.steps, ahead=engine is None or engine.prefetch)

    def mean(point: Floats) -> Floats:
        rows, noise = next(draws)
        sums = gradients.clipped_sum(_split(point, like, np.float32), rows, scales)
        noisy = flattened({name: sums[name] for name in like})
        noisy *= _GRID / training.clip_norm
        np.rint(noisy, out=noisy)
        noisy += noise  # integers below 2^53 are added exactly in float64
        if noisy_sums_seen is not None:
            noisy_sums_seen(_split(noisy / _GRID, like, np.float64))
        noisy *= training.clip_norm / training.batch / _GRID
        return noisy

    return mean


def flattened(values: Mapping[str, npt.NDArray[Any]]) -> Floats:
    """Returns parameters as one vector, in their order."""
    return np.concatenate([np.zeros(0), *(value.ravel() for value in values.values())], dtype=np.float64)


def unflattened(values: Floats, like: Parameters) -> dict[str, npt.NDArray[np.float32]]:
    """Returns a vector as parameters of the given names and shapes."""
    return _split(values, like, np.float32)


def _draw(rng: NoiseSource, size: int, rate: float, sigma: float, parameters: int) -> tuple[Ints, Ints]:
    """Draws a batch by exact coins, and a step's noise: always in this order, so that seeded runs repeat."""
    rows = np.arange(size) if rate == 1 else rng.successes(size, lambda mp: mp.mpf(rate))
    return rows, rng.rounded_gaussian(sigma, parameters)


def _draws(draw: Callable[[], tuple[Ints, Ints]], steps: int, *, ahead: bool) -> Iterator[tuple[Ints, Ints]]:
    if not ahead:
        for _ in range(steps):
            yield draw()
        return
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(draw)
        for left in reversed(range(steps)):
            drawn = coming.result()
            if left:
                coming = thread.submit(draw)
            yield drawn


def _split(values: Floats, like: Parameters, dtype: type[np.floating[Any]]) -> dict[str, npt.NDArray[Any]]:
    with np.errstate(over="ignore"):  # parameters that ran away are noise, and public
        cast = values.astype(dtype)
    ends = np.cumsum([value.size for value in like.values()])
    return {
        name: cast[end - value.size : end].reshape(value.shape)
        for (name, value), end in zip(like.items(), ends, strict=True)
    }


# --- clipping


def _bounded(clip: Clip, clip_norm: float, norms: Mapping[str, Floats]) -> dict[str, Floats]:
    """Returns factors between 0 and 1 after which no gradient exceeds clip_norm, whatever `clip` says.

    An example whose gradient is not finite, or would still be too long, counts for nothing.
    """
    with np.errstate(all="ignore"):
        wanted = clip(norms, clip_norm * (1 - _ROUNDING))
        scales = {name: np.clip(wanted[name], 0.0, 1.0) for name in norms}
        total = _joint({name: norms[name] * scales[name] for name in norms})
        usable = np.isfinite(_joint(norms)) & (total <= clip_norm * (1 - _ROUNDING / 2))
    return {name: np.where(usable, scale, 0.0) for name, scale in scales.items()}


def _joint(norms: Mapping[str, Floats]) -> Floats:
    return np.asarray(np.sqrt(sum(np.square(norm) for norm in norms.values())), dtype=np.float64)
