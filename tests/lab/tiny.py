"""Experiments in milliseconds: features of a few clusters in the file format of real ones, and made-up results."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reticent.lab.bench.one_run import FORMAT
from reticent.lab.bench.run import Run
from reticent.lab.bench.versions import version_of
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data.datasets import Data

DATA = "cifar100-features"
CLASSES, WIDTH, TASKS = 6, 16, 3


def write_features(folder: Path, *, each: int = 40, unseen: int = 12) -> Path:
    """Writes overlapping clusters where the loader expects the features of CIFAR-100."""
    draw = np.random.default_rng(0)
    centres = draw.integers(60, 180, size=(CLASSES, WIDTH))

    def part(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.repeat(np.arange(CLASSES), n)
        x = centres[y] + draw.normal(0, 45, size=(len(y), WIDTH))
        return np.clip(x, 0, 255).astype(np.uint8), y

    (x, y), (x_test, y_test) = part(each), part(unseen)
    names = np.array([f"class {i}" for i in range(CLASSES)])
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "cifar100_efficientnet_lite0.npz"
    np.savez(file, x_train=x, y_train=y, x_test=x_test, y_test=y_test, classes=names, scale=np.float32(1 / 64))
    return folder


def a_run(**fields: Any) -> Run:
    return Run(**{"data": DATA, "learner": "cosine", "epsilon": 8.0, "tasks": TASKS, **fields})


@dataclass(frozen=True)
class Given(Workspace):
    """A workspace whose data is at hand."""

    given: Data

    def load(self, run: Run) -> Data:
        return self.given

    def digest(self, run: Run) -> str:
        return "0" * 64


def done(run: Run, accuracy: float, **others: Any) -> dict[str, Any]:
    """A result in the shape of a real one."""
    return {
        "format": FORMAT,
        "private": False,
        "run": asdict(run),
        "name": run.name,
        "status": "done",
        "error": None,
        "version": version_of(run.learner),
        "accuracy": accuracy,
        "forgetting": None,
        "matrix": [],
        "curve": [accuracy] * run.tasks,
        "aggregations": {},
        "known": 0,
        "classes": None,
        "seconds": {"learn": 2.0, "evaluate": 1.0, "processor": 3.0},
        "spent": {"epsilon": run.epsilon, "delta": 1e-5, "statement": "", "ledger": []},
        "environment": {"python": "3", "machine": "m", "cores": 2, "threads": "1", "versions": {}},
        "command": "reticent bench mine",
        "digests": {"data": "", "learner": ""},
        **others,
    }


def by_digest(results: list[dict[str, Any]]) -> Mapping[str, dict[str, Any]]:
    return {Run(**result["run"]).digest: result for result in results}
