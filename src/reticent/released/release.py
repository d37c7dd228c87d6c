"""Release: what leaves a task. Parameters, the labels that became known, and what it cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.labels import LabelSpace
from reticent.privacy.events import Event

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, kw_only=True)
class Release:
    """One task's release.

    Args:
        task: The public name of the task.
        labels: Labels that became known with this release; they follow those known before, in this order.
        parameters: Arrays, by name.
        event: What it cost.
        private: False if any noise came from a seeded source.
    """

    task: str
    labels: LabelSpace
    parameters: Mapping[str, Array] = field(hash=False)
    event: Event
    private: bool

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(
            Release, **{**vars(self), "parameters": dict(self.parameters)}
        ), ()  # a read-only view stays here


Past = Sequence[Release]  # the releases before a task
