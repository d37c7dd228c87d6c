"""Tuning on sensitive data for a price: the best of a random number of private runs, scored on public examples."""

import contextlib
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from reticent import errors
from reticent.budget import Budget
from reticent.gate.gate import Gate, RunPermit
from reticent.numerics.shared_memory import share_memory
from reticent.policies import PublicLabels
from reticent.privacy import accounting, events, renyi
from reticent.released.model import Encode
from reticent.sensitive.learners.peft import PeftEnsemble
from reticent.sensitive.task import Task
from reticent.sensitive.tuning.trials import (
    TrialExamples,
    accuracy_of,
    candidate_with,
    least_batch,
    ranges,
    refuse_missing,
    resolved,
)


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
        eta: Shape of its distribution: 0 is logarithmic, the cheapest; at 1, geometric, few runs are rarer.
    """
    learner = resolved(learner, encoder)
    slowest = replace(learner, rate=least_batch(learner) / learner.task_size)

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

    Settings are drawn from a fixed distribution, log-uniform over the ranges of `tune`; each run trains on all the
    sensitive examples and is scored on public ones. The persons in them pay once, under a separate task name, and
    must be in no other task: what follows is chosen by the selection, so a budget for several tasks is refused.

    Guarantees (with the assumptions of the gate's budget):
      - The whole selection is spent before anything is drawn.         test_private_tuning_spends_before_it_draws
      - No run spends more than the event says, at any Rényi order.    test_no_run_spends_more_than_the_event
      - How many runs there were is never published.                   test_number_of_runs_is_never_shown
      - Sensitive examples and labels, and parts of them, are refused as public ones; equal copies are not, since that
        would tell who is a member.                             test_sensitive_examples_are_no_public_validation

    Args:
        learner: What to tune. Its task size is a public guess of how many examples there are; see `rescaled`.
        inputs: Sensitive features, or inputs for the encoder; of persons who are in no other task.
        labels: One label per example.
        policy: The public labels. Labels that must be released first are not covered.
        public_validation: Public inputs and labels to score runs on; never those of a task to come.
        budget: What tuning may cost; the gate's budget or a smaller one.
        gate: Where it is spent: `with model.directory.writer() as gate`.
        encoder: As in `ContinualClassifier`.
        persons: Whose example each one is.
        name: The public task name of the spend.
        mean_runs: How many runs to expect.
        eta: Shape of the distribution of their number.

    Reference: Papernot and Steinke 2022, Theorem 2.
    """
    learner = resolved(learner, encoder)
    if not isinstance(policy, PublicLabels):
        raise errors.InvalidValue("Expected PublicLabels([...]): runs must not read them off the data.")
    held_out = _public_task(public_validation)
    if any(share_memory(public, private) for public in public_validation for private in (inputs, labels)):
        raise errors.InvalidValue(
            "Expected public_validation of public examples, got the sensitive ones: scores on these are not paid for."
        )
    refuse_missing(labels)
    if gate.budget.tasks_per_person > 1:
        raise errors.InvalidValue(
            "Expected tasks_per_person=1, and other persons to tune on than to learn from: which training follows is "
            "chosen by the selection, and for a person in both there is no bound."
        )
    event = private_selection(learner, budget, encoder=encoder, mean_runs=mean_runs, eta=eta)
    task = gate.admit(Task(inputs, labels, persons, name=name))
    with errors.silenced():
        accuracy = accuracy_of(
            learner, TrialExamples.of(task, policy), TrialExamples.of(held_out, policy), policy.space, encoder
        )

    permit = gate.spend(event, task=name)

    def run(permit: RunPermit) -> tuple[float, PeftEnsemble]:
        candidate = draw(learner, gate.uniform(3))
        return accuracy(candidate, run_like(event.run, candidate), permit), candidate

    with _unseen():
        best = permit.best(run)
    permit.publish()
    return replace(best, tuning=f"tuned by private selection, paid for as {name!r}")


def draw(learner: PeftEnsemble, uniform: Sequence[float]) -> PeftEnsemble:
    """Returns log-uniform settings from three numbers between 0 and 1; of a learner whose settings are resolved."""
    batch, learning_rate, clip_norm = (
        low * (high / low) ** share for (low, high), share in zip(ranges(learner), uniform, strict=True)
    )
    return candidate_with(learner, round(batch), learning_rate, clip_norm)


def run_like(run: events.Event, candidate: PeftEnsemble) -> events.DpSgd:
    """Returns training at a candidate's rate that spends no more than `run`, at every order that accounting looks at.

    The bound of private selection asks each run for the same divergences. At low orders they are steps rate^2
    (e^(1/noise^2) - 1) times half the order; a smaller rate grows faster beyond. So noise that agrees at low orders
    is enough for every rate above the run's; where it should not be, more is added.
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


def _public_task(validation: object) -> Task:
    if not isinstance(validation, tuple) or len(validation) != 2 or any(part is None for part in validation):
        raise errors.InvalidValue(
            "Expected public_validation=(inputs, labels): scores on sensitive data would cost more than is counted."
        )
    task = Task(*validation)
    if not task.labels:
        raise errors.InvalidValue("Expected at least one public example to score runs on.")
    return task


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Suppresses whatever an encoder prints in each run (bars, warnings): it would reveal the number of runs."""
    quiet = io.StringIO()
    with errors.silenced(), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        yield
