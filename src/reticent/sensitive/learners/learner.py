"""Learner: how a task is learned, and how its releases become a classifier."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.encoder import Encoder
from reticent.encoders.wrapped import one_by_one
from reticent.gate.gate import Gate
from reticent.gate.sparse import ALL_KEPT
from reticent.labels import LabelSpace
from reticent.policies import Policy
from reticent.released.model import Encode, Rule
from reticent.released.release import Past, Release
from reticent.sensitive.task import Task


class Learner(Protocol):
    """A frozen value that may be shared; state lives in releases and ledger."""

    @property
    def rule(self) -> Rule:
        """How releases become a classifier."""

    def learn_task(
        self, task: Task, policy: Policy, *, known: LabelSpace, encoder: Encode | None, gate: Gate, past: Past = ()
    ) -> Release:
        """Spends, draws, and returns what may be published of the task.

        Args:
            task: Sensitive; it can be read once `gate.admit(task)` has bounded what one person contributes.
            policy: Where labels come from.
            known: The labels that are known before the task.
            encoder: From inputs to features; None where inputs are features already.
            gate: The only way to noise: `gate.spend(event, task=task.name)` gives a permit, which draws and releases.
            past: The releases before it.
        """


def encoded(inputs: Any, encoder: Encode | None, past: Past) -> npt.NDArray[Any]:
    """Returns features of shape (n, K); refuses by shape and type alone, so before anything is spent.

    Lists are refused: to make an array of one reads its rows, and fails where one of them has another length. A
    function that is no encoder of ours gets one example at a time: one row could change what it makes of others.
    """
    features: object = inputs
    if isinstance(encoder, Encoder):
        features = encoder(inputs)
    elif encoder is not None:
        features = one_by_one(encoder, inputs)(inputs)
    if not isinstance(features, np.ndarray) or features.ndim != 2 or features.dtype.kind not in "fiu":
        raise errors.InvalidValue("Expected features of shape (n, K), or an encoder that makes them.")
    for release in past:
        for name in ("sums", "head.weight"):
            before = release.parameters.get(name)
            if before is not None and before.shape[1] != features.shape[1]:
                raise errors.InvalidValue(f"Expected features of width {before.shape[1]}, as in earlier tasks.")
    return features


def refuse_large_part(part: LabelSpace, *, keep_all: bool) -> None:
    """Refuses labels of one task that are more than publish every block: which ones stand out is told of all labels."""
    if len(part) > ALL_KEPT and not keep_all:
        raise errors.InvalidValue(
            f"Expected at most {ALL_KEPT:,} labels for one task, or a learner that keeps all rows, such as "
            "Cosine.paper(). Nothing was spent."
        )
