"""Learners of a user's own, for runs to name as module:object."""

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from reticent.gate.gate import Gate
from reticent.labels import LabelSpace
from reticent.policies import PublicLabels
from reticent.privacy import events
from reticent.released.release import Release
from reticent.sensitive.learners import Cosine
from reticent.sensitive.learners.cosine import noisy_sums
from reticent.sensitive.learners.seen import seen
from reticent.sensitive.task import Task

mine = Cosine()


def made() -> Cosine:
    return Cosine()


class Mine(Cosine):
    """The same as ours, under another name."""


class Raises(Cosine):
    def learn_task(self, task: Task, policy: Any, **others: Any) -> Release:
        raise MemoryError("there is no room")


class Dies(Cosine):
    def learn_task(self, task: Task, policy: Any, **others: Any) -> Release:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class Sleeps(Cosine):
    """Takes a minute, until somebody repairs it."""

    def learn_task(self, task: Task, policy: Any, **others: Any) -> Release:
        if "RETICENT_TEST_REPAIRED" not in os.environ:
            time.sleep(60)
        return super().learn_task(task, policy, **others)


class Repaired(Cosine):
    """Fails until somebody repairs it."""

    def learn_task(self, task: Task, policy: Any, **others: Any) -> Release:
        if "RETICENT_TEST_REPAIRED" not in os.environ:
            raise OSError("it needs repair")
        return super().learn_task(task, policy, **others)


class Overspends(Cosine):
    """Asks its gate for more than the budget."""

    def learn_task(self, task: Task, policy: Any, **others: Any) -> Release:
        others["gate"].spend(events.NonPrivate(), task=task.name)
        return super().learn_task(task, policy, **others)


@dataclass(frozen=True)
class Guesses(Cosine):
    """Has labels of its own, whatever the policy: no event of its releases chose them."""

    def learn_task(self, task: Task, policy: Any, *, known: LabelSpace, gate: Gate, **others: Any) -> Release:
        names = tuple(f"class {i}" for i in range(6))
        new = LabelSpace(tuple(name for name in names if name not in known))
        gaussian = PublicLabels(names).sums(gate.budget)
        task = gate.admit(task)
        permit = gate.spend(gaussian, task=task.name)
        return noisy_sums(seen(task, None, ()), known, new, gaussian, permit)
