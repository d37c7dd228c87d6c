"""The whole program: the loop that learns a stream of tasks into a model directory."""

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

from reticent import errors, names
from reticent.budget import Budget
from reticent.labels import UNKNOWN, Label
from reticent.numerics.shared_memory import share_memory
from reticent.policies import Policy, PublicLabels, ReleasedLabels, refuse_numbers
from reticent.released.model import Encode, Model

if TYPE_CHECKING:  # learning imports these; predicting does not
    from reticent.directory import Directory
    from reticent.gate.noise import NoiseSource
    from reticent.sensitive.learners.learner import Learner
    from reticent.sensitive.task import Task


def learn(
    tasks: Iterable["Task"],
    learner: "Learner",
    policy: Policy,
    directory: "Directory",
    *,
    encoder: Encode | None = None,
    noise: "NoiseSource | None" = None,
) -> Model:
    """The whole program: each task is read once, paid for, drawn and published, by one writer at a time.

    Args:
        tasks: Sensitive.
        learner: What is released of a task.
        policy: Where labels come from.
        directory: Where releases and spends go.
        encoder: From inputs to features; None where inputs are features already.
        noise: Where noise comes from; the operating system by default.
    """
    if directory.epoch is not None:
        refuse_without_memory(learner)
    if isinstance(policy, PublicLabels) and policy.part is not None:
        _refuse_part(learner, directory)
    for task in tasks:  # sensitive
        task.ready()
        with directory.writer(noise) as gate:  # one writer; budget, ledger, noise
            directory.refuse_second_time(task.name)
            model = directory.model
            if task.numeric:
                refuse_numbers(policy, model.labels)
            task = gate.admit(task).spelled_like(model.labels)
            release = learner.learn_task(
                task, policy, known=model.labels, encoder=encoder, gate=gate, past=model.releases
            )
            directory.publish(release)  # one commit point
    return directory.model


def name_of_first(directory: "Directory") -> str:
    """Returns the name of a model's first task, which nobody has named; refuses to name a second one."""
    if directory.statement().spends:
        raise errors.InvalidValue(
            "Expected a name: this model has spent on a task already. Rows that it has not learned yet: "
            'learn_task(X, y, name="april"). Rows that it has learned, as when a cell runs again: do not learn them a '
            "second time, because under another name the same persons pay twice. Nothing was spent."
        )
    return "task 1"


def task_policy(
    policy: Policy, labels: Iterable[Label] | None, directory: "Directory", *, private: object = None
) -> Policy:
    """Returns where the labels of one task come from: a public part of the model's, where one is given.

    Args:
        policy: Of the model.
        labels: Those of the task.
        directory: Of the model.
        private: The labels of its examples, which those of the task are not.
    """
    if labels is None:
        return policy
    if share_memory(labels, private):
        raise errors.InvalidValue("Expected labels= that were chosen in public, got the labels of the examples.")
    if not isinstance(policy, PublicLabels):
        raise errors.InvalidValue(
            "Expected labels= with PublicLabels([...]): where labels are released, the release says which a task has."
        )
    return policy.of_task(labels, directory.model.labels)


def _refuse_part(learner: "Learner", directory: "Directory") -> None:
    """Refuses a part of the labels where all of them are updated by every task; a learner that can says `narrows`."""
    if directory.epoch is not None:
        raise errors.InvalidValue("Expected labels= without memory: its noise spans the same rows in all tasks.")
    if not getattr(learner, "narrows", False):
        raise errors.InvalidValue(
            f"Expected a learner that can learn a part of the labels, such as Cosine(); {type(learner).__name__} does "
            "not say that it narrows. Nothing was spent."
        )


def warn_of_near_name(task: str, directory: "Directory") -> None:
    """Warns of a task's name that is nearly that of another one in the ledger."""
    try:
        spends = directory.spends_like(task)
    except errors.StorageError:  # the writer will say so, and what was spent
        return
    other = names.near(task, [spend.task for spend in spends])
    if other is not None:
        warnings.warn(
            f"Task {task!r} has nearly the name of {names.shown(other)!r} in the ledger. If both hold data of the same "
            "persons, these persons lose more than the budget says.",
            errors.ReticentWarning,
            stacklevel=3,
        )


def warn_of_no_label(policy: Policy, directory: "Directory", task: str) -> None:
    """Says loudly that a model knows no label after a task, which its releases show anyway."""
    if isinstance(policy, ReleasedLabels) and not len(directory.model.labels):
        needed = 0 if directory.epoch is not None else policy.sizes(directory.budget)[1]
        advice = f" A class needs about {needed:,} examples in one task." if needed else ""
        warnings.warn(
            f"NO LABEL IS KNOWN after task {task!r}: the model answers {UNKNOWN} to everything, and what was spent "
            f"stays spent.{advice} Learn tasks with larger classes, or make a model with a larger epsilon or with "
            "public labels; `reticent plan` shows what would do.",
            errors.ReticentWarning,
            stacklevel=3,
        )


def refuse_several(learner: "Learner", budget: Budget) -> None:
    """Refuses a learner that takes one example of a person and task, where the budget allows several."""
    if getattr(learner, "takes_one_example_per_person", False) and budget.examples_per_person > 1:
        raise errors.InvalidValue(
            f"{type(learner).__name__} takes one example of each person and task: its steps sample examples, not "
            "persons. Set examples per person to 1 (--examples-per-person 1; with ids the first one is taken), or use "
            "Cosine (--learner cosine)."
        )


def refuse_without_memory(learner: "Learner") -> None:
    """Refuses a learner that cannot use a vault, in a model with memory; one that can says `remembers`."""
    if not getattr(learner, "remembers", False):
        raise errors.InvalidValue(
            f"Expected a learner that can use memory, such as Cosine(); {type(learner).__name__} as it is set cannot. "
            "Nothing was spent. Choose Cosine(), or make a model without memory."
        )
