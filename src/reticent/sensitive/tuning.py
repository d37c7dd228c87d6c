"""Tuning a PEFT ensemble: free on public data, for a price on sensitive data, or not covered and said so.

What is chosen: rate, learning rate and clipping norm, in the paper's ranges. Epochs stay the learner's own, and noise
follows from the budget.
"""

import contextlib
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.budget import Budget
from reticent.encoders.adapters import last_layer
from reticent.gate.gate import Gate
from reticent.gate.mechanisms import Mechanism
from reticent.gate.noise import NoiseSource
from reticent.gate.step import Gradients, Steps
from reticent.labels import LabelSpace, canonical, in_public_order
from reticent.numerics import threads
from reticent.numerics.rows import take
from reticent.policies import PublicLabels
from reticent.privacy import accounting, events, renyi
from reticent.privacy.statement import UNCOVERED
from reticent.released.ensemble import ROWS
from reticent.released.model import Encode, Model
from reticent.released.release import Release
from reticent.sensitive.learners.learner import encoded
from reticent.sensitive.learners.peft import PeftEnsemble, gradients_of, prepared, refuse_untrainable
from reticent.sensitive.task import Task
from reticent.sensitive.training import Draws, train

LEARNING_RATES = (1e-7, 1e-2)
CLIP_NORMS = (0.2, 10.0)
LEAST_BATCH = 10
TUNING_SHARE = 0.7

Inputs = Sequence[object] | npt.NDArray[Any]
Accuracy = Callable[[PeftEnsemble, events.DpSgd, Draws], float]


# --- on public data


def tune(
    learner: PeftEnsemble,
    inputs: Any,
    labels: Any,
    *,
    budget: Budget,
    encoder: Encode | None = None,
    trials: int = 20,
    seed: int = 0,
) -> PeftEnsemble:
    """Returns the learner with settings that suit public data. Free, and safe only if the data are public.

    One task is split 70:30. Each trial trains on the larger part with the budget's noise and is scored by its accuracy
    on the other; Optuna's Gaussian process chooses the next. The result is scaled to the learner's task size.

    Guarantees:
      - Settings lie in the paper's ranges.                       test_candidates_stay_in_the_ranges
      - The same seed gives the same split and the same result.   test_tuning_repeats

    Args:
        learner: What to tune; its adapter, epochs and task size stay.
        inputs: Public features, or inputs for the encoder, of one task like those to come.
        labels: One label per example.
        budget: What the tasks to come may spend.
        encoder: As in `ContinualClassifier`.
        trials: How many settings are tried.
        seed: Of the split, the search and the noise of trials.

    Example:
        >>> tune(PeftEnsemble(), np.zeros((2, 3)), ["a", "b"], budget=Budget(epsilon=1.0, delta=1e-5), trials=0)
        Traceback (most recent call last):
        reticent.errors.InvalidValue: Expected trials >= 1, got 0.
    """
    return _search(learner, inputs, labels, budget, encoder, trials, seed, f"tuned on public data: {trials} trials")


def tune_uncounted(
    learner: PeftEnsemble,
    inputs: Any,
    labels: Any,
    *,
    budget: Budget,
    encoder: Encode | None = None,
    trials: int = 20,
    seed: int = 0,
) -> PeftEnsemble:
    """As `tune`, on sensitive data and without paying: the settings are outside the guarantee.

    Guarantees:
      - The statement of a classifier with this learner says so.   test_statement_says_tuning_is_not_covered
    """
    said = f"{UNCOVERED}: {trials} trials on sensitive data, not paid for"
    return _search(learner, inputs, labels, budget, encoder, trials, seed, said)


def rescaled(learner: PeftEnsemble, task_size: int) -> PeftEnsemble:
    """Returns the learner for tasks of another size: the rate stays, so the batch grows with the task.

    The learning rate grows with the square root of the batch; epochs and clipping norm stay.

    >>> rescaled(PeftEnsemble(task_size=100, rate=0.1, learning_rate=0.001), 400).learning_rate
    0.002
    """
    factor = errors.whole("task_size", task_size, at_least=1) / learner.task_size
    rate = None if learner.learning_rate is None else learner.learning_rate * math.sqrt(factor)
    return replace(learner, task_size=task_size, learning_rate=rate)


# --- for a price


def private_selection(
    learner: PeftEnsemble, budget: Budget, *, encoder: Encode | None = None, mean_runs: float = 20.0, eta: float = 0.0
) -> events.PrivateSelection:
    """Returns the event of `tune_privately`, with the least noise that keeps the whole selection within the budget.

    The event's run is training at the smallest rate of the search; runs at other rates spend no more, see `run_like`.

    Guarantees:
      - The event is within the budget.   test_private_selection_stays_within_its_budget

    Args:
        learner: What to tune.
        budget: What tuning may cost.
        encoder: As in `ContinualClassifier`.
        mean_runs: How many runs to expect. The number itself is random and secret.
        eta: Shape of its law: 0 is logarithmic, the cheapest; at 1, geometric, few runs are rarer.
    """
    learner = _resolved(learner, encoder)
    slowest = replace(learner, rate=_least_batch(learner) / learner.task_size)

    def make(noise: float) -> events.PrivateSelection:
        run = events.DpSgd(noise_multiplier=noise, rate=slowest.rate or 1.0, steps=slowest.steps)
        return accounting.private_selection(run, mean_runs=mean_runs, eta=eta)

    event = accounting.calibrate(make, budget, guess=3 * math.sqrt(slowest.steps) * (slowest.rate or 1.0))
    assert isinstance(event, events.PrivateSelection)  # noqa: S101 (what make returns)
    return event


def tune_privately(
    learner: PeftEnsemble,
    inputs: Any,
    labels: Any,
    *,
    policy: PublicLabels,
    public_validation: tuple[Any, Any],
    budget: Budget,
    gate: Gate,
    encoder: Encode | None = None,
    persons: Any = None,
    name: str = "tuning",
    mean_runs: float = 20.0,
    eta: float = 0.0,
) -> PeftEnsemble:
    """Returns the learner with the settings of the best of a random number of private runs.

    Settings are drawn from a fixed law, log-uniform over the ranges of `tune`; each run trains on all the sensitive
    examples and is scored on public ones. The people in them pay once, under a task name of their own.

    Guarantees (with the assumptions of the gate's budget):
      - The whole selection is spent before anything is drawn.         test_private_tuning_spends_before_it_draws
      - No run spends more than the event says, at any Rényi order.    test_no_run_spends_more_than_the_event
      - How many runs there were is told to nobody.                    test_number_of_runs_is_told_to_nobody

    Args:
        learner: What to tune. Its task size is a public guess of how many examples there are; see `rescaled`.
        inputs: Sensitive features, or inputs for the encoder.
        labels: One label per example.
        policy: The public labels. Labels that must be released first are not covered.
        public_validation: Public inputs and labels to score runs on.
        budget: What tuning may cost; the gate's budget or a smaller one.
        gate: Where it is spent: `with model.directory.writer() as gate`.
        encoder: As in `ContinualClassifier`.
        persons: Whose example each one is.
        name: The public task name of the spend.
        mean_runs: How many runs to expect.
        eta: Shape of the law of their number.

    Reference: Papernot and Steinke 2022, Theorem 2.
    """
    learner = _resolved(learner, encoder)
    if not isinstance(policy, PublicLabels):
        raise errors.InvalidValue("Expected PublicLabels([...]): runs must not find out by themselves which there are.")
    held_out = _public_task(public_validation)
    _refuse_missing(labels)
    event = private_selection(learner, budget, encoder=encoder, mean_runs=mean_runs, eta=eta)
    task = gate.admit(Task(inputs, labels, persons, name=name))
    with errors.silenced():
        accuracy = _accuracy(learner, _Examples.of(task, policy), _Examples.of(held_out, policy), policy.space, encoder)

    permit = gate.spend(event, task=name)
    # Of runs with equal scores the first is kept: the law of breaking ties by independent coins, which the theorem
    # allows.
    best, score = learner, -1.0
    with _unseen():
        for run in permit.runs():
            candidate = draw(learner, gate.uniform(3))
            reached = accuracy(candidate, run_like(event.run, candidate), run)
            if reached > score:
                best, score = candidate, reached
    permit.publish()
    return replace(best, tuning=f"tuned by private selection, paid for as {name!r}")


def draw(learner: PeftEnsemble, uniform: Sequence[float]) -> PeftEnsemble:
    """Returns log-uniform settings from three numbers between 0 and 1; of a learner whose settings are resolved."""
    batch, learning_rate, clip_norm = (
        low * (high / low) ** share for (low, high), share in zip(_ranges(learner), uniform, strict=True)
    )
    return _candidate(learner, round(batch), learning_rate, clip_norm)


def run_like(run: events.Event, candidate: PeftEnsemble) -> events.DpSgd:
    """Returns training at a candidate's rate that spends no more than `run`, at every order that accounting looks at.

    The bound of private selection asks each run for the same divergences. At low orders they are steps rate^2
    (e^(1/noise^2) - 1) times half the order; a smaller rate grows faster beyond. So noise that is alike at low orders
    does, for every rate above the run's; where it should not, there is more.
    """
    assert isinstance(run, events.DpSgd)  # noqa: S101 (as `private_selection` makes it)
    rate, steps = candidate.rate or 1.0, candidate.steps
    growth = run.steps * run.rate**2 / (steps * rate**2) * math.expm1(run.noise_multiplier**-2)
    noise = math.log1p(growth) ** -0.5
    while True:
        event = events.DpSgd(noise_multiplier=noise, rate=rate, steps=steps)
        if renyi.spends_no_more(event, run):
            return event
        noise *= 1.005


# --- inside


@dataclass(frozen=True)
class _Free:
    """Draws trials on public data, which cost nothing, from a seed."""

    noise: NoiseSource

    def draw(self, mechanism: Mechanism[Gradients, Steps], value: Gradients) -> Steps:
        """Draws without a spend: only where data are public, or the statement says that tuning is not covered."""
        return mechanism(value, rng=self.noise)


@dataclass(frozen=True)
class _Examples:
    """Inputs, and the row of each one's label in the label space; -1 for none."""

    inputs: Inputs
    places: npt.NDArray[np.int64]

    @classmethod
    def of(cls, task: Task, policy: PublicLabels) -> "_Examples":
        """Returns the examples of a task under public labels."""
        return cls(task.inputs, policy.rows(task.labels, policy.space))

    def at(self, rows: npt.NDArray[np.int64]) -> "_Examples":
        """Returns some of the examples."""
        return _Examples(take(self.inputs, rows), self.places[rows])

    def encoded(self, encoder: Encode | None) -> "_Examples":
        """Returns the examples with features as inputs."""
        return _Examples(encoded(self.inputs, encoder, ()), self.places)


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
) -> PeftEnsemble:
    trials, wanted = errors.whole("trials", trials, at_least=1), _resolved(learner, encoder)
    _refuse_missing(labels)
    task = Task(inputs, labels)
    policy = PublicLabels(in_public_order({name for name in map(canonical, task.labels) if name is not None}))
    if len(policy.labels) < 2 or len(task.labels) < LEAST_BATCH:
        raise errors.InvalidValue(f"Expected at least {LEAST_BATCH} examples, of two labels or more, to tune on.")
    optuna = _optuna()
    examples = _Examples.of(task, policy)
    part, rest = split(len(task.labels), seed)
    here = replace(wanted, task_size=len(part))
    accuracy = _accuracy(here, examples.at(part), examples.at(rest), policy.space, encoder)
    noise = NoiseSource.seeded(seed)

    def settings(trial: Any) -> PeftEnsemble:
        batch, learning_rate, clip_norm = _ranges(here)
        return _candidate(
            here,
            trial.suggest_int("batch", *batch, log=True),
            trial.suggest_float("learning_rate", *learning_rate, log=True),
            trial.suggest_float("clip_norm", *clip_norm, log=True),
        )

    def objective(trial: Any) -> float:
        candidate = settings(trial)
        event = candidate.calibrate(events.Public(), budget, rate=candidate.rate, steps=candidate.steps)
        return accuracy(candidate, event, _Free(noise))

    with _quiet(optuna):
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.GPSampler(seed=seed))
        study.optimize(objective, n_trials=trials)
        best = settings(study.best_trial)
    return replace(rescaled(best, wanted.task_size), tuning=said)


def _accuracy(
    learner: PeftEnsemble, part: _Examples, rest: _Examples, space: LabelSpace, encoder: Encode | None
) -> Accuracy:
    """Returns a function that trains on one part and scores on the rest; features are computed once."""
    if learner.adapter == last_layer:
        part, rest, encoder = part.encoded(encoder), rest.encoded(encoder), None
    gradients = gradients_of(learner, prepared(learner, part.inputs, encoder), part.places, len(space), encoder)
    rows = np.arange(len(space), dtype=np.int32)

    def accuracy(candidate: PeftEnsemble, event: events.DpSgd, permit: Draws) -> float:
        found = train(gradients, candidate.training(event), permit, engine=candidate.engine)
        # a trial: it is scored and thrown away, and says nothing about who paid
        release = Release(
            task="trial", labels=LabelSpace(()), parameters={ROWS: rows, **found}, event=event, private=False
        )
        best, _ = Model(space, candidate.rule, (release,)).top(rest.inputs, encoder, 1)
        return float(np.mean(best[:, 0] == rest.places))

    return accuracy


def _ranges(learner: PeftEnsemble) -> tuple[tuple[int, int], tuple[float, float], tuple[float, float]]:
    """Batch, learning rate and clipping norm, all on logarithmic scales."""
    return (_least_batch(learner), learner.task_size), LEARNING_RATES, CLIP_NORMS


def _least_batch(learner: PeftEnsemble) -> int:
    return min(LEAST_BATCH, learner.task_size)


def _candidate(learner: PeftEnsemble, batch: int, learning_rate: float, clip_norm: float) -> PeftEnsemble:
    return replace(learner, rate=batch / learner.task_size, learning_rate=learning_rate, clip_norm=clip_norm)


def _resolved(learner: PeftEnsemble, encoder: Encode | None) -> PeftEnsemble:
    if not isinstance(learner, PeftEnsemble):
        raise errors.InvalidValue("Expected a PeftEnsemble: other learners have nothing to tune.")
    resolved = learner.resolved(encoder)
    refuse_untrainable(resolved.adapter, encoder)
    return resolved


def _refuse_missing(labels: object) -> None:
    if labels is None:
        raise errors.InvalidValue("Expected labels: tuning compares predictions with them.")


def _public_task(validation: object) -> Task:
    if not isinstance(validation, tuple) or len(validation) != 2 or any(part is None for part in validation):
        raise errors.InvalidValue(
            "Expected public_validation=(inputs, labels): scores on sensitive data would cost more than is counted."
        )
    task = Task(*validation)
    if not task.labels:
        raise errors.InvalidValue("Expected at least one public example to score runs on.")
    return task


def _optuna() -> Any:
    threads.wait_passively()
    try:
        import_module("torch")  # of its Gaussian process
        return import_module("optuna")
    except ImportError as error:
        raise errors.ReticentError("Tuning needs optuna and torch: pip install 'reticent[tune]'.") from error


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Swallows bars, warnings and whatever else an encoder prints in each run: who sees them can count."""
    quiet = io.StringIO()
    with errors.silenced(), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        yield


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Keeps scores out of logs."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
