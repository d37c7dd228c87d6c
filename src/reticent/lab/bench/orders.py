"""Every order of a stream's tasks: the paper averages 5-Datasets over all of them.

What the paper's learners release of a task does not depend on the tasks before it, so one training shows every order: a
model after some tasks of an order is the model of this set of tasks, and five tasks have 31 sets.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.lab.evaluation import AccuracyMatrix

MOST_TASKS = 6  # 720 orders, 63 sets
Floats = npt.NDArray[np.float64]


def order_of(seed: int, tasks: int) -> list[int]:
    """Returns the place of each task in the order of a seed: as many seeds as there are orders give each order once.

    >>> sorted(order_of(seed, 3) for seed in range(6)) == [list(order) for order in itertools.permutations(range(3))]
    True
    """
    if tasks > MOST_TASKS:
        return [int(place) for place in np.random.default_rng(seed).permutation(tasks)]
    shuffled = np.random.default_rng(0).permutation(math.factorial(tasks))
    return list(list(itertools.permutations(range(tasks)))[shuffled[seed % len(shuffled)]])


def in_every_order(tasks: int, accuracies: Callable[[tuple[int, ...]], Floats]) -> dict[str, Any]:
    """Returns curves and forgetting of a stream, in the mean over all orders of its tasks.

    Args:
        tasks: How many.
        accuracies: From some tasks, by their places, to the accuracy on the test data of each of them of a model that
            has learned these tasks.

    Example:
        >>> lost = {(0,): [0.9], (1,): [0.8], (0, 1): [0.7, 0.6]}
        >>> found = in_every_order(2, lambda some: np.array(lost[some]))
        >>> [round(value, 3) for value in (found["forgetting"], *found["curve"])]
        [0.2, 0.85, 0.65]
    """
    sizes = range(1, tasks + 1)
    known = {some: accuracies(some) for size in sizes for some in itertools.combinations(range(tasks), size)}
    matrices = []
    for order in itertools.permutations(range(tasks)):
        values = np.full((tasks, tasks), np.nan)
        for t in range(tasks):
            some = tuple(sorted(order[: t + 1]))
            by_task = dict(zip(some, known[some], strict=True))
            values[t, : t + 1] = [by_task[task] for task in order[: t + 1]]
        matrices.append(AccuracyMatrix(values))
    each = [matrix.forgetting for matrix in matrices]
    return {
        "curve": np.mean([matrix.after_each_task for matrix in matrices], axis=0).tolist(),
        "forgetting": float(np.mean(each)) if tasks > 1 else None,
        "forgetting_curve": np.mean([matrix.forgetting_after_each_task for matrix in matrices], axis=0).tolist(),
        "orders": {"number": len(each), "forgetting": each},
    }
