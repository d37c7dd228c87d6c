"""Composition through privacy loss distributions: a thin bridge to Google's dp-accounting.

The library's connect-the-dots distributions dominate the true ones at every grid width, so a coarse grid is only
less tight, never wrong; what its float64 Fourier transform may lose is added on top of every delta.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from reticent import errors
from reticent.privacy import events, sampled

FINE = 0.02
COARSE = 0.2
_LARGEST_GRID = 2**21
_LARGEST_STEP = 2**17  # points of the distribution of one step, each of which takes microseconds
_LARGEST_LOSS = 700.0  # whose exponential is still a float64
# Float64 rounding in the Fourier transform, per composed step: at most 2^-52 for each of some tens of standard
# deviations of grid, times log2 of the grid; 2^10 is far above both. test_fourier_slack_covers_direct_convolution
FOURIER_ERROR = 2.0**-42


@dataclass(frozen=True)
class Part:
    """One kind of event inside a composition, and how often it occurs."""

    event: events.Gaussian | events.DpSgd | events.LabelSelection
    times: int

    @property
    def steps(self) -> int:
        """How many base distributions are convolved."""
        return self.times * (self.event.steps if isinstance(self.event, events.DpSgd) else 1)

    @property
    def farthest(self) -> float:
        """Roughly the largest loss of one step."""
        if isinstance(self.event, events.LabelSelection):
            return group(self.event)[0]
        return 0.5 / self.event.noise_multiplier**2 + 10 / self.event.noise_multiplier

    @property
    def step_spread(self) -> float:
        """A typical loss of one step; the grid must resolve it."""
        if isinstance(self.event, events.LabelSelection):
            return self.farthest / 2
        chi = math.sqrt(math.expm1(min(self.event.noise_multiplier**-2, 700.0)))
        return min(chi * (self.event.rate if isinstance(self.event, events.DpSgd) else 1.0), self.farthest)

    @property
    def reach(self) -> float:
        """Roughly how far losses of the whole part extend."""
        if isinstance(self.event, events.LabelSelection):
            return self.steps * self.farthest
        drift = self.step_spread**2 * self.steps
        # The last term is what the library's bound on the tails adds: it tries no order below one over the points of a
        # step, which for many steps with much noise are few.
        return self.farthest + 16 * self.step_spread * math.sqrt(self.steps) + drift + drift / (4 * self.farthest)

    def distribution(self, width: float) -> Any:
        """Returns the library's distribution of the whole part on a grid of this width."""
        from dp_accounting.pld import common, privacy_loss_distribution  # takes a second to import; rarely needed

        match self.event:
            case events.DpSgd(noise_multiplier=noise, rate=rate) if rate < 1:
                return sampled.distribution(noise, rate, self.steps, width)
            case events.DpSgd(noise_multiplier=noise) | events.Gaussian(noise_multiplier=noise):
                one = privacy_loss_distribution.from_gaussian_mechanism(noise, value_discretization_interval=width)
            case events.LabelSelection() as labels:
                spent = common.DifferentialPrivacyParameters(*group(labels))
                one = privacy_loss_distribution.from_privacy_parameters(spent, value_discretization_interval=width)
            case _:
                raise errors.UnsupportedEvent(f"No accountant knows {self.event!r}. Add a case with its proof.")
        return one.self_compose(self.steps) if self.steps > 1 else one


def group(event: events.LabelSelection) -> tuple[float, float]:
    """Returns (epsilon, delta) of label selection for a person with m examples, however they are spread.

    m on one label: m epsilon and delta (e^(m epsilon) - 1)/(e^epsilon - 1) by group privacy; on several labels
    the groups compose to no more, since (e^x - 1) is superadditive.
    """
    m = event.examples_per_person
    if m == 1:
        return event.epsilon, event.delta
    exponent = m * event.epsilon
    grown = math.expm1(exponent) / math.expm1(event.epsilon) if exponent < 700 else math.inf
    return exponent, min(1.0, event.delta * grown * (1 + 1e-12))


@dataclass(frozen=True)
class Loss:
    """A composed privacy loss distribution and its numerical error; an error of 1 means that there is no bound."""

    distribution: Any
    error: float

    def delta(self, epsilon: float) -> float:
        """Returns an upper bound on delta at this epsilon."""
        if self.error >= 1:
            return 1.0
        return min(1.0, float(self.distribution.get_delta_for_epsilon(epsilon)) + self.error)

    def epsilon(self, delta: float) -> float:
        """Returns an upper bound on epsilon at this delta; infinity where the error alone exceeds it."""
        if delta <= self.error:
            return math.inf
        epsilon = float(self.distribution.get_epsilon_for_delta(delta - self.error))
        return math.inf if math.isnan(epsilon) else epsilon  # losses below the resolution of float64


@lru_cache(maxsize=256)
def compose(parts: frozenset[Part], resolution: float) -> Loss:
    """Returns the loss of all parts together; `resolution` is the grid width in typical losses of one step."""
    total = distribution_of(parts, width_of(parts, resolution, sum(part.reach for part in parts)))
    return Loss(total, 1.0 if total is None else sum(part.steps for part in parts) * FOURIER_ERROR)


def width_of(parts: frozenset[Part], resolution: float, reach: float) -> float:
    """Returns the width of a grid for losses of these parts that reach this far."""
    finest = min(min(part.step_spread, 1.0) for part in parts)
    farthest = max(part.farthest for part in parts)
    return max(resolution * finest, reach / _LARGEST_GRID, farthest / _LARGEST_STEP)


def distribution_of(parts: frozenset[Part], width: float) -> Any:
    """Returns the library's distribution of all parts together; None for losses that no grid can hold."""
    chosen = any(isinstance(part.event, events.LabelSelection) and part.farthest > _LARGEST_LOSS for part in parts)
    if width > 1 or chosen:  # losses in the millions: hardly any noise
        return None
    total = None
    for part in sorted(parts, key=repr):
        one = part.distribution(width)
        total = one if total is None else total.compose(one)
    return total
