"""What each step of `pooled` does to heads that are there: a Markdown table of accuracies.

    python benchmarks/joining_heads.py --data ../shared/data --out results/joining-heads --store

The heads are those of the benchmark's runs (the same seeds of data and noise), so the first and the last column are in
`docs/results/runs.parquet`, too. Between them the task that is a label's home is taken as known, which no rule knows:
the label's rows of that task as they are, then all of one length, then without the direction of an average input. What
the last step adds is to find the task, and lengths without their noise. Accuracy in %, medians of as many seeds as the
benchmark has; public labels, disjoint streams. Fifteen minutes on one core; cells whose data is missing are left out.
With `--store` the table goes to `docs/results/joining-heads.json`, from which `tables_in_documents.py` takes it.
"""

from contests import on_one_thread

on_one_thread()

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from replays import Replay, called, show, store

from reticent.lab.bench.run import Run
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data.datasets import MissingData
from reticent.numerics.rows import scaled
from reticent.released.heads import BIAS, DECOY, ROWS, WEIGHT, blocks_of_heads, pool

SEEDS = {"clinc150": 10, "digits": 20, "cifar100-features": 5}
COLUMNS = ("`argmax`", "home known", "of one length", "no average input", "`pooled`")
CELLS: dict[str, dict[str, Any]] = {
    "CLINC150, epsilon 1, a person in 10 tasks": {"data": "clinc150", "epsilon": 1.0, "persons": 10},
    "CLINC150, epsilon 1": {"data": "clinc150", "epsilon": 1.0},
    "digits, epsilon 1": {"data": "digits", "epsilon": 1.0, "tasks": 5},
    "digits, epsilon 8": {"data": "digits", "epsilon": 8.0, "tasks": 5},
    "digits, no privacy": {"data": "digits", "epsilon": None, "tasks": 5},
    "CIFAR-100 features, no privacy": {"data": "cifar100-features", "epsilon": None},
}

Floats = npt.NDArray[np.floating[Any]]


def accuracies(run: Run, place: Workspace) -> list[float]:
    """Returns the accuracy of a run's heads under each of `COLUMNS`."""
    replay = Replay.of(run, place)
    heads = [release.parameters for release in replay.model.releases]
    rows = np.unique(np.concatenate([head[ROWS] for head in heads])).astype(np.int64)
    known = replay.labels(rows)
    homes = np.array([replay.homes[label] for label in known.tolist()])
    length = replay.model.learner.rule.length  # type: ignore[union-attr]
    x = scaled(replay.inputs, length).astype(np.float32)

    def average(scores: Floats) -> float:
        return replay.average(known[scores.argmax(axis=1)])

    logits = np.stack([x @ np.asarray(head[WEIGHT], np.float32).T + np.asarray(head[BIAS]) for head in heads])
    own = np.stack([heads[home][WEIGHT][i] - heads[home][DECOY] for i, home in enumerate(homes)])
    without = blocks_of_heads(heads, rows, None).sums[np.arange(len(rows)), homes]
    weights = (own, _unit(own), _unit(without), pool(heads, rows)[WEIGHT])
    made = [average(logits.max(axis=0)), *(average(x @ np.asarray(weight).T) for weight in weights)]
    return [100 * round(value / 100, 6) for value in made]  # as rows have them


def _unit(rows: Floats) -> Floats:
    unit: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/joining-heads"), help="where features are kept")
    parser.add_argument("--store", action="store_true", help="write the table into docs/results/")
    given = parser.parse_args(arguments)
    place = Workspace(given.data, given.out)
    lines = [["public labels, disjoint", "seeds", *COLUMNS]]
    show(lines[0])
    show(["---"] * len(lines[0]))
    for name, fields in CELLS.items():
        seeds = SEEDS[fields["data"]]
        try:
            made = [accuracies(Run(learner="peft", seed=seed, **fields), place) for seed in range(seeds)]
        except MissingData as error:
            print(error, file=sys.stderr)
            continue
        medians = (f"{statistics.median(column):.1f}" for column in zip(*made, strict=True))
        lines.append([name, f"{seeds}", *medians])
        show(lines[-1])
    if given.store:
        store(Path(__file__), lines, called(Path(__file__)), learners=["peft"])


if __name__ == "__main__":
    main()
