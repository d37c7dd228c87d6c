"""The trade-off between epsilon and delta of each kind of event, under add-or-remove-one.

A profile answers `delta(epsilon)` and `epsilon(delta)` with upper bounds. Single releases have exact curves;
a composition becomes a Gaussian, a privacy loss distribution, and a chance that a new label is exposed. Private
selection, and what is composed with it, is bounded by Rényi divergences.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from reticent import errors
from reticent.privacy import adaptive, epoch_costs, events, gaussian, pld, renyi, selection
from reticent.privacy.events import Event
from reticent.privacy.rounding import smallest_epsilon

_PLACEMENTS = 512  # of one person's examples that are looked at one by one


class Profile(Protocol):
    """Upper bounds on delta for epsilon and on epsilon for delta."""

    def delta(self, epsilon: float) -> float:
        """Returns an upper bound on delta at this epsilon."""

    def epsilon(self, delta: float) -> float:
        """Returns an upper bound on epsilon at this delta."""


@lru_cache(maxsize=1024)
def of(event: Event, resolution: float = pld.FINE) -> Profile:
    """Returns the profile of an event; refuses what no case knows.

    >>> of(events.NonPrivate()).epsilon(1e-5)
    inf
    """
    counts = Counter(leaves(event))
    if any(isinstance(leaf, events.NonPrivate) for leaf in counts):
        return Unbounded()
    if counts.total() == 1:
        (leaf,) = counts
        if isinstance(leaf, events.JointGaussian | events.LabelCounts):
            return OneJointGaussian(leaf)
        if isinstance(leaf, events.LabelledTraining):
            return OneLabelledTraining(leaf, resolution)
        if isinstance(leaf, events.LabelSelection) and leaf.examples_per_person == 1:
            return OneSelection(leaf)
        if isinstance(leaf, events.Adaptive):
            return _adaptive(leaf, resolution)
    return _composed(counts, resolution)


@dataclass(frozen=True)
class Unbounded:
    """Something was published without noise."""

    def delta(self, epsilon: float) -> float:
        """1 at every epsilon."""
        return 1.0

    def epsilon(self, delta: float) -> float:
        """Infinity at every delta below 1."""
        return math.inf


@dataclass(frozen=True)
class PlainGaussian:
    """Any number of Gaussians; mu^2 adds up."""

    mu: float

    def delta(self, epsilon: float) -> float:
        """Exact, rounded up."""
        return gaussian.delta(self.mu, epsilon)

    def epsilon(self, delta: float) -> float:
        """Exact, rounded up."""
        return gaussian.epsilon(self.mu, delta)


@dataclass(frozen=True)
class Exposed:
    """A profile composed with a chance p that a person's new label is seen, whatever else is released.

    Seen: P'(S) <= p + P(S) + ...; not seen: the density of everything else falls by the factor 1 - p, which
    shifts the loss in the other direction by -ln(1 - p). Both are bounded here.
    """

    inner: Profile
    chance: float

    def delta(self, epsilon: float) -> float:
        """The larger of both directions."""
        if self.chance >= 1:
            return 1.0
        seen, lower = self.chance + self.inner.delta(epsilon), epsilon + math.log1p(-self.chance)
        if isinstance(self.inner, PlainGaussian) and self.chance <= 0.5 and lower >= self.inner.mu**2 / 2:
            # delta(lower) <= delta(epsilon) + p/(1-p) Pr[loss > lower], and that probability is at most 1/2
            return min(1.0, seen)
        return min(1.0, max(seen, self.inner.delta(max(0.0, lower))))

    def epsilon(self, delta: float) -> float:
        """The larger of both directions."""
        if delta <= self.chance:
            return math.inf
        shifted = self.inner.epsilon(delta) - math.log1p(-self.chance)
        # subtraction may round up, so the inner profile gets slightly less
        return max(self.inner.epsilon((delta - self.chance) * (1 - 1e-15)), shifted)


@dataclass(frozen=True)
class OneJointGaussian:
    """One joint release: either the person's labels are new, or everything is one Gaussian; never both.

    With m examples per person, j of them on new labels: delta_G at sensitivity m - j, plus the exposure of j.
    """

    event: events.JointGaussian | events.LabelCounts

    @property
    def _cases(self) -> Iterator[Profile]:
        m = self.event.examples_per_person
        for shared, chance in placements(self.event, m):
            known = PlainGaussian(shared / self.event.noise_multiplier)
            yield Exposed(known, chance) if shared < m else known

    def delta(self, epsilon: float) -> float:
        """The maximum over j = 0..m (THEORY section 4)."""
        return max(case.delta(epsilon) for case in self._cases)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that every j allows."""
        return max(case.epsilon(delta) for case in self._cases)


def placements(event: events.JointGaussian | events.LabelCounts, moved: int) -> Iterator[tuple[int, float]]:
    """Yields how many of the moved examples both runs can release, and the chance to expose one of the others.

    At most m of the others are one person's. Beyond 512 examples several placements at a time are bounded by the first
    one's shift and the last one's exposure.
    """
    m = event.examples_per_person
    chances = selection.GaussianLaw(event).exposures(m)
    yield moved, 0.0
    together = -(-moved // _PLACEMENTS)
    for first in range(1, moved + 1, together):
        yield moved - first, chances[min(first + together - 1, m)]


@dataclass(frozen=True)
class OneLabelledTraining:
    """One count release with the training that follows it: either the person's labels are new, or both see them.

    Let D' = D + (x*, y*). If y* is known or occurs in D, the same counts are drawn up to a shift of 1, and after equal
    noisy counts both train on the same labels, with data that differ in x* at most: a Gaussian composed with DP-SGD, in
    both directions. Else D never outputs y*, and D' outputs it with chance p1; if it does not, x* is dropped before
    training and the output is distributed as under D. So P'(S) <= (1 - p1) P(S) + p1, and
    P(S) - e^epsilon P'(S) <= P(S) (1 - e^epsilon (1 - p1)) <= p1. The two cases exclude each other, hence the maximum.

    A person with m examples, j of them on new labels: unless one of those is exposed, the j are dropped and m - j are
    counted and trained on. All 0 < j < m are bounded at once, with the training of j = 1 and the exposure of m - 1.

    Guarantees (one label per example, add or remove one person):
      - delta is at least the exact one.                       test_labelled_training_covers_the_exact_divergence
      - For one example it is the maximum, not the sum.        test_labelled_training_costs_the_maximum_not_the_sum
    """

    event: events.LabelledTraining
    resolution: float

    @cached_property
    def _cases(self) -> list[Profile]:
        counts, m = self.event.counts, self.event.examples_per_person
        exposures = selection.GaussianLaw(counts).exposures(m)
        cases = [self._trained(m), Exposed(PlainGaussian(0.0), exposures[m])]
        return [*cases, Exposed(self._trained(m - 1), exposures[m - 1])] if m > 1 else cases

    def _trained(self, counted: int) -> Profile:
        """The training beside a Gaussian release of this many of the person's examples."""
        sums = events.Gaussian(noise_multiplier=self.event.counts.noise_multiplier, examples_per_person=counted)
        return _composed(Counter([sums, self.event.training]), self.resolution)

    def delta(self, epsilon: float) -> float:
        """The larger of the cases (THEORY section 4)."""
        return max(case.delta(epsilon) for case in self._cases)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that every case allows."""
        return max(case.epsilon(delta) for case in self._cases)


@dataclass(frozen=True)
class OneSelection:
    """One label selection by counts: only the person's own label changes, from n to n + 1 examples."""

    event: events.LabelSelection

    def delta(self, epsilon: float) -> float:
        """Exact over all sizes up to k = 1,000; beyond, the worst (epsilon, delta)-DP mechanism."""
        spent, slip = self.event.epsilon, self.event.delta
        if epsilon >= spent:
            return slip
        drawn = self._drawn
        if drawn is None:
            return slip + (1 - slip) * -math.expm1(epsilon - spent) / (1 + math.exp(-spent))
        worst = float(np.max(selection.hockey_stick(drawn[:, :-1], drawn[:, 1:], epsilon)))
        return min(1.0, worst + 1e-15)  # above the rounding of float64

    @cached_property
    def _drawn(self) -> selection.Floats | None:
        """The probabilities of one label for every size that matters, or None where there are too many."""
        if isinstance(self.event, events.BinaryTest):  # the test is not part of what is stored
            return None
        law = selection.law(self.event)
        if law.threshold > 1_000:
            return None
        return selection.drawn_law(law, selection.sizes_to_check(law.threshold))

    def epsilon(self, delta: float) -> float:
        """By bisection on the curve."""
        return math.inf if delta < self.event.delta else min(self.event.epsilon, smallest_epsilon(self.delta, delta))


@dataclass(frozen=True)
class Selections:
    """Several label selections: their composed losses, and basic composition, which has no numerical error."""

    composed: Profile
    parts: tuple[tuple[events.LabelSelection, int], ...]

    @cached_property
    def _basic(self) -> tuple[float, float]:
        """The sums of epsilon and delta, rounded up."""
        spent = [(times, *pld.group(event)) for event, times in self.parts]
        total, slip = math.fsum(n * e for n, e, _ in spent), math.fsum(n * d for n, _, d in spent)
        return total * (1 + 1e-15), slip * (1 + 1e-15)

    def delta(self, epsilon: float) -> float:
        """The smaller bound."""
        total, slip = self._basic
        return min(self.composed.delta(epsilon), slip if epsilon >= total else 1.0)

    def epsilon(self, delta: float) -> float:
        """The smaller bound."""
        total, slip = self._basic
        return min(self.composed.epsilon(delta), total if delta >= slip else math.inf)


def leaves(event: Event) -> Iterator[Event]:
    """Yields the single spends of an event, without the free ones."""
    if isinstance(event, events.Composed):
        for part in event.parts:
            yield from leaves(part)
    elif not isinstance(event, events.Public):
        yield event


def separated(counts: Counter[Event]) -> Counter[Event]:
    """Returns the leaves of a composition, with labelled training as its two parts: there the maximum does not hold."""
    parts: Counter[Event] = Counter()
    for leaf, times in counts.items():
        if isinstance(leaf, events.LabelledTraining):
            parts.update({leaf.counts: times, leaf.training: times})
        else:
            parts[leaf] += times
    return parts


class _Parts(NamedTuple):
    """A composition by how its losses add up: one Gaussian, exposures, what is convolved, what is selected."""

    mu: float  # infinite where it is larger than an event may have
    chance: float
    convolved: tuple[pld.Part, ...]
    selected: Mapping[Event, int]

    @property
    def all_convolved(self) -> frozenset[pld.Part]:
        """With the Gaussian, where there is one."""
        gaussian = (pld.Part(events.Gaussian(noise_multiplier=1 / self.mu), 1),) if self.mu else ()
        return frozenset((*self.convolved, *gaussian))


def _parted(counts: Counter[Event]) -> _Parts:
    squares, chance = epoch_costs.squares_and_chance(counts)
    convolved: list[pld.Part] = []
    selected: dict[Event, int] = {}
    for leaf, times in separated(counts).items():
        match leaf:
            case events.Gaussian(noise_multiplier=noise, examples_per_person=m):
                squares += times * (m / noise) ** 2
            case events.JointGaussian(noise_multiplier=noise) | events.LabelCounts(noise_multiplier=noise):
                m = leaf.examples_per_person
                squares += times * (m / noise) ** 2
                chance += times * selection.GaussianLaw(leaf).exposures(m)[m]
            case events.Exposure(chance=alone):
                chance += times * alone
            case events.DpSgd(noise_multiplier=noise, rate=1.0, steps=steps):
                squares += times * steps / noise**2
            case events.DpSgd() | events.LabelSelection():
                convolved.append(pld.Part(leaf, times))
            case events.PrivateSelection():
                selected[leaf] = times
            case events.Remembered():
                pass  # all of them together, above
            case events.NonPrivate():
                squares = math.inf
            case _:
                raise errors.UnsupportedEvent(f"No accountant knows {type(leaf).__name__}. Add a case with its proof.")
    mu = math.sqrt(squares) * (1 + 1e-15 * len(counts)) if squares <= events.LARGEST_SQUARES else math.inf
    return _Parts(mu, chance, tuple(convolved), selected)


def _composed(counts: Counter[Event], resolution: float) -> Profile:
    parts = _parted(counts)
    if math.isinf(parts.mu):
        return Unbounded()
    inner: Profile = PlainGaussian(parts.mu)
    if parts.selected:
        inner = renyi.compose(dict(parts.selected) | {part.event: part.times for part in parts.all_convolved})
    elif parts.convolved:
        inner = pld.compose(parts.all_convolved, resolution)
        chosen = tuple((p.event, p.times) for p in parts.convolved if isinstance(p.event, events.LabelSelection))
        if len(chosen) == len(parts.all_convolved):
            inner = Selections(inner, chosen)
    return Exposed(inner, parts.chance) if parts.chance else inner


def _adaptive(event: events.Adaptive, resolution: float) -> Profile:
    """Exposures are reserved and added: the n largest beside the worst strategy for everything else (THEORY 16.3)."""
    kinds = [_parted(Counter(leaves(kind))) for kind in event.kinds]
    if any(math.isinf(kind.mu) for kind in kinds):
        return Unbounded()
    if any(kind.selected for kind in kinds):
        return renyi.of(event)
    chance = event.times * max(kind.chance for kind in kinds)
    losses = frozenset(kind.all_convolved for kind in kinds if kind.all_convolved)
    inner: Profile = adaptive.worst(losses, event.times, resolution) if losses else PlainGaussian(0.0)
    return Exposed(inner, chance) if chance else inner
