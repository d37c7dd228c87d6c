"""The whole program: the loop that learns a stream of tasks into a model directory."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from reticent import errors
from reticent.directory import Directory
from reticent.policies import Policy, refuse_numbers
from reticent.released.model import Encode, Model

if TYPE_CHECKING:  # learning imports these; predicting does not
    from reticent.gate.noise import NoiseSource
    from reticent.sensitive.learners.learner import Learner
    from reticent.sensitive.task import Task


def learn(
    tasks: Iterable["Task"],
    learner: "Learner",
    policy: Policy,
    directory: Directory,
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
    for task in tasks:  # sensitive
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


def refuse_without_memory(learner: "Learner") -> None:
    """Refuses a learner that cannot use a vault, in a model with memory; one that can says `remembers`."""
    if not getattr(learner, "remembers", False):
        raise errors.InvalidValue(
            f"Expected a learner that can use memory, such as Cosine(); {type(learner).__name__} as it is set cannot. "
            "Nothing was spent. Choose Cosine(), or make a model without memory."
        )
