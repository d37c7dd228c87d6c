"""Learner: two small facts, how a task is learned and how its releases become a classifier."""

from collections.abc import Sequence
from typing import Protocol

from reticent.budget import Budget
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.labels import LabelSpace
from reticent.policies import Policy
from reticent.released.model import Encode, Rule
from reticent.released.release import Release
from reticent.sensitive.task import Task


class Learner(Protocol):
    """A frozen value that may be shared; state lives in releases and ledger."""

    @property
    def rule(self) -> Rule:
        """How releases become a classifier."""

    def learn_task(
        self,
        task: Task,
        policy: Policy,
        *,
        known: LabelSpace,
        encoder: Encode | None,
        budget: Budget,
        ledger: Ledger,
        rng: NoiseSource,
        past: Sequence[Release] = (),
    ) -> Release:
        """Spends, draws, and returns what may be published of the task; `past` are the releases before it."""
