"""How far `predict_proba` is off: the expected calibration error on public data, as a table for docs/sklearn.md.

Run `python benchmarks/calibration.py DATA OUT`, with the folder of data sets and a results folder where features are
kept; a third argument names the data sets, separated by commas. Budgets, streams and seeds are fixed here, and noise is
seeded: the same table each time.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import reticent as rt
from reticent.gate.noise import NoiseSource
from reticent.lab.bench.run import Run
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data.streams import Stream
from reticent.lab.evaluation import calibration_error

DATA = ("clinc150", "cifar100-features", "icd10cm")
LEARNERS: dict[str, rt.Cosine | rt.PeftEnsemble] = {
    "Cosine": rt.Cosine(),
    "PeftEnsemble": rt.PeftEnsemble(task_size=1_500),
}
SETTINGS = ((0.5, 0.0), (1.0, 0.0), (8.0, 0.0), (1.0, 1.0), (8.0, 1.0))  # epsilon, ratio
TASKS = 10


def line(name: str, learner: str, epsilon: float, ratio: float, workspace: Workspace) -> str:
    """Learns a stream and returns a row of the table."""
    run = Run(data=name, learner="cosine")
    data, features = workspace.load(run), np.asarray(workspace.features(run))
    train, test = data.rows(0)
    labels = np.concatenate([data.labels, data.unseen_labels])
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(sorted(set(labels.tolist()))),
        learner=LEARNERS[learner],
        budget=rt.Budget(epsilon=epsilon, delta=1e-5),
        noise=NoiseSource.seeded(0),
    )
    for task, x, y in Stream(tasks=TASKS, ratio=ratio).split(features[train], labels[train]):
        model.learn_task(x, y.tolist(), name=task)
    found = model.predict_proba(features[test])
    right: npt.NDArray[np.bool_] = model.classes_[found.argmax(axis=1)] == labels[test]
    sure = found.max(axis=1)
    numbers = [right.mean(), sure.mean(), calibration_error(sure, right)]
    return f"| {name} | {learner} | {epsilon:g} | {100 * ratio:g} | {' | '.join(f'{100 * n:.1f}' for n in numbers)} |"


def main() -> None:
    """Prints the table."""
    workspace = Workspace(Path(sys.argv[1]), Path(sys.argv[2]))
    print("| data | learner | ε | ratio | accuracy | confidence | error |\n|---|---|---|---|---|---|---|")
    for name in sys.argv[3].split(",") if len(sys.argv) > 3 else DATA:
        for epsilon, ratio in SETTINGS:
            print(line(name, "Cosine", epsilon, ratio, workspace), flush=True)
        for epsilon in (1.0, 8.0):
            print(line(name, "PeftEnsemble", epsilon, 0.0, workspace), flush=True)


if __name__ == "__main__":
    main()
