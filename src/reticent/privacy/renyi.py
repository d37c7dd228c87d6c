"""Rényi accounting, for private selection and whatever is composed with it.

Everything else goes through tighter curves in `profiles`. The best of a random number of runs has a good bound in
Rényi divergences only.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from reticent import errors
from reticent.privacy import events, pld, repeats, selection
from reticent.privacy.events import Event

Floats = npt.NDArray[np.float64]

# Orders lambda > 1: hundredths, tenths, whole numbers, then steps of a tenth part. Any set is sound.
ORDERS: Floats = np.concatenate(
    [1 + np.arange(1, 10) / 100, np.arange(11, 100) / 10, np.arange(10, 65), np.round(64 * 1.1 ** np.arange(1, 66))]
)
# Rounding of float64 in a divergence, as a part of it: log-gamma at the largest order is off by less than 1e-10.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Bound:
    """Rényi divergences, in both directions, of distributions close to the true ones.

    On neighbouring data sets the event has distributions M and M'. There are distributions A and A' with divergences at
    most these, and M, M' contain them: M >= e^(-shift) A at every point, and M differs from A by at most `slip` in
    total variation. Where A and A' are (x, d)-indistinguishable, M(S) <= slip + A(S) <= slip + d + e^x A'(S)
    <= slip + d + e^(x + shift) M'(S).

    Guarantees:
      - Divergences of a subsampled step are never too small.  test_subsampled_divergences_are_upper_bounds
      - delta is never below an exact one.                     test_best_of_toy_runs_is_covered
    """

    divergences: tuple[float, ...]
    slip: float = 0.0
    shift: float = 0.0

    def delta(self, epsilon: float) -> float:
        """Returns an upper bound on delta (Canonne, Kamath, Steinke 2020, Proposition 12)."""
        above = np.asarray(self.divergences) - (epsilon - self.shift)
        exponents = (ORDERS - 1) * (above + np.log1p(-1 / ORDERS)) - np.log(ORDERS)
        return min(1.0, self.slip + math.exp(min(0.0, float(exponents.min()))))

    def epsilon(self, delta: float) -> float:
        """Returns an upper bound on epsilon, by the same formula."""
        left = (delta - self.slip) * (1 - 1e-15)  # subtraction may round up
        if left <= 0:
            return math.inf
        tails = (math.log(left) + np.log(ORDERS)) / (ORDERS - 1)
        reached = np.asarray(self.divergences) + np.log1p(-1 / ORDERS) - tails + self.shift
        return max(0.0, float(reached.min()))


def compose(counts: Mapping[Event, int]) -> Bound:
    """Returns the bound of events that occur this often: divergences, slips and shifts add up."""
    divergences, slip, shift = np.zeros(len(ORDERS)), 0.0, 0.0
    for event, times in counts.items():
        one = of(event)
        divergences = divergences + times * np.asarray(one.divergences)
        slip, shift = slip + times * one.slip, shift + times * one.shift
    return Bound(tuple(divergences.tolist()), slip, shift)


@lru_cache(maxsize=1024)
def of(event: Event) -> Bound:
    """Returns the bound of one event; refuses what no case knows.

    >>> of(events.Gaussian(noise_multiplier=2.0)).slip
    0.0
    """
    match event:
        case events.Public():
            return _contained(np.zeros(len(ORDERS)), 0.0)
        case events.NonPrivate():
            return _contained(np.full(len(ORDERS), math.inf), 0.0)
        case events.Gaussian(noise_multiplier=noise, examples_per_person=m):
            return _contained(_gaussian(m / noise), 0.0)
        case events.JointGaussian(noise_multiplier=noise) | events.LabelCounts(noise_multiplier=noise):
            m = event.examples_per_person
            return _contained(_gaussian(m / noise), selection.GaussianLaw(event).exposures(m)[m])
        case events.Exposure(chance=chance):
            return _contained(np.zeros(len(ORDERS)), chance)
        case events.DpSgd(noise_multiplier=noise, rate=rate, steps=steps):
            return _contained(steps * (_gaussian(1 / noise) if rate == 1 else _subsampled(noise, rate)), 0.0)
        case events.LabelSelection():
            return _contained(_coin(pld.group(event)[0]), pld.group(event)[1])
        case events.LabelledTraining(counts=counts, training=training):
            return compose({counts: 1, training: 1})
        case events.Composed(parts=parts):
            return compose({part: parts.count(part) for part in parts})
        case events.PrivateSelection():
            return _selected(event)
        case events.Adaptive(kinds=kinds, times=times):  # at each order, the largest of the kinds is a filter
            bounds = [of(kind) for kind in kinds]
            most = times * np.max([bound.divergences for bound in bounds], axis=0)
            slip, shift = (times * max(part) for part in zip(*((b.slip, b.shift) for b in bounds), strict=True))
            return Bound(tuple(most.tolist()), slip, shift)
    raise errors.UnsupportedEvent(f"No accountant knows {type(event).__name__}. Add a case with its proof.")


def _contained(divergences: Floats, chance: float) -> Bound:
    """Bounds M = (1 - chance) A + chance B: the form of an exposure, and of the worst (epsilon, delta)-DP pair."""
    rounded = tuple((divergences * (1 + _ROUNDING)).tolist())
    return Bound(rounded, chance, -math.log1p(-chance) if chance < 1 else math.inf)


def _gaussian(mu: float) -> Floats:
    return ORDERS * mu**2 / 2


def _coin(epsilon: float) -> Floats:
    """The worst pure epsilon-DP pair: a coin with odds e^epsilon against one with odds e^-epsilon."""
    more, less = -math.log1p(math.exp(-epsilon)), -math.log1p(math.exp(-epsilon)) - epsilon
    moments = np.logaddexp(ORDERS * more + (1 - ORDERS) * less, ORDERS * less + (1 - ORDERS) * more)
    divergences: Floats = np.clip(moments / (ORDERS - 1), 0, epsilon)
    return divergences


@lru_cache(maxsize=256)
def _subsampled(noise: float, rate: float) -> Floats:
    """One Poisson-sampled Gaussian step (Mironov, Talwar, Zhang 2019: removal is the worse direction).

    Whole orders exactly: the binomial weights add up to 1, so E[L^n] - 1 is a sum of positive terms over k >= 2.
    ln E[L^x] is convex in x and 0 at x = 1, so between whole orders the chord is above it.
    """
    whole = np.unique(np.concatenate([np.floor(ORDERS), np.ceil(ORDERS)]))
    logs = np.zeros(len(whole))
    for i, order in enumerate(whole[1:], start=1):
        k = np.arange(2, order + 1)
        chosen = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        growth = k * (k - 1) / (2 * noise**2)
        with np.errstate(divide="ignore"):  # growth below 1e-300: the term is 0
            terms = chosen + k * math.log(rate) + (order - k) * math.log1p(-rate) + growth + np.log(-np.expm1(-growth))
        logs[i] = np.logaddexp(0.0, logsumexp(terms))
    divergences: Floats = np.interp(ORDERS, whole, logs) / (ORDERS - 1)
    return divergences


def _selected(event: events.PrivateSelection) -> Bound:
    """The best of K runs, K truncated negative binomial (Papernot and Steinke 2022, Theorem 2).

    At order x: e(x) + (1 + eta) min over y >= 1 of ((1 - 1/y) e(y) + ln(1/gamma)/y) + ln E[K] / (x - 1).

    Slip: K runs differ from those of A by E[K] times the slip of one. Shift: let f be the generating function of K, so
    f'(t) is proportional to (1 - (1 - gamma) t)^(-1 - eta) and grows with t. Order outcomes by score. M picks y with
    chance f(M(<=y)) - f(M(<y)), the integral of f' over an interval as long as M(y). With M >= r A, that is at least r
    times the integral of f'(r t) over the interval of A, and f'(r t) / f'(t) is least at t = 1:
    (1 + (1 - r)(1 - gamma)/gamma)^(-1 - eta).
    """
    one, eta, gamma = of(event.run), event.eta, event.gamma
    expected = repeats.mean(eta, gamma)
    divergences = np.asarray(one.divergences)
    inside = (1 - 1 / ORDERS) * divergences - math.log(gamma) / ORDERS
    spread = min(-math.log(gamma), float(inside.min()))  # y = 1: no weight on the run's divergence
    best = (divergences + (1 + eta) * spread + math.log(max(expected, 1.0)) / (ORDERS - 1)) * (1 + _ROUNDING)
    lost = -math.expm1(-one.shift)
    shift = one.shift + (1 + eta) * math.log1p(lost * (1 - gamma) / gamma)
    return Bound(tuple(best.tolist()), min(1.0, expected * one.slip * (1 + _ROUNDING)), shift)


def spends_no_more(event: Event, other: Event) -> bool:
    """Returns whether an event spends no more than another at every order that accounting looks at.

    >>> spends_no_more(events.Gaussian(noise_multiplier=2.0), events.Gaussian(noise_multiplier=1.0))
    True
    """
    mine, most = of(event), of(other)
    smaller = bool(np.all(np.asarray(mine.divergences) <= np.asarray(most.divergences)))
    return smaller and mine.slip <= most.slip and mine.shift <= most.shift
