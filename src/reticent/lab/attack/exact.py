"""Exact evidence: what a mechanism loses at least, computed from the law that it draws. Nothing is sampled.

A lower bound needs one pair of neighbours. Each function here takes a pair that is known to be bad and sums
max(P - e^epsilon P', 0) over outcomes, in both directions; where outcomes are merged, or losses rounded down, the sum
can only become smaller. Claims come from `accounting`, which rounds up, by other code.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from reticent import errors
from reticent.lab.attack.games import Kind, Result
from reticent.privacy import accounting, events, profiles, selection

Floats = npt.NDArray[np.float64]
Curve = Callable[[float], float]
_BINS, _REACH = 1 << 15, 14.0
_WIDTH = 4e-3  # of the grid of privacy losses, in typical losses of one step


def exact(game: str, event: events.Event, delta: float, *, claimed: events.Event | None = None) -> Result:
    """Bounds the epsilon of an event from below by the law that it stands for.

    Guarantees:
      - The bound is below the claim and near it, for every mechanism.    test_exact_bounds_are_near_their_claims
      - A law that is off by one step is above its claim.                 test_exact_bounds_catch_wrong_laws

    Args:
        game: Its name.
        event: What is drawn.
        delta: At which epsilon is to be bounded.
        claimed: What was said to be drawn; the same by default.

    Example:
        >>> exact("one Gaussian", events.Gaussian(noise_multiplier=4.0), 1e-5).tightness > 0.99
        True
    """
    return of_curve(game, curve(event), delta, claimed=accounting.epsilon(claimed or event, delta))


def of_curve(game: str, lost: Curve, delta: float, *, claimed: float) -> Result:
    """Makes a result of a curve of divergences."""
    found = largest_epsilon(lost, delta)
    return Result(
        game=game,
        kind=Kind.EXACT,
        trials=0,
        claimed=claimed,
        delta=delta,
        accuracy=(1 + lost(0.0)) / 2,
        epsilon_lower_bound=found,
        refuted=found > claimed * (1 + 1e-9),
    )


def largest_epsilon(lost: Curve, delta: float) -> float:
    """Returns an epsilon at which a falling curve is still above delta, as large as possible; 0 where there is none."""
    delta *= 1 + 1e-9  # what is equal up to rounding is no violation
    if lost(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1e-3
    while lost(high) > delta:
        low, high = high, 2 * high
        if high > 1e3:
            return math.inf
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if lost(middle) > delta else (low, middle)
    return low


def curve(event: events.Event) -> Curve:
    """Returns a lower bound on delta for every epsilon, of a person who is in each part once."""
    parts = list(profiles.leaves(event))
    chosen = [part for part in parts if isinstance(part, events.LabelSelection | events.PrivateSelection)]
    others = [part for part in parts if part not in chosen]
    # a person of a known label does not change what labels are chosen, and whoever sees labels alone sees no sums
    found = [_chosen(part) for part in chosen]
    if others:
        found.append(_one(others[0]) if len(others) == 1 else _composed(others))
    return lambda epsilon: max(lost(epsilon) for lost in found)


def _chosen(event: events.LabelSelection | events.PrivateSelection) -> Curve:
    return best_run(event) if isinstance(event, events.PrivateSelection) else labels_of(selection.law(event))


def _one(event: events.Event) -> Curve:
    match event:
        case events.Gaussian(noise_multiplier=noise, examples_per_person=m):
            return gaussian(m / noise)
        case events.Remembered():
            return gaussian(event.examples_per_person * _first_columns(event) / event.noise)
        case events.JointGaussian() | events.LabelCounts():
            return _joint(event)
        case events.LabelledTraining(counts=counts, training=training):
            m = event.examples_per_person
            known = events.Gaussian(noise_multiplier=counts.noise_multiplier, examples_per_person=m)
            trained, exposed = _composed([known, training]), selection.GaussianLaw(counts).exposures(m)[m]
            return lambda epsilon: max(trained(epsilon), exposed)
        case events.DpSgd():
            return _composed([event])
        case _:
            raise errors.UnsupportedEvent(f"No exact law of {type(event).__name__} is known. Add a case.")


def _first_columns(event: events.Remembered) -> float:
    """How far a person in the first tasks of an epoch moves all of its rows."""
    c, n = event.correlation.coefficients / 256, min(event.tasks_per_person, event.horizon)
    return float(np.linalg.norm([sum(c[t - s] for s in range(min(n, t + 1))) for t in range(event.horizon)]))


def gaussian(mu: float) -> Curve:
    """Returns the divergences of two Gaussians at distance mu, from the masses of bins: the integers drawn, merged."""
    edges = np.linspace(-_REACH, mu + _REACH, _BINS + 1)
    fewer, more = _masses(edges), _masses(edges - mu)
    return lambda epsilon: float(selection.hockey_stick(fewer, more, epsilon))


def _masses(edges: Floats) -> Floats:
    """The mass of each bin, from the tail on its side of zero, so that it is exact far out too."""
    low, high = edges[:-1], edges[1:]
    masses: Floats = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return masses


def labels_of(law: selection.CountLaw, sizes: Iterable[int] | None = None) -> Curve:
    """Returns the divergences of one label's release by the fractions that are drawn, over all class sizes."""
    every = selection.sizes_to_check(min(law.threshold, 10_000)) if sizes is None else np.array(list(sizes))
    drawn, following = selection.drawn_law(law, every), selection.drawn_law(law, every + 1)
    return lambda epsilon: float(np.max(selection.hockey_stick(drawn, following, epsilon)))


def _joint(event: events.JointGaussian | events.LabelCounts) -> Curve:
    """A known label, or a new one at any size: its noisy count and sum where it is released (one example each)."""
    m, law = event.examples_per_person, selection.GaussianLaw(event)
    known, exposed = gaussian(m / event.noise_multiplier), law.exposures(m)[m]
    if m > 1 or isinstance(event, events.LabelCounts):
        return lambda epsilon: max(known(epsilon), exposed)
    last = 2 * math.ceil(max(law.threshold, 1))
    sizes = np.unique(np.geomspace(1, last, 12).astype(int)).tolist()
    return lambda epsilon: max(known(epsilon), *(selection.divergence(event, size, epsilon) for size in (0, *sizes)))


def best_run(event: events.PrivateSelection) -> Curve:
    """Returns the divergences of the best of a random number of runs, each scored by what it drew.

    Pr[best <= y] = f(Pr[run <= y]) with the generating function f of the number of runs.
    """
    if isinstance(event.run, events.DpSgd):  # whoever sees one step of each run sees less
        mu, rate = 1 / event.run.noise_multiplier, event.run.rate
        mu, rate = (mu * math.sqrt(event.run.steps), 1.0) if rate == 1 else (mu, rate)
    elif isinstance(event.run, events.Gaussian):
        mu, rate = event.run.examples_per_person / event.run.noise_multiplier, 1.0
    else:
        raise errors.UnsupportedEvent(f"No exact law of runs of {type(event.run).__name__} is known. Add a case.")
    edges = np.linspace(-_REACH, mu + _REACH, _BINS + 1)
    without = _masses(edges)
    with_one = (1 - rate) * without + rate * _masses(edges - mu)
    # a person may raise scores or lower them: both pairs occur
    pairs = [(_best(without[::turn], event), _best(with_one[::turn], event)) for turn in (1, -1)]
    return lambda epsilon: max(float(selection.hockey_stick(p, q, epsilon)) for p, q in pairs)


def _best(run: Floats, event: events.PrivateSelection) -> Floats:
    """The law of the best run, outcomes listed from the worst score to the best."""
    eta, gamma = event.eta, event.gamma
    beyond = np.concatenate([np.cumsum(run[::-1])[::-1], [0.0]])  # from the best: exact where it matters
    rest = np.log(gamma + (1 - gamma) * np.minimum(beyond, 1.0))  # ln(1 - (1 - gamma) Pr[run <= y])
    grown = rest / math.log(gamma) if eta == 0 else np.expm1(-eta * rest) / math.expm1(-eta * math.log(gamma))
    law: Floats = np.maximum(np.diff(grown), 0.0)
    return law


def _composed(parts: Iterable[events.Event]) -> Curve:
    """Returns the divergences of Gaussians and trainings together, by losses that are rounded down."""
    from dp_accounting.pld import privacy_loss_distribution  # takes a second to import

    squares, steps = 0.0, []
    for part in parts:
        match part:
            case events.Gaussian(noise_multiplier=noise) | events.JointGaussian(noise_multiplier=noise):
                squares += (part.examples_per_person / noise) ** 2
            case events.LabelCounts(noise_multiplier=noise) | events.Remembered(noise_multiplier=noise):
                squares += (part.examples_per_person / noise) ** 2
            case events.DpSgd(noise_multiplier=noise, rate=1.0, steps=times):
                squares += times / noise**2
            case events.DpSgd():
                steps.append(part)
            case events.LabelledTraining(counts=counts, training=training):
                squares += (part.examples_per_person / counts.noise_multiplier) ** 2
                steps.append(training)
            case _:
                raise errors.UnsupportedEvent(f"No exact law of {type(part).__name__} is known. Add a case.")
    if not steps:
        return gaussian(math.sqrt(squares))
    spreads = [step.rate * math.sqrt(math.expm1(min(step.noise_multiplier**-2, 100.0))) for step in steps]
    width = min(1e-2, _WIDTH * min(spreads))
    total: Any = None
    for step in steps:
        one = privacy_loss_distribution.from_gaussian_mechanism(
            step.noise_multiplier,
            sampling_prob=step.rate,
            value_discretization_interval=width,
            pessimistic_estimate=False,
            use_connect_dots=False,
        ).self_compose(step.steps)
        total = one if total is None else total.compose(one)
    if squares:
        total = total.compose(
            privacy_loss_distribution.from_gaussian_mechanism(
                1 / math.sqrt(squares),
                value_discretization_interval=width,
                pessimistic_estimate=False,
                use_connect_dots=False,
            )
        )
    return lambda epsilon: float(total.get_delta_for_epsilon(epsilon))
