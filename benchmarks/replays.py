"""Runs of the benchmark once more, with the model at hand: the rows of the tables keep accuracies alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.classifier import ContinualClassifier
from reticent.gate.noise import NoiseSource
from reticent.lab.baselines.oracles import experiment
from reticent.lab.bench.catalogue import learner_of
from reticent.lab.bench.measures import Assigned
from reticent.lab.bench.one_run import policy_of
from reticent.lab.bench.run import Run
from reticent.lab.bench.workspace import Workspace

ALL = 100.0  # % of the classes are blurry: no task has labels of its own


@dataclass(frozen=True)
class Replay:
    """A run with nothing to tune, learned again with its seeds of data and noise.

    Args:
        run: Which one.
        model: What has learned its stream.
        homes: The task that each label is at home in.
        inputs: Features of the test part.
        truth: Their labels.
    """

    run: Run
    model: ContinualClassifier
    homes: Mapping[str, int]
    inputs: npt.NDArray[np.floating[Any]]
    truth: npt.NDArray[np.str_]

    @classmethod
    def of(cls, run: Run, place: Workspace) -> "Replay":
        """Learns the stream of a run."""
        data = place.load(run)
        train, test = data.rows(run.seed)
        names, features = np.concatenate([data.labels, data.unseen_labels]), place.features(run)
        stream = Assigned(run, data, names[train])
        learner = learner_of(run, max(1, len(train) // run.tasks), tuned=lambda peft: peft)
        model = experiment(learner, policy_of(run, data), budget=run.budget)
        for t in range(run.tasks):
            rows = train[stream.task == t]
            model.set_params(noise=NoiseSource.seeded(int(run.digest, 16) % 2**60 + t))
            model.learn_task(features[rows], names[rows].tolist(), name=f"task {t + 1}")
        return cls(run, model, stream.homes, features[test], names[test])

    def labels(self, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.str_]:
        """Returns the labels at some rows of the model's label space."""
        space = self.model.directory.model.labels.labels
        return np.array([str(space[row]) for row in rows])

    def average(self, called: npt.NDArray[np.str_]) -> float:
        """Returns the accuracy of answers to `inputs` in %: the average over tasks, as in the tables."""
        right = called == self.truth
        if self.run.blurry == ALL:
            return 100 * float(right.mean())
        at = np.array([self.homes[label] for label in self.truth.tolist()])
        return 100 * float(np.mean([right[at == t].mean() for t in range(self.run.tasks)]))
