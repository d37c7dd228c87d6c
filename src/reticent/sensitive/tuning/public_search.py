"""Tuning on public data, which is free; and on sensitive data without paying, which the statement then says."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.budget import Budget
from reticent.gate.mechanisms import Mechanism
from reticent.gate.noise import NoiseSource
from reticent.gate.step import Gradients, Steps
from reticent.labels import LabelSpace, canonical, in_public_order
from reticent.numerics import threads
from reticent.policies import PublicLabels
from reticent.privacy import events
from reticent.privacy.statement import UNCOVERED
from reticent.released.model import Encode
from reticent.sensitive.engines import Ray
from reticent.sensitive.learners.peft import PeftEnsemble
from reticent.sensitive.task import Task
from reticent.sensitive.tuning.trials import (
    CLIP_NORMS,
    LEAST_BATCH,
    TUNING_SHARE,
    Accuracy,
    TrialExamples,
    accuracy_of,
    candidate_with,
    ranges,
    refuse_missing,
    resolved,
)


def tune(
    learner: PeftEnsemble,
    inputs: Any,
    labels: Any,
    *,
    budget: Budget,
    encoder: Encode | None = None,
    trials: int = 20,
    seed: int = 0,
    at_once: int = 1,
    engine: Ray | None = None,
) -> PeftEnsemble:
    """Returns the learner with settings that suit public data. Free, and safe only if the data are public.

    One task is split 70:30. Each trial trains on the larger part with the budget's noise and is scored by its accuracy
    on the other; Optuna's Gaussian process chooses the next. The result is scaled to the learner's task size.

    Guarantees:
      - Settings lie in the paper's ranges.                       test_candidates_stay_in_the_ranges
      - The same seed gives the same split and the same result.   test_tuning_repeats
      - So it does on a cluster, whatever the number of workers.  test_trials_are_spread_over_a_cluster

    Args:
        learner: What to tune; its adapter, epochs and task size stay.
        inputs: Public features, or inputs for the encoder, of one task like those to come.
        labels: One label per example.
        budget: What the tasks to come may spend.
        encoder: As in `ContinualClassifier`.
        trials: How many settings are tried.
        seed: Of the split, the search and the noise of trials.
        at_once: How many settings are chosen before their scores are known; they are tried side by side on an engine.
            The first ten are drawn at random, so up to ten at once lose nothing there.
        engine: A cluster that trains them; this process by default. Speed alone.

    Example:
        >>> tune(PeftEnsemble(), np.zeros((2, 3)), ["a", "b"], budget=Budget(epsilon=1.0, delta=1e-5), trials=0)
        Traceback (most recent call last):
        reticent.errors.InvalidValue: Expected trials >= 1, got 0.
    """
    said = f"tuned on public data: {trials} trials"
    return _search(learner, inputs, labels, budget, encoder, trials, seed, said, at_once=at_once, engine=engine)


def tune_uncounted(
    learner: PeftEnsemble,
    inputs: Any,
    labels: Any,
    *,
    budget: Budget,
    encoder: Encode | None = None,
    trials: int = 20,
    seed: int = 0,
    clip_norms: tuple[float, float] = CLIP_NORMS,
) -> PeftEnsemble:
    """As `tune`, on sensitive data and without paying: the settings are outside the guarantee.

    Guarantees:
      - The statement of a classifier with this learner says so.   test_statement_says_tuning_is_not_covered

    Args:
        learner: As in `tune`. Trials have the noise that its `calibrate` says: none where it trains without privacy.
        inputs: As in `tune`.
        labels: As in `tune`.
        budget: As in `tune`.
        encoder: As in `tune`.
        trials: As in `tune`.
        seed: As in `tune`.
        clip_norms: The smallest and the largest clipping norm that is tried; one value where nothing is to be clipped.
    """
    said = f"{UNCOVERED}: {trials} trials on sensitive data, not paid for"
    return _search(learner, inputs, labels, budget, encoder, trials, seed, said, clip_norms)


def rescaled(learner: PeftEnsemble, task_size: int) -> PeftEnsemble:
    """Returns the learner for tasks of another size: the rate stays, so the batch grows with the task.

    The learning rate grows with the square root of the batch; epochs and clipping norm stay.

    >>> rescaled(PeftEnsemble(task_size=100, rate=0.1, learning_rate=0.001), 400).learning_rate
    0.002
    """
    factor = errors.whole("task_size", task_size, at_least=1) / learner.task_size
    rate = None if learner.learning_rate is None else learner.learning_rate * math.sqrt(factor)
    return replace(learner, task_size=task_size, learning_rate=rate)


@dataclass(frozen=True, eq=False)
class _Trial:
    """Trains a candidate on one part and scores it on the rest; a worker of a cluster gets it once.

    Its noise is that of its number, so that it does not matter who tries it and when.
    """

    learner: PeftEnsemble
    part: TrialExamples
    rest: TrialExamples
    space: LabelSpace
    encoder: Encode | None
    budget: Budget
    seed: int

    def __call__(self, asked: tuple[int, PeftEnsemble]) -> tuple[int, float]:
        """Returns the number of the trial and its accuracy."""
        number, candidate = asked
        event = candidate.calibrate(events.Public(), self.budget, rate=candidate.rate, steps=candidate.steps)
        return number, self._accuracy(candidate, event, _Free(NoiseSource.seeded(self.seed + (number << 64))))

    @cached_property
    def _accuracy(self) -> Accuracy:
        return accuracy_of(self.learner, self.part, self.rest, self.space, self.encoder)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_accuracy"}


@dataclass(frozen=True)
class _Free:
    """Draws trials on public data, which cost nothing, from a seed."""

    noise: NoiseSource

    def draw(self, mechanism: Mechanism[Gradients, Steps], value: Gradients) -> Steps:
        """Draws without a spend: only where data are public, or the statement says that tuning is not covered."""
        return mechanism(value, rng=self.noise)


def split(size: int, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns which examples to tune on and which to validate on, 70:30.

    >>> [len(part) for part in split(10, seed=0)]
    [7, 3]
    """
    order = np.argsort(NoiseSource.seeded(seed).words(size), kind="stable")
    cut = round(TUNING_SHARE * size)
    return np.sort(order[:cut]), np.sort(order[cut:])


def _search(
    learner: PeftEnsemble,
    inputs: Any,
    labels: Any,
    budget: Budget,
    encoder: Encode | None,
    trials: int,
    seed: int,
    said: str,
    clip_norms: tuple[float, float] = CLIP_NORMS,
    *,
    at_once: int = 1,
    engine: Ray | None = None,
) -> PeftEnsemble:
    at_once = errors.whole("at_once", at_once, at_least=1)
    trials, wanted = errors.whole("trials", trials, at_least=1), resolved(learner, encoder)
    refuse_missing(labels)
    task = Task(inputs, labels)
    policy = PublicLabels(in_public_order({name for name in map(canonical, task.labels) if name is not None}))
    if len(policy.labels) < 2 or len(task.labels) < LEAST_BATCH:
        raise errors.InvalidValue(f"Expected at least {LEAST_BATCH} examples, of two labels or more, to tune on.")
    optuna = _optuna()
    examples = TrialExamples.of(task, policy)
    part, rest = split(len(task.labels), seed)
    here = replace(wanted, task_size=len(part))
    trial_of = _Trial(here, examples.at(part), examples.at(rest), policy.space, encoder, budget, seed)

    def settings(trial: Any) -> PeftEnsemble:
        batch, learning_rate, _ = ranges(here)
        return candidate_with(
            here,
            trial.suggest_int("batch", *batch, log=True),
            trial.suggest_float("learning_rate", *learning_rate, log=True),
            trial.suggest_float("clip_norm", *clip_norms, log=True),
        )

    spread: Callable[..., Iterable[tuple[int, float]]] = map if engine is None else engine.map
    with _quiet(optuna):
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.GPSampler(seed=seed))
        for start in range(0, trials, at_once):
            asked = [study.ask() for _ in range(min(at_once, trials - start))]
            scores = dict(spread(trial_of, [(trial.number, settings(trial)) for trial in asked]))
            for trial in asked:
                study.tell(trial, scores[trial.number])
        best = settings(study.best_trial)
    return replace(rescaled(best, wanted.task_size), tuning=said)


def _optuna() -> Any:
    threads.wait_passively()
    try:
        import_module("torch")  # of its Gaussian process
        return import_module("optuna")
    except ImportError as error:
        raise errors.ReticentError("Tuning needs optuna and torch: pip install 'reticent[tune]'.") from error


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Keeps scores out of logs."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
