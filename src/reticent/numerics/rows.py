"""Norms and scaling of rows. A row's result never depends, in any bit, on the other rows, their number or the layout.

Guarantees:
  - Alone, among other rows, at any place, of any layout: the same bits.     test_norms_do_not_depend_on_other_rows,
                                                              test_scaled_rows_do_not_depend_on_other_rows
  - No row decides whether a warning appears.                                test_extreme_rows_are_scaled_silently
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
_IN_CACHE = 1 << 15  # numbers worked on at a time


def squared_norms(rows: Floats) -> Floats:
    """Returns the squared norm of each row, along the last axis.

    Sums along rows that lie whole in memory are added up row by row in one fixed order; those of einsum differ for one
    row and for several beyond 8,192 columns, and those of other layouts at any width.

    >>> squared_norms(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [25.0, 0.0]
    """
    whole = np.ascontiguousarray(rows)
    with np.errstate(all="ignore"):
        total: Floats = np.add.reduce(whole * whole, axis=-1)
    return total


def norms(rows: Floats) -> npt.NDArray[np.float64]:
    """Returns the norm of each row; not finite where the row is not, or where its squares are out of range.

    >>> norms(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [5.0, 0.0]
    """
    with np.errstate(all="ignore"):
        return np.asarray(np.sqrt(squared_norms(rows)), dtype=np.float64)


def unit_rows(features: Floats) -> npt.NDArray[np.float64]:
    """Returns rows of shape (n, K) scaled to norm 1; zero rows stay zero, rows with NaN or infinity stay unusable.

    Finite rows of any size have norm 1 afterwards: those whose squares overflow or vanish are scaled twice.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0], [3e-300, 4e-300]])).tolist()
    [[0.6, 0.8], [0.0, 0.0], [0.6, 0.8]]
    """
    rows = np.array(features, dtype=np.float64, order="C")  # a row's bits must not depend on the layout
    with np.errstate(all="ignore"):
        squares = squared_norms(rows)
        extreme = np.flatnonzero(~((squares > 1e-200) & (squares < 1e200)))
        if len(extreme):  # so that squares neither overflow nor vanish
            largest = np.max(np.abs(rows[extreme]), axis=1, keepdims=True, initial=0.0)
            rows[extreme] = np.where(largest > 0, rows[extreme] / largest, rows[extreme])
            squares[extreme] = squared_norms(rows[extreme])
        lengths = np.sqrt(squares)
        rows /= np.where(lengths > 0, lengths, 1.0)[:, None]
    return rows


def unit_or_zero(features: Floats) -> npt.NDArray[np.float32]:
    """Returns rows of shape (n, K) scaled to norm 1, and zeros for rows whose norm is 0 or not finite.

    >>> unit_or_zero(np.array([[0.0, 2.0], [0.0, 0.0], [np.nan, 1.0]])).tolist()
    [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    """
    unit = np.zeros(features.shape, np.float32)
    step = max(1, _IN_CACHE // max(1, features.shape[1]))
    for part in (slice(start, start + step) for start in range(0, len(features), step)):
        rows = features[part].astype(np.float64)
        lengths = norms(rows)[:, None]
        usable = np.isfinite(lengths) & (lengths > 0)
        with np.errstate(all="ignore"):
            rows /= np.where(usable, lengths, 1)
            rows[~usable[:, 0]] = 0
            unit[part] = rows
    return unit


def scaled(features: Floats, length: float | None) -> Floats:
    """Returns rows of a public length, along the last axis; zero rows stay zero. None leaves rows as they are.

    >>> scaled(np.array([[3.0, 4.0], [0.0, 0.0]]), 10.0).tolist()
    [[6.0, 8.0], [0.0, 0.0]]
    """
    if length is None:
        return features
    rows = np.array(features, dtype=np.float64, order="C")  # a row's bits must not depend on the layout
    lengths = norms(rows)[..., None]
    with np.errstate(all="ignore"):
        return (rows * (length / np.where(lengths > 0, lengths, 1))).astype(np.float32)


def softmax(scores: Floats, temperature: float) -> npt.NDArray[np.float64]:
    """Returns the probabilities of scores of shape (n, labels): each row sums to one.

    >>> softmax(np.array([[0.0, 0.0], [1.0, -1e9]]), 0.5).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    logits = scores.astype(np.float64)
    chances = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


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
