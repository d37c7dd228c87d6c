"""Average accuracy and forgetting of an accuracy matrix."""

import numpy as np
import pytest

from reticent.lab.evaluation import AccuracyMatrix


def test_average_accuracy_and_forgetting():
    values = np.array([[0.9, np.nan, np.nan], [0.8, 0.7, np.nan], [0.85, 0.9, 0.6]])
    matrix = AccuracyMatrix(values)
    assert matrix.average_accuracy == pytest.approx((0.85 + 0.9 + 0.6) / 3)
    assert matrix.forgetting == pytest.approx(((0.9 - 0.85) + (0.7 - 0.9)) / 2)
    assert AccuracyMatrix(np.array([[0.5]])).forgetting == 0.0
    assert matrix.forgetting_after_each_task.tolist() == pytest.approx([0.0, 0.9 - 0.8, matrix.forgetting])
