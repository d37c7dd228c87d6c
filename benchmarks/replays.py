"""Runs of the benchmark once more, with the model at hand: the rows of the tables keep accuracies alone."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.classifier import ContinualClassifier
from reticent.gate.noise import NoiseSource
from reticent.lab.baselines.oracles import experiment
from reticent.lab.bench.catalogue import learner_of
from reticent.lab.bench.measures import Assigned
from reticent.lab.bench.one_run import environment, policy_of
from reticent.lab.bench.run import Run
from reticent.lab.bench.versions import version_of
from reticent.lab.bench.workspace import Workspace

ALL = 100.0  # % of the classes are blurry: no task has labels of its own
RESULTS = Path(__file__).parents[1] / "docs" / "results"


def store(script: Path, lines: Sequence[Sequence[str]], command: str, *, learners: Sequence[str]) -> None:
    """Writes a table of a script into `docs/results/`, with the command and the versions of the learners.

    Args:
        script: Which one.
        lines: The table, its headings first.
        command: What was called.
        learners: Whose runs were made again.
    """
    versions = {learner: version_of(learner) for learner in learners}
    made = {"versions": versions, "command": command, "environment": environment(), "lines": lines}
    (RESULTS / f"{script.stem.replace('_', '-')}.json").write_text(json.dumps(made, indent=1), encoding="utf-8")


def show(line: Sequence[str]) -> None:
    """Prints a line of a table as Markdown, at once."""
    print("| " + " | ".join(line) + " |", flush=True)


def called(script: Path) -> str:
    """Returns the command of this process, without the places of data and results."""
    words = iter(sys.argv[1:])
    given = [word for word in words if word not in ("--data", "--out") or not next(words)]
    return " ".join(["python", f"benchmarks/{script.name}", "--data", "DATA", *given])


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
