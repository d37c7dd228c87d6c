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
from reticent.gate.outer_products import OuterProducts
from reticent.numerics.rows import norms, squared_norms
from reticent.privacy import events

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Parameters = Mapping[str, npt.NDArray[np.float32]]

_ROUNDING = 2.0**-20  # more than all rounding of a norm and a scale in float64, for up to 2^31 parameters
_SPARE = 16  # bits of a sum below a step of the grid: grid.TERM_SCALE is 2^16 grid.STEP_SCALE
_MOST_SQUARED = grid.TERM_SCALE**2 * (1 - 2.0**-30)  # squares are added up in float64


# --- gradients, as `sensitive/` hands them over


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

    def add(self, sums: Mapping[str, Ints], scales: Floats) -> None:
        """Adds each example's gradient times its scale, truncated to whole numbers.

        Args:
            sums: By parameter; 2^40 is one clipping norm. They wrap around like all int64, see `Steps`.
            scales: From gradients to clipping norms; 0 leaves an example out, whatever it holds.
        """
        with np.errstate(all="ignore"):
            factors = (scales * grid.TERM_SCALE)[:, None]
            terms = {name: np.trunc(rows * factors) for name, rows in self.rows.items()}
            squares = sum((squared_norms(rows) for rows in terms.values()), np.zeros(len(scales)))
        outer = None if self.head is None else self.head.factors(scales)
        if outer is not None:
            squares = squares + outer.squares
        kept = squares <= _MOST_SQUARED  # exactly: in whole numbers nobody adds more than the norm; NaN is left out
        for name, rows in terms.items():
            sums[name][...] += rows[kept].astype(np.int64).sum(axis=0).reshape(sums[name].shape)
        if self.head is not None and outer is not None:
            outer.add(sums[self.head.weight], sums[self.head.bias], kept)


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
      - Every step is a Poisson-sampled Gaussian mechanism with at least the event's noise, on the computer too and for
        batches of any size.
        test_noise_has_its_scale, test_neighbours_differ_by_one_unit, test_sums_that_wrap_around_are_post_processing
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

    In units of the clipping norm, each clipped gradient is truncated towards zero to whole multiples of 2^-40
    (`Block.add`): its norm does not grow, and what would exceed 1 is left out. A gradient depends on its own example
    alone (`Gradients`) and whole numbers are added up exactly, so one example more moves the sum S by its own vector,
    of norm at most 1, however many others there are: no bound on the batch is assumed. The step draws noise on
    floor(S 2^24): floors of neighbours differ by less than one step of that grid beyond the difference of S 2^24 in
    each coordinate, sqrt(d) steps in norm. Noise of (1 + sqrt(d) 2^-24) times the event's keeps the event true.

    int64 holds S modulo 2^64. floor(S 2^24) + noise is returned modulo 2^48 (it follows from S modulo 2^64), which is a
    function of the sum without wrapping: post-processing. Sums below 2^23 clipping norms do not wrap.
    """

    def __init__(self, steps: NoisySteps, gradients: Gradients, rng: NoiseSource) -> None:
        self.left = steps.event.steps
        self.check: Callable[[], None] = _nothing  # a permit refuses steps as it refuses draws
        self._gradients: Gradients | None = gradients
        self._clip_norm, self._like = steps.clip_norm, gradients.start
        size = sum(value.size for value in self._like.values())
        slack = math.sqrt(size) / grid.STEP_SCALE
        sigma = steps.event.noise_multiplier * (1 + slack) * grid.STEP_SCALE
        rate = steps.event.rate
        draw = partial(_draw, rng, gradients.size, None if rate == 1 else lambda mp: mp.mpf(rate), sigma, size)
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
        return on_the_grid(sums.values(), noise)


def on_the_grid(sums: Iterable[Ints], noise: Ints) -> Floats:
    """Returns exact sums, one after the other, plus noise in steps of the grid: in clipping norms, modulo 2^24 of them.

    >>> on_the_grid([np.array([[3 << 40]]), np.array([-1])], np.array([5, 0])).tolist() == [3 + 5 * 2**-24, -(2**-24)]
    True
    """
    from reticent.gate import step_kernel

    noisy, at = np.empty(len(noise)), 0
    for total in sums:
        part = slice(at, at := at + total.size)
        step_kernel.noisy_on_grid(total.reshape(-1), noise[part], _SPARE, 1 / grid.STEP_SCALE, noisy[part])
    return noisy


def clipped_sum(gradients: Gradients, parameters: Parameters, rows: Ints, clip_norm: float) -> dict[str, Ints]:
    """Sensitive: returns the exact sum of the given examples' clipped gradients, `grid.TERM_SCALE` for one norm."""
    while True:
        sums = {name: np.zeros(value.shape, np.int64) for name, value in gradients.start.items()}
        blocks, found = gradients.blocks(parameters, rows), 0
        try:
            for block in blocks:
                scales = block.norms()
                found += max((len(norm) for norm in scales.values()), default=0)
                if found > len(rows):
                    raise errors.InvalidValue("Expected one gradient for each example: several would count it twice.")
                try:
                    block.add(sums, bounded(scales, clip_norm) / clip_norm)
                except MemoryError as error:
                    if not isinstance(blocks, Generator):
                        raise
                    blocks.throw(error)  # as if its own computation had run out of memory
            return sums
        except Again:
            continue


def bounded(found: Mapping[str, Floats], clip_norm: float) -> Floats:
    """Returns factors between 0 and 1 after which no example's gradient exceeds clip_norm.

    An example whose gradient is not finite, or would still be too long, contributes nothing.

    >>> bounded({"a": np.array([3.0, np.nan]), "b": np.array([4.0, 1.0])}, 1.0).round(4).tolist()
    [0.2, 0.0]
    """
    from reticent.gate import step_kernel

    examples = max((len(norm) for norm in found.values()), default=0)  # a batch may be empty
    norms_of = np.array([*found.values()], np.float64).reshape(len(found), examples)
    scales = np.empty(examples)
    step_kernel.clipping_scales(norms_of, clip_norm, _ROUNDING, scales)
    return scales


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


def _draw(
    rng: NoiseSource, size: int, chance: Callable[[Any], Any] | None, sigma: float, parameters: int
) -> tuple[Ints, Ints]:
    """Draws a batch by exact coins, and a step's noise: always in this order, so that seeded runs repeat."""
    rows = np.arange(size) if chance is None else rng.successes(size, chance)
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
