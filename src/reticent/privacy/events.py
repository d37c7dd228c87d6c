"""Frozen descriptions of what was spent; `accounting` turns them into epsilon and delta.

Everything here is public. An event says which mechanism ran and with which noise, never on what data.
"""

import math
from dataclasses import dataclass

from reticent import errors
from reticent.privacy import correlation as matrices

SMALLEST_COUNT_WEIGHT = 1e-9  # a smaller count slot is lost on the integer grid
# Limits far beyond use: this gamma means a thousand million runs at eta = 1, and the cost grows with 1 + eta.
_SMALLEST_GAMMA = 1e-9
_LARGEST_ETA = 100.0
# Beyond use too: no square overflows, and the cost of every event is computed in seconds.
_SMALLEST_NOISE, _LARGEST_NOISE, _LARGEST_NOISE_OF_STEPS = 1e-100, 1e100, 1e6
LARGEST_SQUARES = 1e150  # of m/sigma, added up: one Gaussian for all of them has less noise than an event may have
_LARGEST_THRESHOLD, _MOST_STEPS, _MOST_EPOCHS, _MOST_DEVIATIONS = 1e15, 1_000_000, 1_000_000, 1e6


def _set_noise(event: "Event", largest: float = _LARGEST_NOISE) -> None:
    errors.set_real(event, "noise_multiplier", above=_SMALLEST_NOISE, below=largest)


def _set_examples(event: "Event") -> None:
    errors.set_whole(event, "examples_per_person", at_least=1, at_most=errors.MOST_EXAMPLES_PER_PERSON)


@dataclass(frozen=True)
class Event:
    """Base of all events; `accounting` refuses an event it does not know."""


@dataclass(frozen=True)
class Public(Event):
    """Nothing private was touched: costs nothing."""


@dataclass(frozen=True)
class NonPrivate(Event):
    """Something private was published without noise: costs infinity."""


@dataclass(frozen=True, kw_only=True)
class Gaussian(Event):
    """A sum plus Gaussian noise.

    Args:
        noise_multiplier: Standard deviation of the noise over the most that one example can change the sum.
        examples_per_person: How many examples one person may contribute.

    >>> Gaussian(noise_multiplier=0)
    Traceback (most recent call last):
    reticent.errors.InvalidValue: Expected noise_multiplier > 1e-100 and noise_multiplier < 1e+100, got 0.
    """

    noise_multiplier: float
    examples_per_person: int = 1

    def __post_init__(self) -> None:
        _set_noise(self)
        _set_examples(self)


@dataclass(frozen=True, kw_only=True)
class Exposure(Event):
    """A chance that something about a person is released without noise, whatever else is released."""

    chance: float

    def __post_init__(self) -> None:
        errors.set_real(self, "chance", above=0, below=1, at_least=True)


@dataclass(frozen=True, kw_only=True)
class JointGaussian(Event):
    """Counts and per-label sums of one task as one Gaussian (THEORY section 4).

    Args:
        noise_multiplier: Standard deviation added to every coordinate of the weighted sums.
        count_weight: c^2, the share of an example's squared norm that counts it; 0 < c^2 < 1.
        threshold: tau, in examples: an unknown label is released iff its noisy count exceeds it.
        examples_per_person: How many examples one person may contribute to the task.
    """

    noise_multiplier: float
    count_weight: float
    threshold: float
    examples_per_person: int = 1

    def __post_init__(self) -> None:
        _set_noise(self)
        errors.set_real(self, "count_weight", above=SMALLEST_COUNT_WEIGHT, below=1, at_least=True)
        errors.set_real(self, "threshold", above=-_LARGEST_THRESHOLD, below=_LARGEST_THRESHOLD)
        _set_examples(self)


@dataclass(frozen=True, kw_only=True)
class LabelSelection(Event):
    """Labels chosen by their counts alone, (epsilon, delta)-DP for one example.

    The subclasses are the mechanisms; `selection.law(event)` has their formulas.

    >>> OptimalSelection(epsilon=1.0, delta=0.0)
    Traceback (most recent call last):
    reticent.errors.InvalidValue: Expected delta > 0 to release labels: without a public superset of the \
labels, no mechanism with delta = 0 can ever output one. Raise delta, or name the labels in public.
    """

    epsilon: float
    delta: float
    examples_per_person: int = 1

    def __post_init__(self) -> None:
        errors.set_real(self, "epsilon", above=0, below=errors.LARGEST_EPSILON)
        refuse_zero_delta(self.delta)
        errors.set_real(self, "delta", above=0, below=1)
        _set_examples(self)


@dataclass(frozen=True, kw_only=True)
class TruncatedGeometric(LabelSelection):
    """Count plus truncated geometric noise above k: the paper's mechanism."""


@dataclass(frozen=True, kw_only=True)
class OptimalSelection(LabelSelection):
    """The most probable release that (epsilon, delta) allows, for every class size at once."""


@dataclass(frozen=True, kw_only=True)
class LaplaceThreshold(LabelSelection):
    """Count plus Laplace noise above a threshold: the paper's generic construction."""


@dataclass(frozen=True, kw_only=True)
class BinaryTest(LabelSelection):
    """Any epsilon-DP test of a label's own examples; delta is the largest chance that it passes a single one."""


@dataclass(frozen=True, kw_only=True)
class DpSgd(Event):
    """Poisson-sampled Gaussian steps: rate and steps are public, an empty batch is a step.

    Args:
        noise_multiplier: Standard deviation of the noise over the clipping norm.
        rate: Chance that a step sees an example.
        steps: How many steps.
        examples_per_person: Up to how many examples of one person this holds for. More than 1 means that whole persons
            are sampled and the sum of each one's gradients is clipped; the cost is then the same. Examples sampled
            one by one are for 1 only: scaling the noise with the number of examples is wrong.

    >>> DpSgd(noise_multiplier=1.1, rate=0.01, steps=500).steps
    500
    """

    noise_multiplier: float
    rate: float
    steps: int
    examples_per_person: int = 1

    def __post_init__(self) -> None:
        _set_noise(self, _LARGEST_NOISE_OF_STEPS)
        errors.set_real(self, "rate", above=0, below=math.nextafter(1, 2))
        errors.set_whole(self, "steps", at_least=1, at_most=_MOST_STEPS)
        _set_examples(self)


@dataclass(frozen=True, kw_only=True)
class LabelCounts(Event):
    """Counts of one task's labels plus Gaussian noise; an unknown label is seen iff its noisy count passes.

    Args:
        noise_multiplier: Standard deviation of the noise, in examples.
        threshold: tau, in examples: an unknown label is released iff its noisy count exceeds it.
        examples_per_person: How many examples one person may contribute to the task.
    """

    noise_multiplier: float
    threshold: float
    examples_per_person: int = 1

    def __post_init__(self) -> None:
        _set_noise(self)
        errors.set_real(self, "threshold", above=-_LARGEST_THRESHOLD, below=_LARGEST_THRESHOLD)
        _set_examples(self)

    @property
    def count_weight(self) -> float:
        """c^2 of a joint release that holds counts and nothing else."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class LabelledTraining(Event):
    """DP-SGD on the examples of known and just released labels (THEORY section 4).

    The examples of labels whose count does not pass are dropped before training.

    >>> training = DpSgd(noise_multiplier=7.6, rate=0.1, steps=400)
    >>> LabelledTraining(counts=LabelCounts(noise_multiplier=12.0, threshold=52.0), training=training).training.rate
    0.1
    """

    counts: LabelCounts
    training: DpSgd

    def __post_init__(self) -> None:
        if not isinstance(self.counts, LabelCounts) or not isinstance(self.training, DpSgd):
            raise errors.InvalidValue("Expected counts to be LabelCounts and training to be DpSgd.")
        if self.counts.examples_per_person != self.training.examples_per_person:
            raise errors.InvalidValue("Expected counts and training for the same number of examples per person.")

    @property
    def examples_per_person(self) -> int:
        """How many examples one person may contribute to the task."""
        return self.training.examples_per_person


@dataclass(frozen=True, kw_only=True)
class PrivateSelection(Event):
    """The best of a random number of runs, and nothing about the others.

    Hyper-parameters are drawn from a fixed distribution, independently for each run; `run` bounds what any of them
    spends, with the score unless that is computed on public data. The number of runs is drawn by the gate. A fixed
    number of runs, or a search that looks at earlier scores, is not covered.

    Args:
        run: What one run spends.
        eta: Shape of the truncated negative binomial number of runs, above -1: 0 is logarithmic, 1 is geometric.
        gamma: Its other parameter, between 0 and 1: smaller means more runs.

    >>> PrivateSelection(run=Gaussian(noise_multiplier=4.0), eta=-1, gamma=0.1)
    Traceback (most recent call last):
    reticent.errors.InvalidValue: Expected eta > -1 and eta < 100, got -1.
    """

    run: Event
    eta: float
    gamma: float

    def __post_init__(self) -> None:
        if not isinstance(self.run, Event):
            raise errors.InvalidValue("Expected run to be an event.")
        errors.set_real(self, "eta", above=-1, below=_LARGEST_ETA)
        errors.set_real(self, "gamma", above=_SMALLEST_GAMMA, below=1)


@dataclass(frozen=True, kw_only=True)
class Remembered(Event):
    """All sums of one epoch, its noise correlated over tasks, and pending labels that gather evidence (THEORY 10).

    The cost of the *whole* epoch: its tasks repeat the event, and it counts once.

    Args:
        noise_multiplier: sigma: standard deviation of each row's noise over the most that one example moves all rows.
        eighths: 8a of the matrix, see `Correlation`.
        horizon: How many places an epoch has at most.
        tasks_per_person: In how many tasks one person may be; what they move follows from it.
        examples_per_person: How many examples one person may contribute to a task.
        epoch: Which of the model's epochs, from 1.
        count_weight: c^2 of pending labels; 0 where all labels are public.
        deviations: z: a pending label becomes known beyond one example and this many deviations of a look.
    """

    noise_multiplier: float
    eighths: int = 2
    horizon: int = matrices.DEFAULT_HORIZON
    tasks_per_person: int = 1
    examples_per_person: int = 1
    epoch: int
    count_weight: float = 0.0
    deviations: float = 0.0

    def __post_init__(self) -> None:
        _set_noise(self, _LARGEST_NOISE_OF_STEPS)
        _set_examples(self)
        errors.set_whole(self, "eighths", at_least=0, at_most=matrices.LARGEST_EIGHTHS)
        most = {"horizon": matrices.LONGEST, "tasks_per_person": matrices.MOST_TASKS_PER_PERSON, "epoch": _MOST_EPOCHS}
        for name, largest in most.items():
            errors.set_whole(self, name, at_least=1, at_most=largest)
        errors.set_real(self, "count_weight", above=0, below=1, at_least=True)
        errors.set_real(self, "deviations", above=0, below=_MOST_DEVIATIONS, at_least=True)
        if (self.count_weight > 0) != (self.deviations > 0) or 0 < self.count_weight < SMALLEST_COUNT_WEIGHT:
            raise errors.InvalidValue("Expected count_weight and deviations together, or neither.")
        if self.count_weight and (self.tasks_per_person > 1 or self.examples_per_person > 1):
            raise errors.InvalidValue(errors.GATHERED_ONCE)

    @property
    def correlation(self) -> matrices.Correlation:
        """The matrix of the epoch."""
        return matrices.matrix(self.eighths, self.horizon)

    @property
    def noise(self) -> float:
        """Standard deviation of every coordinate of every row: sigma times gamma, rounded up."""
        return math.nextafter(self.noise_multiplier * self.correlation.gamma(self.tasks_per_person), math.inf)


@dataclass(frozen=True)
class Composed(Event):
    """Several events that may touch the same person: a fixed list, whose data may follow from earlier releases.

    Where the next *kind* may follow from a release, no list is enough: see `Adaptive`.
    """

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple) or not all(isinstance(p, Event) for p in self.parts):
            raise errors.InvalidValue("Expected a tuple of events to compose.")


@dataclass(frozen=True)
class Adaptive(Event):
    """Up to so many of these kinds, each chosen once the releases before it are known (THEORY 16.1); never stored.

    Args:
        kinds: Everything that may follow, fixed before the first.
        times: How many of them one person is in at most.
    """

    kinds: tuple[Event, ...]
    times: int


def compose(*parts: Event) -> Event:
    """Returns one event for all; a single part stays itself.

    >>> compose(Public())
    Public()
    """
    return parts[0] if len(parts) == 1 else Composed(parts)


def refuse_zero_delta(delta: float) -> None:
    """Refuses delta = 0 where labels are to be released, and says why."""
    if delta == 0:
        raise errors.InvalidValue(
            "Expected delta > 0 to release labels: without a public superset of the labels, no mechanism "
            "with delta = 0 can ever output one. Raise delta, or name the labels in public."
        )
