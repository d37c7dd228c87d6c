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
    def forgetting_after_each_task(self) -> Floats:
        """Mean over earlier tasks of the best accuracy they had before minus that of now, after each task; first 0.

        >>> AccuracyMatrix(np.array([[0.9, np.nan], [0.7, 0.8]])).forgetting_after_each_task.round(3).tolist()
        [0.0, 0.2]
        """
        lost = (np.nanmax(self.values[:t, :t], axis=0) - row[:t] for t, row in enumerate(self.values) if t)
        return np.array([0.0, *(float(np.mean(each)) for each in lost)])

    @property
    def forgetting(self) -> float:
        """That after the last task; 0 for a single one."""
        return float(self.forgetting_after_each_task[-1])


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
