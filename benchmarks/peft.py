"""PEFT Ensemble beside Cosine, Naive, Non-CL and Desai et al.: one resumable run per method, budget and seed.

    python benchmarks/peft.py run DATA RUNS film|last_layer [CELL ...]      # a cell is method:epsilon:seed
    python benchmarks/peft.py page RUNS docs/peft.md

DATA is a folder with clinc150_data_full.json and cifar100_efficientnet_lite0.npz. RUNS keeps a model directory for each
run, so a run that was killed goes on with the task it was at, and one JSON file for each that is done. Runs are seeded
and NOT PRIVATE.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import reticent as rt
from reticent.encoders import film, last_layer, minilm
from reticent.evaluation import AccuracyMatrix
from reticent.gate.noise import NoiseSource
from reticent.lab.streams import Stream

TASKS = 10
EPOCHS = {"film": 8, "last_layer": 20}
Texts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def clinc150(folder: Path) -> Texts:
    """CLINC150 as texts."""
    stored = json.loads((folder / "clinc150_data_full.json").read_text())
    parts: list[np.ndarray] = []
    for name in ("train", "test"):
        parts += [
            np.array([text for text, _ in stored[name]], dtype=object),
            np.array([label for _, label in stored[name]]),
        ]
    return parts[0], parts[1], parts[2], parts[3]
