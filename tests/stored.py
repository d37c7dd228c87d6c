"""Models in folders, for tests: two labels that are easy to tell apart."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
LABELS = rt.PublicLabels(["a", "b"])
X = np.repeat(np.eye(2, 8), 20, axis=0)
Y = ["a"] * 20 + ["b"] * 20


def classifier(path: Path | None, **settings: Any) -> rt.ContinualClassifier:
    return rt.ContinualClassifier(labels=LABELS, budget=BUDGET, path=path, **settings)


def tasks_of(path: Path) -> list[str]:
    return [release.task for release in rt.load(path).releases]


def predicts(path: Path) -> bool:
    return rt.load(path).predict(np.eye(2, 8)).shape == (2,)


def refuses_to_learn(path: Path, sentence: str) -> bool:
    """Refuses with this sentence, and changes no file."""
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file() and "lock" not in file.name}
    with pytest.raises(errors.LedgerError, match=sentence):
        rt.load(path).learn_task(X, Y, name="new")
    return before == {f: f.read_bytes() for f in path.rglob("*") if f.is_file() and "lock" not in f.name}
