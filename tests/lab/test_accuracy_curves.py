"""The curves of `plan --like`: what one is made of, on a small data set."""

import numpy as np
import pytest

from reticent import Budget
from reticent.lab import accuracy_curves
from reticent.lab.data.datasets import Data
from reticent.privacy import accounting


@pytest.fixture(scope="module")
def data():
    """Twelve labels with thirty examples each in twelve dimensions, far apart; one label has too few."""
    draw = np.random.default_rng(0)
    labels = np.array([f"label {i:02}" for i in range(12) for _ in range(45)] + ["rare"] * 5)
    centres = np.vstack([np.eye(12) * 6, np.ones((1, 12))])
    inputs = centres[np.repeat(np.arange(13), [45] * 12 + [5])] + draw.normal(size=(len(labels), 12))
    return Data("toy", inputs.astype(np.float32), labels, inputs[:0].astype(np.float32), labels[:0], held_out=0.2)


def test_a_curve_rises_with_the_signal_and_leaves_rare_labels_out(data, monkeypatch):
    monkeypatch.setattr(accuracy_curves, "SIGNALS", (1.0, 30.0))
    monkeypatch.setattr(accuracy_curves, "RELEASED", ((30, 0.2),))
    found = accuracy_curves.curve(data, sizes=(10, 30), seeds=(0,))
    assert found["labels"] == 12
    assert found["sizes"] == [10, 30]
    for low, high in found["accuracy"]:
        assert low < 0.9 < high
    assert found["released"] == [{"size": 30, "epsilon": 0.2, "accuracy": 0.0}]  # far too few to be released


def test_the_budget_of_a_signal_has_its_noise():
    for noise in (0.5, 3.0, 40.0):
        assert accounting.gaussian_sigma(accuracy_curves.budget_of(noise)) == pytest.approx(noise, rel=1e-6)
    assert isinstance(accuracy_curves.budget_of(1e-3), Budget)  # more than any budget allows: as little as there is
