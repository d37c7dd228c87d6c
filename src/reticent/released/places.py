"""Where the tasks of a stream stand in epochs of memory, and so how their sums hang together (THEORY section 10)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reticent.labels import LabelSpace
from reticent.privacy import correlation
from reticent.privacy.events import Remembered
from reticent.released.release import Release

PLACE = "place"


@dataclass(frozen=True)
class Places:
    """Tasks by epoch and place; tasks without memory have none.

    Args:
        task_at: From epoch and place to the task.
        events: From a task to what it cost.
    """

    task_at: Mapping[tuple[int, int], int]
    events: Mapping[int, Remembered]

    @classmethod
    def of(cls, releases: Sequence[Release]) -> "Places":
        """Reads the places off releases, in order."""
        events = {t: release.event for t, release in enumerate(releases) if isinstance(release.event, Remembered)}
        at = {(event.epoch, int(releases[t].parameters[PLACE][0])): t for t, event in events.items()}
        return cls(at, events)

    def tasks(self, task: int, places: Sequence[int]) -> list[int]:
        """Returns the tasks at these places of a task's epoch."""
        return [self.task_at[self.events[task].epoch, place] for place in places]

    def mixing(self, tasks: int) -> npt.NDArray[np.float64] | None:
        """Returns how examples of each task enter the sums of each; None where there is no memory."""
        if not self.events:
            return None
        mixing = np.eye(tasks)
        for (epoch, place), t in self.task_at.items():
            row = self.events[t].correlation.row(place) / correlation.ONE
            for earlier, weight in enumerate(row, start=1):
                if (epoch, earlier) in self.task_at:
                    mixing[t, self.task_at[epoch, earlier]] = weight
        return mixing

    def weights(
        self, releases: Sequence[Release], rows: npt.NDArray[np.int64], labels: LabelSpace
    ) -> npt.NDArray[np.float64] | None:
        """Returns what an example of a label weighs in a task: less while the label was pending; None for 1.

        Args:
            releases: In order.
            rows: The labels that are asked for, by their rows in the label space, ascending.
            labels: All labels.
        """
        weights = np.ones((len(rows), len(releases)))
        for (epoch, place), t in self.task_at.items():
            new = np.searchsorted(rows, [labels.row(label) for label in releases[t].labels.labels])
            for (other, earlier), task in self.task_at.items():
                if other == epoch and earlier <= place:
                    weights[new, task] = math.sqrt(1 - self.events[t].count_weight)
        return weights if (weights < 1).any() else None
