"""Accuracy on private test data: noisy, and paid for."""

import math

import numpy as np

from reticent import errors
from reticent.encoders.encoder import Encoder
from reticent.encoders.wrapped import one_by_one
from reticent.gate import grid
from reticent.gate.gate import Gate
from reticent.gate.mechanisms import GaussianSum
from reticent.privacy import accounting
from reticent.released.model import Encode, Model, judged
from reticent.sensitive.learners.learner import encoded
from reticent.sensitive.task import Task


def noisy_accuracy(
    model: Model,
    task: Task,
    *,
    epsilon: float,
    encoder: Encode | None,
    gate: Gate,
) -> float:
    """Returns the share of right answers with noise, and writes its price to the ledger first.

    Each example is the vector (right, 1)/sqrt(2) of norm at most 1, zeros where it has no label; both sums leave with
    Gaussian noise. An input that cannot be read counts as a wrong answer, and never raises.

    Guarantees (with the assumptions of the budget):
      - (epsilon, delta of the budget)-DP for the persons in the test set.  test_private_accuracy_is_paid_for
      - Spent before anything is drawn,                                     test_private_accuracy_spends_before_it_draws
        and before a row is read.                    test_private_accuracy_reads_a_source_after_the_spend
      - Refuses by shapes and types alone, never by a row.                  test_private_accuracy_raises_for_no_row
      - An answer depends on its own example alone, to the bit.             test_answers_depend_on_their_example_alone
      - One person counts for as many examples as the budget says.          test_private_accuracy_bounds_persons
    """
    event = accounting.score(gate.budget, epsilon)
    task = gate.admit(task)
    encoded(task.no_inputs, encoder, model.releases if encoder is None else ())  # refuses what are no features
    task.refuse_elsewhere()
    one = math.floor(grid.SCALE / math.sqrt(2))
    try:
        permit = gate.spend(event, task=task.name)
    except errors.NotReserved:
        raise
    except errors.BudgetExceeded:
        raise errors.BudgetExceeded(
            f"Accuracy at epsilon {epsilon:g} would cost one person of {task.name!r} more than the budget allows; "
            "nothing was spent. Ask for a smaller epsilon, or give test data of other persons another name."
        ) from None
    right = total = 0
    for batch in task.batches():
        each = encoder if encoder is None or isinstance(encoder, Encoder) else one_by_one(encoder, batch.inputs)
        answers = model.names(model.answers(batch.inputs, each))
        for label, is_right in judged(zip(answers, batch.labels, strict=True), model.labels):
            right, total = right + is_right, total + (label is not None)
    hits, noisy = permit.draw(GaussianSum(event), np.array([right * one, total * one], dtype=np.int64))
    permit.publish()
    return float(np.clip(hits / max(noisy, 1), 0, 1))
