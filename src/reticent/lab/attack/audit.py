"""Audits: an attacker measures epsilon, from below, by playing the membership game many times.

A game is played with a canary in the data and without it. The attacker turns what is published into one number. The
first quarter of the games chooses where to cut it; the other games are counted. From the two error rates follows what
epsilon must be at least, except with chance ALPHA. Noise comes from the operating system; the data is synthetic.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors, policies
from reticent.budget import Budget
from reticent.encoders.adapters import film, last_layer
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.gate.step import Block, Gradients, NoisySteps, Parameters, clipped_sum, flattened
from reticent.lab.attack.games import CONSISTENT, VIOLATED, Floats, Result, judge
from reticent.labels import LabelSpace
from reticent.numerics.progress import Bar
from reticent.policies import Policy, PublicLabels
from reticent.privacy import events, profiles, selection
from reticent.released import store
from reticent.released.release import Release
from reticent.sensitive import learners
from reticent.sensitive.head import HeadGradients
from reticent.sensitive.learners import Learner, PeftEnsemble
from reticent.sensitive.task import Task
from reticent.sensitive.training import Training
from reticent.testing.mechanism_checks import most_revealing_size

CANARY, COMMON = "canary", "common"
SCOPE = (
    "This audits the configuration, not the release: the settings of the manifest are replayed on synthetic data, and "
    "neither the releases nor any data are read."
)

_WIDTH = 8


# --- the training step, white box


def play_training(
    training: Training,
    gradients: Gradients,
    *,
    delta: float,
    claimed: events.DpSgd | None = None,
    trials: int = 10_000,
    shown: Callable[[float], None] | None = None,
) -> Result:
    """Plays for one example in DP-SGD; the attacker sees the noisy sums of all steps and knows the example's gradient.

    Parameters stay where they start, so that the gradient keeps its direction: what an optimiser does with the sums is
    post-processing.

    Args:
        training: Public settings of the training.
        gradients: One example, the canary.
        delta: At which epsilon is to be bounded.
        claimed: What is spent; the training's own event by default.
        trials: Games with the canary, and as many without.
        shown: Called with the fraction done.

    Example:
        >>> canary = HeadGradients(np.ones((1, 2), np.float32), np.array([0]), 2)
        >>> from reticent.released.optimizers import Sgd
        >>> rule = Sgd(learning_rate=0.1)
        >>> training = Training(noise_multiplier=4.0, rate=1.0, steps=1, clip_norm=1.0, batch=1.0, optimizer=rule)
        >>> play_training(training, canary, delta=1e-5, trials=200).verdict
        'consistent'
    """
    start = gradients.start
    point = flattened(start)
    towards = flattened(clipped_sum(gradients, start, np.array([0]), training.clip_norm))
    towards /= np.linalg.norm(towards)
    noise = NoiseSource.from_os()
    mechanism = NoisySteps(training.event, training.clip_norm, ahead=False)

    def play(examples: Gradients) -> float:
        steps = mechanism(examples, rng=noise)
        return sum(float(steps(point) @ towards) for _ in range(training.steps))

    present, absent = _played(lambda: play(gradients), lambda: play(_WithoutCanary(gradients)), trials, shown)
    event = training.event if claimed is None else claimed
    return judge("every noisy sum of training", present, absent, event=event, delta=delta)


@dataclass(frozen=True)
class _WithoutCanary:
    """The same parameters, without the canary."""

    canary: Gradients
    size: int = 0

    @property
    def start(self) -> dict[str, npt.NDArray[np.float32]]:
        return self.canary.start

    def blocks(self, parameters: Parameters, rows: npt.NDArray[np.int64]) -> Iterator[Block]:
        return iter(())


def _played(
    present: Callable[[], float], absent: Callable[[], float], trials: int, shown: Callable[[float], None] | None
) -> tuple[Floats, Floats]:
    found = np.empty((2, errors.whole("trials", trials, at_least=8)))
    for trial in range(trials):
        found[:, trial] = present(), absent()
        if shown is not None:
            shown((trial + 1) / trials)
    return found[0], found[1]


# --- a whole configuration, by what a task publishes


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found.

    Args:
        budget: What is claimed for the whole stream.
        results: One for each game; a game plays one task.
        notes: What was replayed otherwise than configured.
    """

    budget: Budget
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Whether any game measured more than is claimed."""
        return VIOLATED if any(result.verdict == VIOLATED for result in self.results) else CONSISTENT

    def json(self) -> dict[str, Any]:
        """Returns the audit as plain JSON values."""
        return {
            "claimed": {
                "epsilon": self.budget.epsilon,
                "delta": self.budget.delta,
                "tasks_per_person": self.budget.tasks_per_person,
                "examples_per_person": self.budget.examples_per_person,
            },
            "games": [result.json() for result in self.results],
            "notes": [SCOPE, *self.notes],
            "verdict": self.verdict,
        }


def audit_model(path: str | os.PathLike[str], *, trials: int | None = None) -> Audit:
    """Replays the configuration of a model directory on synthetic canaries.

    Guarantees:
      - Reads the manifest and nothing else.                     test_the_audit_reads_the_manifest_alone

    Args:
        path: The model directory.
        trials: Games with the canary, and as many without; by default 2,000, or 200 where each game trains.
    """
    settings = store.read_manifest(Path(path))
    stored = settings["learner"]
    learner = learners.Cosine() if stored is None else learners.from_json(stored)
    policy = policies.from_json(settings["policy"], (COMMON, CANARY), None)
    notes: list[str] = []
    if isinstance(learner, PeftEnsemble):
        encoder = settings["encoder"]
        trained_through = learner.adapter is None and encoder is not None and encoder["digest"] is not None
        if trained_through or learner.adapter not in (None, last_layer):
            learner = replace(replace(learner, adapter=learner.adapter or film).resolved(None), adapter=last_layer)
            notes.append(
                "The adapter is replayed as last_layer, with the same noise, rate and steps: these decide what a step "
                "costs, whichever parameters it trains."
            )
    return audit(learner, policy, Budget.from_json(settings["budget"]), trials=trials, notes=notes)


def audit(
    learner: Learner, policy: Policy, budget: Budget, *, trials: int | None = None, notes: Iterable[str] = ()
) -> Audit:
    """Plays every game that a label policy and a learner allow, one task a game.

    Guarantees:
      - What is within its claim is consistent, except with chance ALPHA a game.     test_configurations_are_consistent
      - Half the noise, and labels taken from the data, are detected.                test_broken_learners_are_detected

    Args:
        learner: Releases noisy sums or heads, as `Cosine` and `PeftEnsemble` do.
        policy: `PublicLabels(("common", "canary"))`, or any `ReleasedLabels`.
        budget: What one person may lose over the whole stream.
        trials: Games with the canary, and as many without; by default 2,000, or 200 where each game trains.
        notes: What was replayed otherwise than configured.
    """
    count = trials if trials is not None else 200 if isinstance(learner, PeftEnsemble) else 2_000
    draw = np.random.default_rng()
    noise = NoiseSource.from_os()

    def learn(known: LabelSpace, size: int, canaries: int) -> Release:
        with Ledger.create(None, budget) as ledger:
            task = _task(draw, size, canaries, budget)
            return learner.learn_task(task, policy, known=known, encoder=None, gate=Gate(ledger, noise))

    event = learn(LabelSpace((COMMON, CANARY)), 0, 0).event
    games = list(_games(policy, event))
    training = _training(learner, event)
    all_games = len(games) + (training is not None)
    results: list[Result] = []
    with Bar("Auditing") as bar:

        def shown(fraction: float) -> None:
            bar.show((len(results) + fraction) / all_games)

        for game, known, size in games:

            def play(canaries: int, known: LabelSpace = known, size: int = size) -> float:
                return _seen(learn(known, size, canaries), known)

            sides = _played(lambda: play(budget.examples_per_person), lambda: play(0), count, shown)
            results.append(judge(game, *sides, event=event, delta=budget.delta))
        if training is not None:
            canary = HeadGradients(10 * np.eye(1, _WIDTH, dtype=np.float32), np.array([0]), 2)
            results.append(play_training(training, canary, delta=budget.delta, trials=count, shown=shown))
    return Audit(budget=budget, results=tuple(results), notes=tuple(notes))


def _games(policy: Policy, event: events.Event) -> Iterator[tuple[str, LabelSpace, int]]:
    """Yields what is played: a name, the labels known before, and how many others have the canary's label."""
    yield "one more example of a known label", LabelSpace((COMMON, CANARY)), 0
    if isinstance(policy, PublicLabels):
        return
    nothing = LabelSpace(())
    yield "the only one with a label", nothing, 0
    for part in profiles.leaves(event):
        chosen = part.counts if isinstance(part, events.LabelledTraining) else part
        if isinstance(chosen, events.JointGaussian | events.LabelCounts | events.LabelSelection):
            yield "one more in a class that may be released", nothing, most_revealing_size(chosen)
            sure = selection.smallest_class(selection.law(chosen), 1 - 1e-4)
            yield "one more in a class that is released", nothing, sure


def _training(learner: Learner, event: events.Event) -> Training | None:
    """Returns how a task is trained, where it is."""
    if not isinstance(learner, PeftEnsemble):
        return None
    parts = (part.training if isinstance(part, events.LabelledTraining) else part for part in profiles.leaves(event))
    return next((learner.resolved(None).training(part) for part in parts if isinstance(part, events.DpSgd)), None)


def _task(draw: np.random.Generator, size: int, canaries: int, budget: Budget) -> Task:
    """Others have public random features without a part along the first axis, on which the canary lies."""
    others = draw.normal(size=(8 + size, _WIDTH))
    others[:, 0] = 0
    features = np.concatenate([others, np.tile(np.eye(1, _WIDTH), (canaries, 1))])
    labels = [COMMON] * 8 + [CANARY] * (size + canaries)
    persons = None if budget.examples_per_person == 1 else [*range(8 + size), *[-1] * canaries]
    return Task(features, labels, persons, name="audit")


def _seen(release: Release, known: LabelSpace) -> float:
    """What is published of the canary's label, along the canary; -inf where nothing is."""
    row = known.union(release.labels).row(CANARY)
    at = np.flatnonzero(release.parameters["rows"] == row)
    if row < 0 or not len(at):
        return -math.inf
    if "sums" in release.parameters:
        return float(release.parameters["sums"][at[0], 0])
    weights = release.parameters["head.weight"][:, 0]
    return float(weights[at[0]] - weights.mean())
