"""Norms of rows that do not depend, in any bit, on the rows beside them."""

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
