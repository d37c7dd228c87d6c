"""Streams for experiments: which example is in which task. Seeded and public data only; NOT for sensitive data.

A real stream assigns an example by what it is (its date, its file). These assign by class and by chance, as papers do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Stream:
    """i-Blurry as its authors publish it (Koh et al. 2022): disjoint classes, and blurry ones that are in all tasks.

    Every task is home to as many disjoint classes as any other, and to as many blurry ones. Of the blurry examples at
    home in a task exactly the ratio leaves; all that leave are shuffled and dealt evenly to all tasks, home included.
    So classes of one size give tasks of one size.

    Args:
        tasks: How many tasks.
        ratio: Share of blurry examples that is dealt to all tasks: 0 is disjoint, 1 is uniform.
        blurry: Share of the classes that are blurry.
        seed: Of the class order, and of which examples change their task.

    Example:
        >>> Stream(tasks=2, seed=0).tasks_of(np.array(["a", "a", "b", "b"])).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
        True
    """

    tasks: int
    ratio: float = 0.0
    blurry: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        errors.set_whole(self, "tasks", at_least=1)
        errors.set_real(self, "ratio", above=0, below=np.nextafter(1, 2), at_least=True)
        errors.set_real(self, "blurry", above=0, below=np.nextafter(1, 2), at_least=True)
        errors.set_whole(self, "seed", at_least=0)

    def tasks_of(self, labels: npt.ArrayLike) -> Ints:
        """Returns the task of each example."""
        draw = np.random.default_rng(self.seed)
        classes, index = np.unique(np.asarray(labels), return_inverse=True)
        home, blurry = self._homes(len(classes), draw)
        task = home[index]
        leaving = [self._leaving(np.flatnonzero(blurry[index] & (task == t)), draw) for t in range(self.tasks)]
        for t, dealt in enumerate(np.array_split(draw.permutation(np.concatenate(leaving)), self.tasks)):
            task[dealt] = t
        return task

    def _leaving(self, mine: Ints, draw: np.random.Generator) -> Ints:
        return draw.permutation(mine)[: round(self.ratio * len(mine))]

    def homes(self, labels: npt.ArrayLike) -> dict[Any, int]:
        """Returns the home task of each label: where all its examples are, unless it is blurry.

        >>> sorted(Stream(tasks=2).homes(np.array(["a", "b"])).values())
        [0, 1]
        """
        classes = np.unique(np.asarray(labels))
        homes, _ = self._homes(len(classes), np.random.default_rng(self.seed))
        return dict(zip(classes.tolist(), homes.tolist(), strict=True))

    def _homes(self, classes: int, draw: np.random.Generator) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Returns the home of each class, and which ones are blurry: evenly along the order, so in every task."""
        order, place = draw.permutation(classes), np.arange(classes)
        home, blurry = np.empty(classes, dtype=np.int64), np.empty(classes, dtype=np.bool_)
        home[order] = place * self.tasks // max(classes, 1)
        many = round(self.blurry * classes)
        blurry[order] = (place + 1) * many // max(classes, 1) > place * many // max(classes, 1)
        return home, blurry

    def split(
        self, features: npt.NDArray[np.generic], labels: npt.ArrayLike
    ) -> Iterator[tuple[str, npt.NDArray[np.generic], npt.NDArray[np.generic]]]:
        """Yields name, features and labels of each task."""
        names, task = np.asarray(labels), self.tasks_of(labels)
        for t in range(self.tasks):
            yield f"task {t + 1}", features[task == t], names[task == t]

    def examples(self, labels: npt.ArrayLike) -> Ints:
        """Returns how many examples each class has in each task: shape (classes, tasks)."""
        classes, index = np.unique(np.asarray(labels), return_inverse=True)
        table = np.zeros((len(classes), self.tasks), dtype=np.int64)
        np.add.at(table, (index, self.tasks_of(labels)), 1)
        return table

    def of_a_blurry_class(self, labels: npt.ArrayLike) -> list[float]:
        """Returns how many examples a blurry class has in its home task, in the next one, and so on; in the mean.

        >>> Stream(tasks=2, ratio=1.0, blurry=1.0).of_a_blurry_class(np.repeat(["a", "b"], 1000))[0] < 600
        True
        """
        homes = np.array(list(self.homes(labels).values()))
        table = self.examples(labels)
        from_home = np.stack([np.roll(row, -home) for row, home in zip(table, homes, strict=True)])
        blurry = from_home[from_home[:, 1:].sum(axis=1) > 0]
        return [float(mean) for mean in blurry.mean(axis=0)] if len(blurry) else []
