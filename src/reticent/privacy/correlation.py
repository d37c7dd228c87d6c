"""The public matrix by which noise of one task cancels noise of others (THEORY section 10).

Row t of an epoch publishes sum_s C_ts x_s + Z_t: C is lower triangular and Toeplitz, its first column the coefficients
of (1 - z)^-a, rounded to whole 256ths, so that C x of whole numbers is whole on a grid 256 times as fine.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reticent import errors

Ints = npt.NDArray[np.int64]

ONE = 256  # a coefficient of 1
LOOK_ONE = 1 << 20  # a weight of 1 in a statistic of labels that are not known yet
LONGEST, DEFAULT_HORIZON = 1_200, 120  # places of an epoch
LARGEST_EIGHTHS = 4  # beyond a = 1/2 the newest task pays more than any stream gains
MOST_TASKS_PER_PERSON = 4  # from 5 on correlated noise gains nothing


class Look(NamedTuple):
    """A statistic that looks at the noisy counts Y_1..Y_t of a label: sum of weight times row.

    Args:
        weights: One for each row, in whole parts of `LOOK_ONE`.
        most: The most that one unit of one task adds to it, in parts of `LOOK_ONE` times `ONE`; exact.
        deviation: Its standard deviation where every row has unit noise, rounded up.
        rounding: The most that rounding of each row's noise to whole numbers adds to it, in parts of `LOOK_ONE`.
    """

    weights: tuple[int, ...]
    most: int
    deviation: float
    rounding: float


@dataclass(frozen=True)
class Correlation:
    """C of an epoch with at most `horizon` tasks: Toeplitz coefficients of (1 - z)^-a, a = eighths / 8, in 256ths.

    The coefficients c_0 = 1, c_1, ... do not grow and are not negative, before and after rounding: c_k / c_(k-1) is
    (k - 1 + a)/k <= 1, and rounding keeps the order. Everything below needs that much and no more.

    **What one person moves.** A person in the tasks s of a set S with a vector u_s of norm at most m in each moves row
    t by sum_s C_ts u_s, so all rows together by a squared norm of sum_{s,r in S} <C_s, C_r> <u_s, u_r>, at most
    m^2 |sum of the columns of S|^2, since <C_s, C_r> >= 0. For s <= r, <C_s, C_r> = sum of c_(k + r - s) c_k over
    k = 0..horizon - 1 - r (places from 0), which grows neither with the lag r - s nor with r. The k-th smallest element
    of S is at least k - 1 and two neighbours differ by at least 1, so each product is at most that of the first n
    columns in its place: no n columns have a longer sum than the first n. Fewer columns have a shorter one.

    **Epochs.** A person in n_e tasks of epoch e moves independent noises; squared norms add up. `gamma(n)` is the root
    of the largest sum of them over all splits of n, so gamma(p + q)^2 >= gamma(p)^2 + gamma(q)^2 by construction. With
    a horizon of at least 2n - 2 it is the norm for one epoch: let w_n(r) be the entry of the sum of the first n columns
    in row r, n = p + q, p >= q. Then w_n(r) = w_p(r) + w_q(r - p), and |w_n|^2 - |w_p|^2 - |w_q|^2 is twice the sum of
    w_p(r) w_q(r - p) without w_q(r)^2 of the last p rows. There w_p(r) >= w_q(r), and w_q(r - p) >= w_q(r) because
    r - p >= q - 1: from there on w_q is a sum of q coefficients and does not grow.

    Guarantees:
      - No set of n columns moves more than gamma(n).                             test_no_tasks_move_more_than_the_first
      - gamma(n)^2 is at least the sum over any split of n into epochs.                   test_gamma_covers_every_split
      - Coefficients neither grow nor fall below 0, after rounding too.                   test_coefficients_never_grow
      - The numbers of THEORY section 10.                                         test_table_of_gamma_and_information
      - A look gets at most `most` from one unit, and varies by `deviation`.              test_looks_invert_the_matrix

    Args:
        eighths: 8a; 0 means independent noise.
        horizon: How many places an epoch has at most.

    Example:
        >>> Correlation().coefficients[:4].tolist(), round(Correlation().gamma(1) ** 2, 2)
        ([256, 64, 40, 30], 1.17)
    """

    eighths: int = 2
    horizon: int = DEFAULT_HORIZON

    def __post_init__(self) -> None:
        errors.set_whole(self, "eighths", at_least=0, at_most=LARGEST_EIGHTHS)
        errors.set_whole(self, "horizon", at_least=1, at_most=LONGEST)

    @cached_property
    def coefficients(self) -> Ints:
        """The first column of C, in 256ths."""
        exact, found = 1.0, [ONE]
        for k in range(1, self.horizon):
            exact *= (k - 1 + self.eighths / 8) / k
            found.append(round(ONE * exact))
        column = np.array(found, dtype=np.int64)
        column.setflags(write=False)
        return column

    def row(self, place: int) -> Ints:
        """Returns what the tasks 1..place weigh in row `place` (from 1), in 256ths."""
        return self.coefficients[:place][::-1]

    def gamma(self, tasks_per_person: int = 1) -> float:
        """Returns by how much one person in so many tasks moves all rows of all epochs, rounded up."""
        largest = [0]
        for n in range(1, tasks_per_person + 1):
            alone = self._square_of_first(min(n, self.horizon))
            largest.append(max([alone, *(largest[p] + largest[n - p] for p in range(1, n // 2 + 1))]))
        return math.nextafter(math.sqrt(largest[-1]) / ONE, math.inf)

    def _square_of_first(self, n: int) -> int:
        """The squared norm of the sum of the first n columns, in squares of 256ths."""
        sums = np.cumsum(self.coefficients)
        sums[n:] -= sums[:-n]
        return int(sums @ sums)

    def information(self, places: int) -> float:
        """Returns what the rows 1..places tell of a class spread evenly over them, against independent noise.

        >>> round(Correlation(2, 12).information(12), 2)
        2.52
        """
        sums = np.cumsum(self.coefficients[:places]) / ONE
        return float(sums @ sums) / (self.gamma() ** 2 * places)

    def inverse_row(self, place: int) -> Look:
        """Returns the statistic that estimates the task at this place alone: row `place` of C^-1."""
        return _look(self._inverse[:place], self.coefficients[:place])

    def inverse_prefix(self, place: int) -> Look:
        """Returns the statistic that estimates all tasks up to this place together: the sum of rows of C^-1."""
        return _look(np.cumsum(self._inverse)[:place], self.coefficients[:place])

    @cached_property
    def _inverse(self) -> npt.NDArray[np.float64]:
        """The first column of C^-1."""
        c = (self.coefficients / ONE).tolist()
        found = [1.0]
        for k in range(1, self.horizon):
            found.append(-math.fsum(c[j] * found[k - j] for j in range(1, k + 1)))
        return np.array(found)


@lru_cache(maxsize=64)
def matrix(eighths: int, horizon: int) -> Correlation:
    """Returns the matrix with what was computed of it before.

    >>> matrix(2, 120) is matrix(2, 120)
    True
    """
    return Correlation(eighths, horizon)


def _look(newest_first: npt.NDArray[np.float64], coefficients: Ints) -> Look:
    """Rounds weights, and computes what becomes of them exactly."""
    rounded = np.rint(newest_first * LOOK_ONE).astype(np.int64)
    added = np.convolve(rounded, coefficients)[: len(rounded)]
    squares = sum(weight * weight for weight in rounded.tolist())
    deviation = math.nextafter(math.sqrt(squares) / LOOK_ONE, math.inf)
    return Look(tuple(rounded[::-1].tolist()), int(added.max()), deviation, float(np.abs(rounded).sum()) / 2)


def default_eighths(tasks_per_person: int, recurring: bool | None = None) -> int:
    """Returns the exponent for public facts: in how many tasks a person may be, and whether labels are known to recur.

    0 means that correlated noise gains nothing: a person in all tasks moves all rows, whatever C is.

    >>> default_eighths(1), default_eighths(1, recurring=True), default_eighths(3), default_eighths(5)
    (2, 3, 1, 0)
    """
    if tasks_per_person == 1:
        return 3 if recurring else 2
    return 1 if tasks_per_person <= MOST_TASKS_PER_PERSON else 0
