"""Batches of prepared examples: equal shapes, and numbers of rows whose features were seen to have the same bits."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

Item = tuple[npt.NDArray[Any], ...]  # one prepared example: arrays whose shapes follow from the example alone
Items = list[Item | None]
Rows = Callable[[Item], int]
Smaller = Callable[[Item, int], bool]


def never(item: Item, rows: int) -> bool:
    """Says that batches of an item's shape all have the same number of rows."""
    return False


def batches(
    items: Sequence[Item | None], rows: Rows, smaller: Smaller = never
) -> Iterator[tuple[list[int], list[Item], int]]:
    """Yields positions and items of equal shape, a batch at a time, and the rows that the batch has.

    Args:
        items: Prepared examples.
        rows: How many rows a full batch of an item's shape has.
        smaller: Whether a batch of fewer rows of an item's shape gives the same bits. Where it does, the last examples
            of a shape go in smaller batches, with fewer copies to fill them up.
    """
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for i, item in enumerate(items):
        if item is not None:
            groups[shapes(item)].append(i)
    for group in groups.values():
        prepared = [item for i in group if (item := items[i]) is not None]
        most, start = rows(prepared[0]), 0
        while start < len(group):
            count = fitting(len(group) - start, most, partial(smaller, prepared[0]))
            yield group[start : start + count], prepared[start : start + count], count
            start += count


def fitting(left: int, most: int, smaller: Callable[[int], bool]) -> int:
    """Returns the rows of the next batch: 2, 3, 4, 6, 8, 12 and so on for the last examples, if bits are the same then.

    Args:
        left: How many examples of the shape are left.
        most: Rows of a full batch.
        smaller: Whether a batch of so many rows gives the same bits.

    Example:
        >>> [fitting(left, 16, lambda rows: True) for left in (40, 16, 12, 11, 5, 3, 1)]
        [16, 16, 12, 12, 6, 3, 2]
        >>> fitting(1, 16, lambda rows: rows > 4)
        8
    """
    whole = 1 << max(1, (left - 1).bit_length())  # a power of two that holds them
    rows = whole * 3 // 4 if whole * 3 // 4 >= max(left, 2) else whole
    while rows < most:
        if smaller(rows):
            return rows
        rows *= 2
    return most


def shapes(item: Item) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Returns what must be equal for two items to share a batch."""
    return tuple((array.shape, array.dtype.str) for array in item)


def stacked(batch: Sequence[Item], rows: int) -> Item:
    """Returns items as one batch with a given number of rows, filled up with copies of the first."""
    full = [*batch, *[batch[0]] * (rows - len(batch))]
    return tuple(np.stack(arrays) for arrays in zip(*full, strict=True))
