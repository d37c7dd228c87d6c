"""Accuracy matrix, average accuracy and forgetting, as the paper defines them; calibration."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AccuracyMatrix:
    """Accuracy on the test data of task i after learning task t: `values[t, i]`, NaN before task i was learned.

    Example:
        >>> matrix = AccuracyMatrix(np.array([[0.9, np.nan], [0.7, 0.8]]))
        >>> matrix.average_accuracy, round(matrix.forgetting, 3)
        (0.75, 0.2)
    """

    values: Floats

    @property
    def after_each_task(self) -> Floats:
        """Mean accuracy over the tasks seen so far, after each of them."""
        return np.array([np.mean(row[: t + 1]) for t, row in enumerate(self.values)])

    @property
    def average_accuracy(self) -> float:
        """Mean accuracy over all tasks after the last one."""
        return float(np.mean(self.values[-1]))

    @property
    def forgetting(self) -> float:
        """Mean over earlier tasks of the best accuracy they ever had minus the last one; 0 for a single task."""
        if len(self.values) < 2:
            return 0.0
        best = np.nanmax(self.values[:-1, :-1], axis=0)
        return float(np.mean(best - self.values[-1, :-1]))


def calibration_error(confidence: Floats, right: npt.NDArray[np.bool_], bins: int = 15) -> float:
    """Returns the expected calibration error of Guo et al. (2017): how far confidence is from accuracy, in bins of it.

    Args:
        confidence: The probability of each predicted label.
        right: Whether it was right.
        bins: How many, of equal width.

    Example:
        >>> round(calibration_error(np.array([0.9, 0.9, 0.2, 0.2]), np.array([True, True, False, False])), 3)
        0.15
    """
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gaps = [abs(float((confidence[place == b] - right[place == b]).sum())) for b in range(bins)]
    return sum(gaps) / max(1, len(right))
