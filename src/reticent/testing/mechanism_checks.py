"""The conformance suite for label mechanisms: by formula, by statistics, by attack."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from reticent.gate import grid
from reticent.gate.label_sums import LabelSums
from reticent.gate.mechanisms import NoisySums
from reticent.gate.noise import NoiseSource
from reticent.gate.sparse_joint import SparseJoint, SparseJointSums
from reticent.labels import Label, in_public_order
from reticent.privacy import accounting, confidence, events, selection, stored_events

ALPHA = 1e-6


class LabelMechanism(Protocol):
    """What `check_mechanism` needs: an event, the claimed probability, and the draw itself."""

    @property
    def event(self) -> events.LabelSelection | events.JointGaussian:
        """What one call costs."""

    def release_probability(self, sizes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Returns the probability that a label with this many examples is released."""

    def __call__(self, value: Any, *, rng: NoiseSource) -> Any:
        """Draws the release."""


def check_mechanism(mechanism: LabelMechanism, *, trials: int = 20_000, rng: NoiseSource | None = None) -> None:
    """Checks that a label mechanism is what its event says: by formula, by statistics, by attack.

    Args:
        mechanism: Takes a mapping from label to count and returns labels (or, with a JointGaussian event, takes
            `LabelSums` and returns `NoisySums`; a `SparseJoint` takes them of labels with examples alone).
        trials: Labels drawn in each statistical check.
        rng: Noise to use; from the operating system by default.

    Example:
        >>> from reticent.gate.mechanisms import SelectLabels
        >>> check_mechanism(SelectLabels(events.OptimalSelection(epsilon=1.0, delta=1e-3)), trials=2_000)
    """
    rng = rng or NoiseSource.from_os()
    event = mechanism.event
    _check_event(event)
    _check_probabilities(mechanism)
    draw = _drawer(mechanism, rng)
    _check_draws(mechanism, draw, trials)
    _check_order(draw)
    if isinstance(event, events.JointGaussian):
        _audit_sums(mechanism, event, 20 * trials, rng)
    else:
        _audit_labels(event, draw, trials, _law(mechanism).threshold)


def _check_event(event: events.Event) -> None:
    settings = getattr(type(event), "__dataclass_params__", None)
    _require(settings is not None and settings.frozen, "The event must be a frozen dataclass.")
    _require(stored_events.from_json(stored_events.to_json(event)) == event, "The event does not survive the ledger.")
    _require(0 <= accounting.delta(event, 1.0) <= 1, "The event has no cost.")


def _check_probabilities(mechanism: LabelMechanism) -> None:
    event, rule = mechanism.event, _law(mechanism)
    sizes = selection.sizes_to_check(rule.threshold)
    claimed = mechanism.release_probability(sizes)
    _require(claimed[0] == 0, "A label without examples has a chance of release.")
    _require(bool(np.all((claimed >= 0) & (claimed <= 1))), "A release probability is outside 0..1.")
    _require(bool(np.all(np.diff(claimed) >= -1e-12)), "A larger class is released less often.")
    if isinstance(event, events.JointGaussian):
        for epsilon in (0.1, 1.0, 8.0):
            allowed = accounting.delta(event, epsilon) * (1 + 1e-9) + 1e-15
            worst = max(selection.divergence(event, int(size), epsilon) for size in sizes[:: len(sizes) // 50 + 1])
            _require(worst <= allowed, "The divergence between neighbours exceeds the event's delta.")
    else:
        following = mechanism.release_probability(sizes + 1)
        laws = [claimed, 1 - claimed], [following, 1 - following]
        worst = float(np.max(selection.hockey_stick(*laws, event.epsilon)))
        rounding = 1e-15 * math.exp(event.epsilon)  # of float64 probabilities near 1
        _require(worst <= event.delta * (1 + 1e-9) + rounding, "The divergence between neighbours exceeds delta.")


Draw = Callable[[Mapping[Label, int]], tuple[Label, ...]]


def _drawer(mechanism: LabelMechanism, rng: NoiseSource) -> Draw:
    """Returns a function from counts to released labels."""
    event = mechanism.event
    if not isinstance(event, events.JointGaussian):
        return lambda counts: tuple(mechanism(counts, rng=rng))

    def draw(counts: Mapping[Label, int]) -> tuple[Label, ...]:
        present = {label: count for label, count in counts.items() if count > 0}
        sums = LabelSums(
            known=np.zeros((0, 1), np.int64),
            unknown=tuple(present),
            counts=np.array(list(present.values()), np.int64),
            vectors=np.zeros((len(present), 1), np.int64),
            count_weight=event.count_weight,
        )
        return _released(mechanism, sums, rng).released

    return draw


def _check_draws(mechanism: LabelMechanism, draw: Draw, trials: int) -> None:
    rule = _law(mechanism)
    turn = max(1, math.ceil(rule.threshold))
    half, sure = selection.smallest_class(rule, 0.5), selection.smallest_class(rule, 0.99)
    for size in sorted({0, 1, max(1, turn // 2), max(1, turn - 1), turn, turn + 1, half, sure, 2 * turn + 1}):
        claimed = float(mechanism.release_probability(size))
        seen = len(draw({f"label {i}": size for i in range(trials)}))
        _require(
            binomtest(seen, trials, claimed).pvalue >= ALPHA,
            f"A class of {size} is released {seen} times in {trials}, against a claimed probability of {claimed:.3g}.",
        )


def _check_order(draw: Draw) -> None:
    many = 10**12
    forth, back = {"b": many, "a": many, 3: many}, {3: many, "a": many, "b": many}
    _require(draw(forth) == draw(back) == in_public_order(forth), "The order of the labels follows the data.")


def _audit_labels(event: events.LabelSelection, draw: Draw, trials: int, turn: float) -> None:
    """Plays the membership game at up to 24 class sizes: a broken mechanism need not turn where it says it does."""
    last = 2 * math.ceil(max(turn, 0)) + 1
    sizes = np.unique(np.linspace(0, last, 24).astype(np.int64)).tolist()
    for size in sizes:
        hits, alarms = (len(draw(dict.fromkeys(range(trials), n))) for n in (size + 1, size))
        alpha = ALPHA / len(sizes)
        found = confidence.epsilon_lower_bound(hits, trials, alarms, trials, delta=event.delta, alpha=alpha)
        _require(found <= event.epsilon, f"An attacker measures epsilon above {found:.3f}, against {event.epsilon:g}.")


def _audit_sums(mechanism: LabelMechanism, event: events.JointGaussian, trials: int, rng: NoiseSource) -> None:
    """Plays the membership game on what is published of a label, known or just released: each label is one game."""
    delta = 1e-5
    epsilon = accounting.epsilon(events.Gaussian(noise_multiplier=event.noise_multiplier), delta)
    cuts = [event.noise_multiplier * z for z in (0.0, 1.0, 2.0, 2.5)]  # fixed before looking
    for evidence in (_known_evidence, _released_evidence):
        absent, present = (evidence(mechanism, event, trials, extra, rng) for extra in (0, 1))
        for cut in cuts:
            hits, alarms = int(np.sum(present > cut)), int(np.sum(absent > cut))
            shares = len(present), len(absent)
            found = confidence.epsilon_lower_bound(
                hits, shares[0], alarms, shares[1], delta=delta, alpha=ALPHA / 2 / len(cuts)
            )
            _require(
                found <= epsilon, f"An attacker measures epsilon above {found:.3f} on sums, against {epsilon:.3f}."
            )


def _known_evidence(
    mechanism: LabelMechanism, event: events.JointGaussian, trials: int, extra: int, rng: NoiseSource
) -> npt.NDArray[np.float64]:
    nothing = np.zeros(0, np.int64), np.zeros((0, 1), np.int64)
    if isinstance(mechanism, SparseJoint):
        trials = min(trials, mechanism.known.space)
    sums = LabelSums(np.full((trials, 1), extra * grid.SCALE, np.int64), (), *nothing, event.count_weight)
    return _released(mechanism, sums, rng).known[:, 0] / grid.SCALE


def _released_evidence(
    mechanism: LabelMechanism, event: events.JointGaussian, trials: int, extra: int, rng: NoiseSource
) -> npt.NDArray[np.float64]:
    """Count and sum of a class that is released for certain, in the direction in which one example moves them."""
    size = selection.smallest_class(selection.law(event), 1 - 1e-12) + extra
    sums = class_of(size, trials // 10, event.count_weight)
    return joint_evidence(_released(mechanism, sums, rng), size - extra, event.count_weight)


def _released(mechanism: LabelMechanism, sums: LabelSums, rng: NoiseSource) -> NoisySums:
    """Draws a joint release; a block of a known label that is not published is below all that are."""
    if not isinstance(mechanism, SparseJoint):
        released: NoisySums = mechanism(sums, rng=rng)
        return released
    there = np.flatnonzero(sums.known.any(axis=1))  # labels without examples are not mentioned
    drawn = mechanism(SparseJointSums(there, dataclasses.replace(sums, known=sums.known[there])), rng=rng)
    known = np.full((mechanism.known.space, sums.known.shape[1]), np.iinfo(np.int64).min)
    known[drawn.known.rows] = drawn.known.sums
    return dataclasses.replace(drawn.new, known=known[: len(sums.known)])


def class_of(size: int | npt.NDArray[np.int64], labels: int, count_weight: float) -> LabelSums:
    """Returns the exact sums of so many unknown labels, each with `size` equal examples of one feature."""
    sizes = np.broadcast_to(np.asarray(size, dtype=np.int64), labels)
    present = np.flatnonzero(sizes)
    one = int(grid.snap(np.ones((1, 1)), count_weight=count_weight).values[0, 0])
    vectors = sizes[present, None] * one
    return LabelSums(np.zeros((0, 1), np.int64), tuple(present.tolist()), sizes[present], vectors, count_weight)


def joint_evidence(release: NoisySums, size: int, count_weight: float) -> npt.NDArray[np.float64]:
    """Returns the projection of what is published on what one more example would add; its noise is sigma."""
    a = math.sqrt(1 - count_weight)
    along: npt.NDArray[np.float64] = release.vectors[:, 0] / grid.SCALE - a * size
    return count_weight * (release.counts - size) + a * along


def most_revealing_size(event: events.LabelSelection | events.JointGaussian | events.LabelCounts) -> int:
    """Returns the class size at which one more example changes the chance of release most."""
    law: selection.Law = selection.law(event)
    sizes = selection.sizes_to_check(law.threshold)
    gain = law.release_probability(sizes + 1) - law.release_probability(sizes)
    return int(sizes[int(np.argmax(gain))])


def _law(mechanism: LabelMechanism) -> selection.Law:
    """A mechanism may bring its own formulas; else its event names them."""
    law: selection.Law = getattr(mechanism, "law", None) or selection.law(mechanism.event)
    return law


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence)
