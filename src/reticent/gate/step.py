"""The noisy step of DP-SGD: sample, clip, add up, snap to the grid, add noise.

`sensitive/` computes gradients and nothing else. What one example may add is bounded here, before noise is added.
"""

import math
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate import grid
from reticent.gate.noise import NoiseSource
from reticent.numerics.rows import norms
from reticent.privacy import events

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Parameters = Mapping[str, npt.NDArray[np.float32]]

MOST_EXAMPLES = 2.0**19  # of a batch: the rounding of this many terms in float64 is part of the slack
_ROUNDING = 2.0**-20  # more than all rounding of a norm and a scale in float64, for up to 2^31 parameters


# --- gradients, as `sensitive/` hands them over


@dataclass(frozen=True)
class OuterProducts:
    """Sensitive: gradients of a linear head, one error vector times one feature vector for each example.

    Args:
        weight: Name of the head's weights, whose gradient is errors^T features.
        bias: Name of its bias, whose gradient is the errors.
        errors: Shape (n, classes).
        values: Features as whole numbers, shape (n, width).
        units: The power of two that each row of values is a multiple of.
        lengths: Norms of the rows of values.
    """

    weight: str
    bias: str
    errors: Floats
    values: Floats
    units: Floats
    lengths: Floats

    def __repr__(self) -> str:
        return "OuterProducts(<sensitive>)"

    def norms(self) -> dict[str, Floats]:
        """Returns the norm of each example's gradient, by parameter."""
        with np.errstate(all="ignore"):
            of_errors = norms(self.errors)
            return {self.weight: of_errors * self.lengths * self.units, self.bias: of_errors}

    def add(self, sums: Mapping[str, Floats], scales: Mapping[str, Floats]) -> None:
        """Adds scaled gradients to the sums, once; examples scaled by 0 may hold NaN and are left out."""
        unused = (scales[self.weight] <= 0) & (scales[self.bias] <= 0)
        self.errors[unused] = self.values[unused] = 0.0
        sums[self.bias][...] += scales[self.bias] @ self.errors
        np.multiply(self.errors, (scales[self.weight] * self.units)[:, None], out=self.errors)
        sums[self.weight][...] += self.errors.T @ self.values


@dataclass(frozen=True)
class Block:
    """Sensitive: the gradients of some examples.

    Args:
        rows: By parameter, one row for each example.
        head: Those of a linear head, not multiplied out.
    """

    rows: Mapping[str, Floats]
    head: OuterProducts | None = None

    def __repr__(self) -> str:
        return "Block(<sensitive>)"

    def norms(self) -> dict[str, Floats]:
        """Returns the norm of each example's gradient, by parameter."""
        found = {name: norms(rows) for name, rows in self.rows.items()}
        return found if self.head is None else {**found, **self.head.norms()}

    def add(self, sums: Mapping[str, Floats], scales: Mapping[str, Floats]) -> None:
        """Adds scaled gradients to the sums, once; those scaled by 0 may hold NaN and are left out."""
        for name, rows in self.rows.items():
            used = scales[name] > 0
            sums[name][...] += (scales[name][used] @ rows[used]).reshape(sums[name].shape)
        if self.head is not None:
            self.head.add(sums, scales)


class Again(Exception):
    """Raised by gradients that must be computed anew from the first example of a step, as when memory ran out."""


class Gradients(Protocol):
    """Sensitive: examples, and the gradients of their losses.

    The gradient of an example must not depend on the others, not even in its last bits: the sensitivity depends on it.
    """

    @property
    def start(self) -> dict[str, npt.NDArray[np.float32]]:
        """Initial parameters, public."""

    @property
    def size(self) -> int:
        """How many examples there are."""

    def blocks(self, parameters: Parameters, rows: Ints) -> Iterable[Block]:
        """Yields the gradients of the given examples, some at a time; may raise `Again`."""


# --- the mechanism


@dataclass(frozen=True)
class NoisySteps:
    """Poisson-sampled steps on sums of clipped gradients.

    Guarantees (add or remove one example):
      - Every step is a Poisson-sampled Gaussian mechanism with at least the event's noise, on the computer too.
                                                      test_noise_has_its_scale, test_neighbours_differ_by_one_unit
      - No gradient adds more than the clipping norm, whatever it holds.     test_clipped_gradients_never_exceed
      - An empty batch is a step like any other.      test_empty_batches_draw_noise
      - There are as many steps as the event says, and no more.              test_steps_end_with_the_event
      - Drawing ahead changes no draw.                test_prefetching_changes_no_draw

    Args:
        event: What all steps cost.
        clip_norm: Most that one example can add to the sum of a step.
        ahead: Draw the next step's batch and noise while gradients are computed: speed alone.
    """

    event: events.DpSgd
    clip_norm: float
    ahead: bool = True

    def __post_init__(self) -> None:
        errors.set_real(self, "clip_norm", above=1e-30, below=1e30)
        if self.event.examples_per_person != 1:
            raise errors.InvalidValue(
                "Expected training on one example per person: examples are sampled and clipped one by one here."
            )

    def __call__(self, value: Gradients, *, rng: NoiseSource) -> "Steps":
        """Returns a function from parameters to a noisy sum, to be called once for each step."""
        return Steps(self, value, rng)


class Steps:
    """The steps of one training, in order: from parameters to a noisy sum of gradients, in clipping norms.

    One example moves the sum by at most clip_norm (`bounded`), so sum / clip_norm by 1: the others' gradients do not
    depend on it (`Gradients`). Added up in float64 in any order, n terms of norm 1 are off by at most n^2 2^-53, and so
    are a neighbour's: 2 n^2 2^-53 for n <= MOST_EXAMPLES. Rounding moves every coordinate by half a step of the grid,
    on both sides: sqrt(d) steps. Hence the integers of neighbours differ by at most (1 + slack) times the unit of the
    grid, and noise of (1 + slack) times the unit and the noise multiplier keeps the event true.
    """

    def __init__(self, steps: NoisySteps, gradients: Gradients, rng: NoiseSource) -> None:
        self.left = steps.event.steps
        self.check: Callable[[], None] = _nothing  # a permit refuses steps as it refuses draws
        self._gradients: Gradients | None = gradients
        self._clip_norm, self._like = steps.clip_norm, gradients.start
        size = sum(value.size for value in self._like.values())
        slack = math.sqrt(size) / grid.STEP_SCALE + 2 * MOST_EXAMPLES**2 * 2.0**-53
        sigma = steps.event.noise_multiplier * (1 + slack) * grid.STEP_SCALE
        draw = partial(_draw, rng, gradients.size, steps.event.rate, sigma, size)
        self._draws = _draws(draw, self.left, ahead=steps.ahead)

    def __repr__(self) -> str:
        return "Steps(<sensitive>)"

    def __call__(self, point: Floats) -> Floats:
        """Returns the noisy sum at these parameters, one number for each; it may be published."""
        self.check()
        if self._gradients is None:
            raise errors.NotPaidFor("All steps that were paid for are drawn. Spend again to train on.")
        self.left -= 1
        rows, noise = next(self._draws)
        sums = clipped_sum(self._gradients, split(point, self._like, np.float32), rows, self._clip_norm)
        if not self.left:  # the examples are needed no more, nor the thread that draws ahead
            self._gradients, self.check = None, _nothing
            self._draws.close()
        noisy = flattened(sums)
        noisy *= grid.STEP_SCALE / self._clip_norm
        np.rint(noisy, out=noisy)
        noisy += noise  # integers below 2^53 are added exactly in float64
        noisy /= grid.STEP_SCALE
        return noisy


def clipped_sum(gradients: Gradients, parameters: Parameters, rows: Ints, clip_norm: float) -> dict[str, Floats]:
    """Sensitive: returns the sum of the given examples' gradients, each scaled to at most clip_norm."""
    while True:
        sums = {name: np.zeros(value.shape) for name, value in gradients.start.items()}
        blocks, found = gradients.blocks(parameters, rows), 0
        try:
            for block in blocks:
                scales = block.norms()
                found += max((len(norm) for norm in scales.values()), default=0)
                if found > len(rows):
                    raise errors.InvalidValue("Expected one gradient for each example: several would count it twice.")
                try:
                    block.add(sums, bounded(scales, clip_norm))
                except MemoryError as error:
                    if not isinstance(blocks, Generator):
                        raise
                    blocks.throw(error)  # as if its own computation had run out of memory
            return sums
        except Again:
            continue


def bounded(found: Mapping[str, Floats], clip_norm: float) -> dict[str, Floats]:
    """Returns factors between 0 and 1 after which no example's gradient exceeds clip_norm.

    An example whose gradient is not finite, or would still be too long, contributes nothing.

    >>> scales = bounded({"a": np.array([3.0, np.nan]), "b": np.array([4.0, 1.0])}, 1.0)
    >>> scales["a"].round(4).tolist()
    [0.2, 0.0]
    """
    with np.errstate(all="ignore"):
        limit = clip_norm * (1 - _ROUNDING)
        scale = np.clip(np.minimum(1.0, limit / np.maximum(_joint(found), limit * 0.5)), 0.0, 1.0)
        total = _joint({name: norm * scale for name, norm in found.items()})
        usable = np.isfinite(_joint(found)) & (total <= clip_norm * (1 - _ROUNDING / 2))
    return dict.fromkeys(found, np.where(usable, scale, 0.0))


def flattened(values: Mapping[str, npt.NDArray[Any]]) -> Floats:
    """Returns parameters as one vector, in their order."""
    return np.concatenate([np.zeros(0), *(value.ravel() for value in values.values())], dtype=np.float64)


def split(values: Floats, like: Parameters, dtype: type[np.floating[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Returns a vector as parameters of the given names and shapes."""
    with np.errstate(over="ignore"):  # parameters that diverged are noise, and public
        cast = values.astype(dtype)
    ends = np.cumsum([value.size for value in like.values()])
    return {
        name: cast[end - value.size : end].reshape(value.shape)
        for (name, value), end in zip(like.items(), ends, strict=True)
    }


def _joint(found: Mapping[str, Floats]) -> Floats:
    return np.asarray(np.sqrt(sum(np.square(norm) for norm in found.values())), dtype=np.float64)


def _draw(rng: NoiseSource, size: int, rate: float, sigma: float, parameters: int) -> tuple[Ints, Ints]:
    """Draws a batch by exact coins, and a step's noise: always in this order, so that seeded runs repeat."""
    rows = np.arange(size) if rate == 1 else rng.successes(size, lambda mp: mp.mpf(rate))
    return rows, rng.rounded_gaussian(sigma, parameters)


def _draws(
    draw: Callable[[], tuple[Ints, Ints]], steps: int, *, ahead: bool
) -> Generator[tuple[Ints, Ints], None, None]:
    if not ahead:
        for _ in range(steps):
            yield draw()
        return
    thread = ThreadPoolExecutor(1)
    try:
        coming = thread.submit(draw)
        for left in reversed(range(steps)):
            drawn = coming.result()
            if left:
                coming = thread.submit(draw)
            yield drawn
    finally:
        thread.shutdown(wait=False)  # may run wherever steps that nobody finished are collected: never wait there


def _nothing() -> None:
    """Refuses nothing."""
