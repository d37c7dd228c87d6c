"""Batches of prepared examples: equal shapes, and a number of rows that follows from the shape alone."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Item = tuple[npt.NDArray[Any], ...]  # one prepared example: arrays whose shapes follow from the example alone
Items = list[Item | None]
Rows = Callable[[Item], int]


def batches(items: Sequence[Item | None], rows: Rows) -> Iterator[tuple[list[int], list[Item], int]]:
    """Yields positions and items of equal shape, a batch at a time, and the rows that a batch of that shape has."""
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for i, item in enumerate(items):
        if item is not None:
            groups[shapes(item)].append(i)
    for group in groups.values():
        prepared = [item for i in group if (item := items[i]) is not None]
        count = rows(prepared[0])
        for start in range(0, len(group), count):
            yield group[start : start + count], prepared[start : start + count], count


def shapes(item: Item) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Returns what must be equal for two items to share a batch."""
    return tuple((array.shape, array.dtype.str) for array in item)


def stacked(batch: Sequence[Item], rows: int) -> Item:
    """Returns items as one batch with a fixed number of rows, filled up with copies of the first."""
    full = [*batch, *[batch[0]] * (rows - len(batch))]
    return tuple(np.stack(arrays) for arrays in zip(*full, strict=True))
