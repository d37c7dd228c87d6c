"""Usual rows take one pass over memory; a second look is for the few that need it."""

import numpy as np

from reticent.gate import grid
from reticent.gate.label_sums import sum_by_label
from reticent.labels import LabelSpace


def test_usual_rows_are_not_looked_at_twice(monkeypatch):
    looked: list[int] = []
    snap = grid.snap

    def count(rows, **others):
        looked.append(len(rows))
        return snap(rows, **others)

    monkeypatch.setattr(grid, "snap", count)
    features = np.random.default_rng(0).normal(size=(500, 16))
    features[7] = 0.0
    sums = sum_by_label(features, ["a"] * 500, known=LabelSpace(("a",)), count_weight=0.0)
    assert np.abs(sums.known).sum() > 0
    assert 1 <= sum(looked) < 50
