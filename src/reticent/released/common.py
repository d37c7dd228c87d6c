"""What examples of all labels have in common, as a direction: it tells which labels of a huge space have examples.

Unit features of an encoder share a large part (0.3 to 0.5 of their length on our data). A sum of n of them has 0.3 n to
0.5 n along it, against the noise of one coordinate; the energy of the whole sum stands against the noise of all K. So
thin classes stand out along this direction first. It comes from earlier releases, so it is public.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from reticent.released.centre import next_centre
from reticent.released.release import Release

Direction = npt.NDArray[np.float64]


def common_direction(releases: Sequence[Release], width: int) -> Direction | None:
    """Returns the direction of what examples have in common, of length one; None while releases do not tell.

    Args:
        releases: Earlier ones, in order.
        width: The number of features.

    Example:
        >>> common_direction([], 3) is None
        True
    """
    found = next_centre(releases, np.zeros((0, width)), width, fewest=1)  # zeros while there is none
    centre = found.astype(np.float64)
    length = float(np.sqrt(np.add.reduce(centre * centre)))
    return centre / length if length > 0 else None


def mirrored(rows: npt.NDArray[np.floating], direction: Direction) -> npt.NDArray[np.float64]:
    """Returns rows mirrored so that the direction and the first axis change places; done twice, nothing has changed.

    Guarantees: lengths stay, and each row follows from itself alone, to the last bit.
                                                                    test_mirrored_rows_do_not_depend_on_other_rows

    Example:
        >>> mirrored(np.array([[0.6, 0.8], [0.0, 1.0]]), np.array([0.0, 1.0])).tolist()
        [[0.8, 0.6], [1.0, 0.0]]
    """
    whole = np.array(rows, dtype=np.float64, order="C")
    between = direction.copy()
    between[0] -= 1
    square = float(np.add.reduce(between * between))
    if square == 0:
        return whole
    with np.errstate(all="ignore"):
        along = np.add.reduce(whole * between, axis=-1)
        whole -= (2 / square * along)[:, None] * between
    return whole
