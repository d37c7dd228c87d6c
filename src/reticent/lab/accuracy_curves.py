"""Measures the curves that `reticent plan --like` shows: accuracy by class size and by class size over noise.

    python -m reticent.lab.accuracy_curves --data data/ --out src/reticent/privacy/accuracy_curves.json

Public data sets, seeded noise, NOT PRIVATE. Every label has the same number of examples, all of them in one of ten
tasks of disjoint labels; labels are public and have no names. What is stored is the share of test examples that were
answered rightly after the last task, and nothing of the data.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reticent import __version__, encoders, errors
from reticent.budget import Budget
from reticent.classifier import ContinualClassifier
from reticent.gate.noise import NoiseSource
from reticent.lab.data import datasets
from reticent.labels import in_public_order
from reticent.policies import PublicLabels, ReleasedLabels
from reticent.privacy import accounting, events

COMMAND = "python -m reticent.lab.accuracy_curves --data data/ --out src/reticent/privacy/accuracy_curves.json"
SETS = (datasets.CLINC150, datasets.CIFAR100, datasets.ICD10CM_BLOCKS)
SIZES = (10, 30, 100)
SIGNALS = (4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 100.0)  # class size over noise
RELEASED = ((40, 1.0), (100, 0.5), (100, 1.0))  # class size and epsilon where labels are released, to check the guess
TASKS, DELTA, MOST_TESTS = 10, 1e-5, 30


def accuracy(
    features: Any, labels: Any, train: Any, test: Any, *, size: int, budget: Budget, released: bool, seed: int
) -> float:
    """Returns the accuracy after a stream in which each label has `size` examples.

    Args:
        features: Of all examples.
        labels: Of all examples.
        train: Rows to learn from; each of their labels has at least `size`.
        test: Rows to test on.
        size: Examples of each label.
        budget: Of the stream.
        released: Whether labels are released; else all are public.
        seed: Of the sample, the order of labels and the noise.
    """
    draw = np.random.default_rng([seed, size])
    names = draw.permutation(np.unique(labels[train]))
    model = ContinualClassifier(
        labels=ReleasedLabels() if released else PublicLabels(in_public_order(names.tolist())),
        budget=budget,
        noise=NoiseSource.seeded(seed),
    )
    for number, part in enumerate(np.array_split(names, TASKS)):
        rows = [draw.choice(train[labels[train] == name], size, replace=False) for name in part]
        mine = np.concatenate(rows)
        with errors.silenced():  # that no label is known is a result here
            model.learn_task(features[mine], labels[mine].tolist(), name=f"task {number + 1}")
    return model.score(features[test], labels[test].tolist())


def budget_of(noise: float) -> Budget:
    """Returns the budget whose Gaussian has this noise on a sum of unit vectors.

    >>> round(budget_of(3.7306).epsilon, 3)
    1.0
    """
    spent = accounting.epsilon(events.Gaussian(noise_multiplier=noise), DELTA) * (1 + 1e-9)
    return Budget(epsilon=min(spent, errors.LARGEST_EPSILON - 1), delta=DELTA)


def curve(data: datasets.Data, *, sizes: Sequence[int] = SIZES, seeds: Sequence[int] = (0, 1)) -> dict[str, Any]:
    """Returns the curve of one data set: the mean over seeds, by class size and signal."""
    inputs = [*data.inputs, *data.unseen_inputs]
    encoder = None if data.encoder is None else encoders.named(data.encoder)
    features = np.asarray(inputs if encoder is None else encoder(inputs), dtype=np.float32)
    labels = np.concatenate([data.labels, data.unseen_labels])
    parts = {seed: _parts(data, labels, max(sizes), seed) for seed in seeds}

    def mean(size: int, budget: Budget, released: bool) -> float:
        found = [
            accuracy(features, labels, *parts[seed], size=size, budget=budget, released=released, seed=seed)
            for seed in seeds
        ]
        return round(float(np.mean(found)), 4)

    return {
        "data": data.name,
        "digest": datasets.digest(data),
        "labels": len(np.unique(labels[parts[seeds[0]][0]])),
        "features": data.encoder or "as stored",
        "sizes": list(sizes),
        "signals": list(SIGNALS),
        "seeds": len(seeds),
        "accuracy": [[mean(size, budget_of(size / signal), False) for signal in SIGNALS] for size in sizes],
        "released": [
            {"size": size, "epsilon": e, "accuracy": mean(size, Budget(epsilon=e, delta=DELTA), True)}
            for size, e in RELEASED
        ],
    }


def _parts(data: datasets.Data, labels: Any, most: int, seed: int) -> tuple[Any, Any]:
    """Returns rows to learn from, of labels that have enough of them, and as many to test on for each label."""
    train, test = data.rows(seed)
    enough = [name for name in np.unique(labels[train]) if (labels[train] == name).sum() >= most]
    draw = np.random.default_rng([seed, 2])
    chosen = [draw.permutation(test[labels[test] == name])[:MOST_TESTS] for name in enough]
    return train[np.isin(labels[train], enough)], np.concatenate(chosen)


def curves(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields the curves of all data sets in a folder."""
    for name in SETS:
        yield curve(datasets.load(name, folder))


def main() -> None:
    """Measures all curves and writes them with where they come from."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets of the benchmark")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    given = parser.parse_args()
    facts = {
        "made_by": COMMAND,
        "version": __version__,
        "tasks": TASKS,
        "learner": "cosine",
        "curves": list(curves(given.data)),
    }
    given.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
