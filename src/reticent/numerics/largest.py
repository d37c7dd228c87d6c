"""The few largest entries of each row, without sorting the others."""

import numpy as np
import numpy.typing as npt

_GROUPS = 8  # times as many groups of columns as entries are wanted: then hardly a group has two of them
_WIDEST = 64  # columns of a group
_MOST_TIED = 64  # times as many candidates as are wanted; a row with more is sorted by itself


def largest(scores: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.int64]:
    """Returns the columns of the k largest entries of each row, in the order in which a stable sort has them.

    Of equal entries the first column comes first, and NaN comes after everything else. Columns are put into groups;
    the k-th largest of their maxima bounds the k-th largest entry from below, so few entries are left to be sorted.

    Guarantees:
      - The same columns as a stable sort of whole rows, whatever ties, NaN and infinities.
                                                                        test_the_largest_are_those_of_a_stable_sort

    Args:
        scores: Shape (n, columns).
        k: How many, at most as many as there are columns.

    Example:
        >>> largest(np.array([[1.0, 3.0, 3.0, np.nan], [0.0, 0.0, 0.0, 0.0]]), 2).tolist()
        [[1, 2], [0, 1]]
    """
    n, columns = scores.shape
    if k == 1:
        best: npt.NDArray[np.int64] = scores.argmax(axis=1)[:, None]
        if not np.isnan(np.take_along_axis(scores, best, axis=1)).any():
            return best
    width = max(1, min(_WIDEST, columns // (_GROUPS * k)))
    groups = columns // width
    maxima = scores[:, : groups * width].reshape(n, width, groups).max(axis=1)  # NaN where a group has one
    least = np.partition(maxima, groups - k, axis=1)[:, groups - k :].min(axis=1)  # then NaN, and nothing is as large
    candidates = scores >= least[:, None]
    count = np.count_nonzero(candidates, axis=1)
    odd = (count < k) | (count > _MOST_TIED * k)
    candidates[odd] = False
    at = np.flatnonzero(candidates)
    rows = at // columns
    order = np.lexsort((-scores.reshape(-1)[at], rows))  # by row, then largest first; stable, so ties by column
    found, plain = np.zeros((n, k), np.int64), np.flatnonzero(~odd)
    found[plain] = at[order[np.searchsorted(rows, plain)[:, None] + np.arange(k)]] - plain[:, None] * columns
    for row in np.flatnonzero(odd):
        found[row] = np.argsort(-scores[row], kind="stable")[:k]
    return found
