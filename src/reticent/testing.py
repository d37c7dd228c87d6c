"""Conformance suites that users can run on their own mechanisms and learners.

    from reticent.testing import check_learner, check_mechanism
    check_mechanism(MyMechanism(...))
    check_learner(MyLearner(...))

A check raises AssertionError with one sentence. Statistical checks raise a false alarm with chance ALPHA each.
"""

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from reticent import errors
from reticent.budget import Budget
from reticent.gate import grid
from reticent.gate.label_sums import LabelSums
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import NoisySums
from reticent.gate.noise import NoiseSource
from reticent.labels import Label, LabelSpace, in_public_order
from reticent.policies import Policy, PublicLabels, ReleasedLabels
from reticent.privacy import accounting, confidence, events, selection
from reticent.released.model import Encode, Model
from reticent.released.release import Release
from reticent.sensitive.learners.learner import Learner
from reticent.sensitive.task import Task

ALPHA = 1e-6


# --- mechanisms


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
            `LabelSums` and returns `NoisySums`).
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
    _require(events.from_json(events.to_json(event)) == event, "The event does not survive the ledger.")
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
        released: NoisySums = mechanism(sums, rng=rng)
        return released.released

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
    sums = LabelSums(np.full((trials, 1), extra * grid.SCALE, np.int64), (), *nothing, event.count_weight)
    release: NoisySums = mechanism(sums, rng=rng)
    return release.known[:, 0] / grid.SCALE


def _released_evidence(
    mechanism: LabelMechanism, event: events.JointGaussian, trials: int, extra: int, rng: NoiseSource
) -> npt.NDArray[np.float64]:
    """Count and sum of a class that is released for certain, in the direction in which one example moves them."""
    size = selection.smallest_class(selection.law(event), 1 - 1e-12) + extra
    sums = class_of(size, trials // 10, event.count_weight)
    release: NoisySums = mechanism(sums, rng=rng)
    return joint_evidence(release, size - extra, event.count_weight)


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


# --- learners

_RARE = "a label with one example"
_LABELS = ("a", "b", "c")
_EACH = 400
_ODD: tuple[object, ...] = (None, math.nan, ["a list"], ("a", object()), 7, b"bytes", _RARE)
_WIDTH = 8

# From labels to a task with one example of each label; the name is public.
MakeTask = Callable[[Sequence[object], str], Task]


def features_task(labels: Sequence[object], name: str) -> Task:
    """Makes a task of features that tell labels apart."""
    rows = np.array([_LABELS.index(label) if label in _LABELS else 9 for label in labels], dtype=np.float64)
    angles = rows[:, None] * np.arange(1, _WIDTH + 1) + np.arange(len(labels))[:, None] % 7 / 50
    return Task(np.cos(angles).astype(np.float32).reshape(-1, _WIDTH), labels, name=name)


def check_learner(
    learner: Learner,
    *,
    policies: Sequence[Policy] = (PublicLabels(_LABELS), ReleasedLabels()),
    make_task: MakeTask = features_task,
    encoder: Encode | None = None,
    budget: Budget | None = None,
) -> None:
    """Checks that a learner keeps the protocol: it spends before it draws, and only noisy values follow the data.

    Guarantees:
      - The learners of this library pass.                     test_learners_pass
      - Each broken twin fails, with a sentence of its own.    test_broken_learners_fail

    What it checks, under each policy:
      - A ledger that refuses stops the task before any noise is drawn.
      - What is spent, in one task's name, is the release's event; `private` says where the noise came from.
      - With public labels, neighbours and an empty task give the same names, shapes and dtypes.
      - No label is released that the data does not have, nor one with a single example; none where labels are public.
      - NaN, infinity, labels that are none and empty tasks raise nothing and warn of nothing.
      - The learner is a frozen value, and is the same value after a task.
      - Its rule turns one and two releases into one score per example and label.

    Args:
        learner: The learner.
        policies: Label policies it is meant for; public labels must include "a", "b" and "c".
        make_task: From labels and a name to a task with one example of each label.
        encoder: What the learner needs to read the inputs.
        budget: What it may spend; (1, 1e-6) by default. The chance of a false alarm is about its delta.

    Example:
        >>> from reticent import Cosine
        >>> check_learner(Cosine())
    """
    settings = getattr(type(learner), "__dataclass_params__", None)
    _require(settings is not None and settings.frozen, "The learner must be a frozen dataclass.")
    for policy in policies:
        suite = _LearnerSuite(learner, policy, make_task, encoder, budget or Budget(epsilon=1.0, delta=1e-6))
        before = suite.fields()
        suite.check_order()
        suite.check_spends()
        suite.check_shapes()
        suite.check_odd_examples()
        suite.check_rule()
        _require(suite.fields() == before, "The learner changes while it learns: state belongs in its releases.")


class _Watched(NoiseSource):
    """A source that knows whether it was asked for noise."""

    asked = False

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        self.asked = True
        return super().words(n)


class _Refusing(Ledger):
    """A ledger that lets nothing be spent."""

    def spend(self, event: events.Event, *, task: str, private: bool) -> int:
        raise errors.BudgetExceeded(f"Nothing may be spent on {task} here.")


@dataclasses.dataclass(frozen=True)
class _LearnerSuite:
    learner: Learner
    policy: Policy
    make_task: MakeTask
    encoder: Encode | None
    budget: Budget

    @property
    def public(self) -> LabelSpace:
        return self.policy.space if isinstance(self.policy, PublicLabels) else LabelSpace(())

    def fields(self) -> str:
        """All that the learner holds, hidden or not."""
        return repr(vars(self.learner) if hasattr(self.learner, "__dict__") else self.learner)

    def learn(
        self, task: Task, *, rng: NoiseSource | None = None, ledger: Ledger | None = None, past: Sequence[Release] = ()
    ) -> Release:
        return self.learner.learn_task(
            task,
            self.policy,
            known=Model(self.public, self.learner.rule, tuple(past)).labels,
            encoder=self.encoder,
            budget=self.budget,
            ledger=ledger or Ledger.create(None, self.budget),
            rng=rng or NoiseSource.from_os(),
            past=past,
        )

    def check_order(self) -> None:
        source, ledger = _Watched(seed=None), _Refusing.create(None, self.budget)
        refused = False
        try:
            self.learn(self.make_task(self.everyone, "task"), rng=source, ledger=ledger)
        except errors.BudgetExceeded:
            refused = True
        _require(not source.asked, "Noise is drawn before it is paid for.")
        _require(refused, "The learner goes on when the ledger refuses.")

    def check_spends(self) -> None:
        for rng in (NoiseSource.from_os(), NoiseSource.seeded(1)):
            with Ledger.create(None, self.budget) as ledger:
                release = self.learn(self.make_task(self.everyone, "task"), rng=rng, ledger=ledger)
                spends = ledger.statement().spends
            _require(bool(spends), "Nothing is spent.")
            _require({spend.task for spend in spends} == {release.task} == {"task"}, "The task's name is not kept.")
            spent = events.compose(*(spend.event for spend in spends))
            _require(spent == release.event, "The release's event is not what was spent.")
            _require(release.private is rng.private, "The release does not say whether its noise is private.")
            _require(all(spend.private is rng.private for spend in spends), "The ledger is told otherwise.")

    def check_shapes(self) -> None:
        releases = [
            self.learn(self.make_task(labels, "task"))
            for labels in (self.everyone, self.everyone[1:], (*self.everyone, _RARE), self.everyone[: _EACH + 1], ())
        ]
        for release in releases:
            _require(_RARE not in release.labels, "A label with one example is released.")
            if isinstance(self.policy, PublicLabels):
                _require(not len(release.labels), "Labels are released where labels are public.")
                same = _shapes(release) == _shapes(releases[-1])
                _require(same, "Names, shapes or types of the parameters follow the data.")
            else:
                _require(set(release.labels.labels) <= set(_LABELS), "A label is released that the data does not have.")
                same = _kinds(release) == _kinds(releases[-1])
                _require(same, "Names, dimensions or types of the parameters follow the data.")
            if release.labels == releases[0].labels:
                _require(_shapes(release) == _shapes(releases[0]), "Shapes of the parameters follow the data.")

    def check_odd_examples(self) -> None:
        usual = self.make_task(self.everyone, "task")
        tasks = {
            "labels that are none": self.make_task((*self.everyone, *_ODD), "task"),
            "nothing but such labels": self.make_task(_ODD, "task"),
            "an empty task": self.make_task((), "task"),
        }
        if isinstance(usual.inputs, np.ndarray) and usual.inputs.dtype.kind == "f":
            for name, value in (("NaN", np.nan), ("infinity", np.inf), ("huge values", 1e38), ("zeros", 0.0)):
                inputs = usual.inputs.copy()
                inputs[:1] = value
                tasks[name] = Task(inputs, usual.labels, name="task")
        for name, task in tasks.items():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    release = self.learn(task)
                except Exception as error:
                    raise AssertionError(f"The learner raises or warns on {name}: that tells of the data.") from error
            finite = all(np.isfinite(value).all() for value in release.parameters.values())
            _require(finite, f"Parameters are not finite after {name}.")

    def check_rule(self) -> None:
        past: list[Release] = []
        test = self.make_task(_LABELS, "test")
        for name in ("first", "second"):
            past.append(self.learn(self.make_task(self.everyone, name), past=past))
            model = Model(self.public, self.learner.rule, tuple(past))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                scores = model.scores(test.inputs, self.encoder)
            _require(scores.shape == (len(_LABELS), len(model.labels)), "The rule has not one score for each label.")
            _require(not np.isnan(scores).any(), "The rule's scores are not numbers.")

    @property
    def everyone(self) -> tuple[str, ...]:
        return tuple(label for label in _LABELS for _ in range(_EACH))


def _shapes(release: Release) -> list[tuple[str, tuple[int, ...], object]]:
    return [(name, value.shape, value.dtype) for name, value in release.parameters.items()]


def _kinds(release: Release) -> list[tuple[str, int, object]]:
    return [(name, value.ndim, value.dtype) for name, value in release.parameters.items()]


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence)
