"""Norms of rows that do not depend, in any bit, on the rows beside them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def squared(rows: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Returns the squared norm of each row, along the last axis.

    Sums along rows that lie whole in memory are added up row by row in one fixed order; those of einsum differ for one
    row and for several beyond 8,192 columns, and those of other layouts at any width.
    test_norms_do_not_depend_on_company

    >>> squared(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [25.0, 0.0]
    """
    whole = np.ascontiguousarray(rows)
    total: npt.NDArray[np.floating] = np.add.reduce(whole * whole, axis=-1)
    return total


def take(inputs: Any, rows: npt.NDArray[np.integer | np.bool_] | Sequence[int]) -> Any:
    """Returns some rows of an array, or some entries of a list as a list.

    Args:
        inputs: An array or a list.
        rows: Positions, in any order, or a mask with one truth value per row.

    Example:
        >>> take(["a", "b", "c"], np.array([2, 0])), take(["a", "b", "c"], np.array([False, True, False]))
        (['c', 'a'], ['b'])
        >>> take(np.array([[1, 2], [3, 4]]), [1]).tolist()
        [[3, 4]]
    """
    return inputs[rows] if isinstance(inputs, np.ndarray) else [inputs[i] for i in np.arange(len(inputs))[rows]]
