"""What the verb tune does: a free search on public data, or a private one that a ledger pays for."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent import errors
from reticent.budget import Budget
from reticent.cli import person_options
from reticent.cli.inputs import encoder_of, labelled, learner_of, loaded
from reticent.names import public_name
from reticent.numerics.shared_memory import share_a_file

if TYPE_CHECKING:
    from reticent.sensitive.learners.peft import PeftEnsemble


def on_public_data(
    sample: Path,
    columns: dict[str, str | None],
    *,
    budget: Budget,
    task_size: int,
    trials: int,
    encoder: str,
    seed: int,
    at_once: int,
    cluster: Any,
) -> "PeftEnsemble":
    """Returns a learner whose settings suit public data."""
    from reticent.readers import collected
    from reticent.sensitive.tuning import tune

    start = learner_of("peft", task_size=task_size)
    examples = collected(labelled(sample, **columns))
    through: Any = encoder_of(encoder if columns["text"] or columns["image"] else "none")
    return tune(
        start,
        examples.inputs,
        list(examples.labels or ()),
        budget=budget,
        encoder=through,
        trials=trials,
        seed=seed,
        at_once=at_once,
        engine=cluster,
    )


def privately(
    source: Path,
    columns: dict[str, str | None],
    *,
    model: Path,
    validation: Path | None,
    encoder: str | None,
    epsilon: float | None,
    delta: float | None,
    whose: tuple[str | None, bool],
    name: str,
    mean_runs: float,
) -> "PeftEnsemble":
    """Returns a learner whose settings were selected on private data, and says what that cost.

    Guarantees:
      - What can be refused is refused before the spend.    test_private_tuning_is_refused_before_the_spend

    Args:
        source: Private examples.
        columns: Which columns are what, in both files.
        model: The model directory whose ledger pays.
        validation: Public examples to score runs on.
        encoder: Where the model does not store it.
        epsilon: What tuning may cost; the model's by default.
        delta: Likewise.
        whose: The person column, or whether each row is a person, as the model was told by default.
        name: The public name of the spend.
        mean_runs: How many runs to expect.
    """
    from reticent.readers import collected

    if validation is None:
        raise errors.InvalidValue("Expected --validation FILE: public data to score runs on; scores are not paid for.")
    if share_a_file(validation, source):
        raise errors.InvalidValue("Expected other data for --validation: it must be public.")
    task = public_name(name)
    classifier = loaded(model, encoder, None)
    directory = classifier.directory
    start = _trained(directory.settings["learner"])
    person = person_options.said(*whose, directory.settings)
    budget = _part(classifier.budget, epsilon, delta)
    public = collected(labelled(validation, **columns))
    examples = collected(labelled(source, **columns, person=person))
    from reticent.sensitive.tuning import tune_privately

    with errors.silenced(), directory.writer() as gate:
        directory.refuse_second_time(task)
        found = tune_privately(
            start,
            examples.inputs,
            examples.labels,
            policy=classifier.labels,
            public_validation=(public.inputs, list(public.labels or ())),
            budget=budget,
            gate=gate,
            encoder=classifier.encoder,
            persons=examples.persons,
            name=task,
            mean_runs=mean_runs,
        )
    person_options.say_spent(classifier.statement())
    return found


def _trained(stored: dict[str, Any] | None) -> "PeftEnsemble":
    """Returns the learner of a model, if it is one that can be tuned."""
    from reticent.sensitive.learners import PeftEnsemble, from_json

    learner = None if stored is None else from_json(stored)
    if not isinstance(learner, PeftEnsemble):
        raise errors.InvalidValue("Expected a model that was made with --learner peft: there is nothing else to tune.")
    return learner


def _part(budget: Budget, epsilon: float | None, delta: float | None) -> Budget:
    """Returns what tuning may cost: the whole budget, or less of it."""
    part = dataclasses.replace(
        budget,
        epsilon=budget.epsilon if epsilon is None else epsilon,
        delta=budget.delta if delta is None else delta,
    )
    if part.epsilon > budget.epsilon or part.delta > budget.delta:
        raise errors.InvalidValue("Expected --epsilon and --delta of at most the model's budget.")
    return part
