"""The membership game against label spaces: won with certainty where labels come from the data, lost against a remedy.

A fair coin decides whether the target's example is in the training data. The attacker knows everything else, sees
what is published, and guesses the coin. Noise comes from the operating system, unless games are to be repeated; only
the data is synthetic.
"""

import functools
import importlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from reticent.budget import Budget
from reticent.classifier import ContinualClassifier
from reticent.gate import grid
from reticent.gate.mechanisms import GaussianSum, JointGaussian, SelectLabels
from reticent.gate.noise import NoiseSource
from reticent.labels import Label
from reticent.policies import PublicLabels
from reticent.privacy import accounting, confidence, events, planning, selection
from reticent.privacy.count_weights import default_count_weight
from reticent.testing.mechanism_checks import class_of, joint_evidence, most_revealing_size

# Two-sided; every figure may be off its limits with this chance.
ALPHA = 1e-6
TARGET = "type 2"
FROM_DATA = "DP weights, labels from the data"
ALONE = "the only one with the label"
WORST = "the class size that gives most away"
CURVE = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

Bits = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of one game."""

    target: str
    remedy: bool
    game: str
    epsilon: float
    delta: float
    wins: int
    trials: int

    @property
    def accuracy(self) -> float:
        """How often the attacker was right."""
        return self.wins / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper-Pearson limits of the attacker's accuracy."""
        return confidence.clopper_pearson(self.wins, self.trials, ALPHA)

    @property
    def bound(self) -> float:
        """The best accuracy that (epsilon, delta)-DP leaves to any attacker."""
        return confidence.accuracy_bound(self.epsilon, self.delta)

    @property
    def broken(self) -> bool:
        """Whether the attacker did provably better than the budget allows."""
        return self.interval[0] > self.bound

    def json(self) -> dict[str, Any]:
        """Returns the result as plain JSON values."""
        return {
            "target": self.target,
            "remedy": self.remedy,
            "game": self.game,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "wins": self.wins,
            "trials": self.trials,
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "bound": self.bound,
            "broken": self.broken,
        }


def attack_labels(budget: Budget, *, trials: int = 10_000, trainings: int = 200) -> list[Result]:
    """Plays the game against classifiers that read their labels off the data, and against each remedy.

    Args:
        budget: What each remedy may spend in one task.
        trials: Games against each remedy.
        trainings: Games against each classifier; every game trains one.

    Example:
        >>> first = attack_labels(Budget(epsilon=1.0, delta=1e-5), trials=100, trainings=60)[0]
        >>> first.accuracy, first.broken
        (1.0, True)
    """
    events.refuse_zero_delta(budget.delta)
    return [*attack_classifiers(budget, trainings), *attack_remedies(budget, trials)]


def attack_classifiers(budget: Budget, trainings: int) -> Iterator[Result]:
    """Plays the game against each classifier that reads its labels off the data; the first is ours, misused.

    Args:
        budget: Of the private ones.
        trainings: Games against each; every game trains one.
    """
    for name, make in _classifiers(budget):
        yield _against_classifier(budget, name, make, trainings)


def accuracy_curve(
    delta: float, *, trials: int = 10_000, trainings: int = 100, seed: int | None = None
) -> list[Result]:
    """Plays, for several epsilon, the strongest game against each remedy, and against labels read off the data.

    Args:
        delta: Of each budget.
        trials: Games against each remedy.
        trainings: Games against private weights whose labels are read off the data; every game trains them, and is
            won whatever their noise.
        seed: Of coins and noise of the games against remedies, so that they can be repeated; None for new ones.
    """
    played = []
    for number, epsilon in enumerate(CURVE):
        budget = Budget(epsilon=epsilon, delta=delta)
        played.append(_against_classifier(budget, FROM_DATA, functools.partial(LabelsFromData, budget), trainings))
        own = None if seed is None else seed + number
        played += [result for result in attack_remedies(budget, trials, seed=own) if result.game == WORST]
    return played


# --- classifiers that take their labels from the data


class LabelsFromData:
    """A classifier with differentially private weights whose label set is read off the data: the usual mistake."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def fit(self, features: Rows, labels: list[str]) -> ContinualClassifier:
        """Learns private weights; `classes_` is the side-channel."""
        leaking = PublicLabels(sorted(set(labels)))
        return ContinualClassifier(labels=leaking, budget=self._budget).fit(features, labels)


def _against_classifier(budget: Budget, name: str, make: Callable[[], Any], trainings: int) -> Result:
    return Result(
        target=name,
        remedy=False,
        game=ALONE,
        epsilon=budget.epsilon,
        delta=budget.delta,
        wins=_play_trainings(make, trainings),
        trials=trainings,
    )


def _classifiers(budget: Budget) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield FROM_DATA, functools.partial(LabelsFromData, budget)
    yield "scikit-learn LogisticRegression", lambda: LogisticRegression(max_iter=20)
    try:
        private = importlib.import_module("diffprivlib.models")
    except ImportError:  # an optional peer that does not follow every scikit-learn
        return
    limits = (np.full(8, -1.0), np.full(8, 1.0))
    yield "diffprivlib GaussianNB (DP)", lambda: private.GaussianNB(epsilon=budget.epsilon, bounds=limits)
    yield (
        "diffprivlib LogisticRegression (DP)",
        lambda: private.LogisticRegression(epsilon=budget.epsilon, data_norm=3.0, max_iter=20),
    )


def _play_trainings(make: Callable[[], Any], trainings: int) -> int:
    draw = np.random.default_rng()
    wins = 0
    for _ in range(trainings):
        features = draw.uniform(-1, 1, (41, 8))
        labels = ["healthy"] * 20 + ["type 1"] * 20 + [TARGET]
        joined = bool(draw.integers(2))
        kept = 41 if joined else 40
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # convergence of a classifier that is not used
            classes = make().fit(features[:kept], labels[:kept]).classes_
        wins += (TARGET in set(classes)) == joined
    return wins


# --- remedies: one label per game, so that one release plays all games at once


def attack_remedies(budget: Budget, trials: int, *, seed: int | None = None) -> Iterator[Result]:
    """Plays the game against each remedy: as the only one with a label, and in the class that gives most away.

    Args:
        budget: What each may spend in one task.
        trials: Games against each.
        seed: Of coins and noise; None for new ones.
    """
    rng = NoiseSource.from_os() if seed is None else NoiseSource.seeded(seed)
    draw = np.random.default_rng(seed)
    for name, kind in planning.BY_SHARE.items():
        select = SelectLabels(kind(epsilon=budget.epsilon, delta=budget.delta))
        for game, size in ((ALONE, 0), (WORST, most_revealing_size(select.event))):
            joined = draw.integers(2, size=trials).astype(bool)
            seen = _labels_seen(select(_counts(size, joined), rng=rng), trials)
            yield _result(name, game, budget, seen == joined)
    joint = JointGaussian(planning.joint_gaussian(budget, default_count_weight(budget)))
    sure = selection.smallest_class(selection.law(joint.event), 0.999)
    for game, size in ((ALONE, 0), (WORST, sure)):
        joined = draw.integers(2, size=trials).astype(bool)
        yield _result(planning.JOINT_GAUSSIAN, game, budget, _guess_joint(joint, size, joined, rng) == joined)
    noisy = GaussianSum(events.Gaussian(noise_multiplier=accounting.gaussian_sigma(budget)))
    for game in (ALONE, WORST):  # a public label set is the same in both worlds; only the noisy sums can tell
        joined = draw.integers(2, size=trials).astype(bool)
        guess = noisy(joined.astype(np.int64) * grid.SCALE, rng=rng) > grid.SCALE // 2
        yield _result("public labels", game, budget, guess == joined)


def _guess_joint(joint: JointGaussian, size: int, joined: Bits, rng: NoiseSource) -> Bits:
    """The likelihood-ratio attack on label, noisy count and noisy sum together."""
    release = joint(class_of(size + joined, len(joined), joint.event.count_weight), rng=rng)
    guess = np.zeros(len(joined), dtype=bool)
    shown = np.array(release.released, dtype=np.int64)
    guess[shown] = True if size == 0 else joint_evidence(release, size, joint.event.count_weight) > 0.5
    return guess


def _counts(size: int, joined: Bits) -> dict[Label, int]:
    return {i: size + int(extra) for i, extra in enumerate(joined) if size + extra > 0}


def _labels_seen(released: Iterable[Any], trials: int) -> Bits:
    seen = np.zeros(trials, dtype=bool)
    seen[list(released)] = True
    return seen


def _result(name: str, game: str, budget: Budget, right: Bits) -> Result:
    return Result(
        target=name,
        remedy=True,
        game=game,
        epsilon=budget.epsilon,
        delta=budget.delta,
        wins=int(right.sum()),
        trials=len(right),
    )
