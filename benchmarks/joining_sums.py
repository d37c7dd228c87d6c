"""Whether the way we join noisy sums is what our Cosine loses by: the same sums under both rules, as a Markdown table.

    python benchmarks/joining_sums.py --data ../shared/data --out results/joining-sums --store

The sums are those of the paper's Cosine. They are joined once as the paper does it (`total`) and once as ours does
(`by_evidence`), so that both have the same noise; then our learner, with noise of its own. Mean accuracy in %, and 95 %
intervals of the mean difference to `total`. Cells in which our Cosine is behind in `docs/results.md`, or was with fewer
seeds; half an hour on one core; cells whose data is missing are left out. With `--store` the table goes to
`docs/results/joining-sums.json`, from which `tables_in_documents.py` takes it.
"""

from contests import on_one_thread

on_one_thread()

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from replays import Replay, called, show, store
from scipy.stats import t as student

from reticent.lab.bench.run import Run
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data.datasets import MissingData
from reticent.numerics.rows import unit_or_zero
from reticent.released import denoise
from reticent.released.evidence import by_evidence
from reticent.released.sums import Sums

MANY = 60
CELLS: dict[str, dict[str, Any]] = {
    "digits, epsilon 1, Label Oracle": {"data": "digits", "labels": "oracle", "epsilon": 1.0, "tasks": 5},
    "digits, epsilon 8, Release Labels": {"data": "digits", "labels": "released", "epsilon": 8.0, "tasks": 5},
    "digits, ratio 100, epsilon 1, Public Labels 1000x": {
        "data": "digits",
        "labels": "public-1000x",
        "epsilon": 1.0,
        "tasks": 5,
        "ratio": 100.0,
    },
    "phenotypes, epsilon 8, Release Labels": {"data": "phenotypes", "labels": "released", "epsilon": 8.0},
    "CLINC150, epsilon 1, all labels in all of sixty tasks": {  # twice as many seeds: they differ more
        "data": "clinc150",
        "labels": "base",
        "epsilon": 1.0,
        "tasks": MANY,
        "ratio": 100.0,
        "blurry": 100.0,
    },
}
SHARE = 10.0  # of the budget for labels, in %: the paper's best in these cells, chosen with a look at the test data


def accuracy(replay: Replay, rule: Sums) -> float:
    """Returns the accuracy of the sums of a replay under a rule."""
    found = rule.directions(replay.model.releases, replay.model.directory.model.labels)
    if not len(found.rows):
        return 0.0
    x = unit_or_zero(replay.inputs) - found.centre
    return replay.average(replay.labels(found.rows)[(x @ found.weights.T).argmax(axis=1)])


def accuracies(seed: int, fields: dict[str, Any], place: Workspace) -> list[float]:
    """Returns the accuracy of the paper's sums under both rules, and of our learner."""
    share = SHARE if fields["labels"] == "released" else None
    theirs = Replay.of(Run(learner="cosine-paper", seed=seed, share=share, **fields), place)
    mine = Replay.of(Run(learner="cosine", seed=seed, **fields), place)
    return [
        accuracy(theirs, Sums(denoise.total)),
        accuracy(theirs, Sums(by_evidence)),
        accuracy(mine, Sums(by_evidence)),
    ]


def interval(apart: Sequence[float]) -> str:
    """Returns the 95 % interval of a mean."""
    mean = statistics.mean(apart)
    around = float(student.ppf(0.975, len(apart) - 1)) * statistics.stdev(apart) / math.sqrt(len(apart))
    return f"{mean - around:+.1f} to {mean + around:+.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/joining-sums"), help="where features are kept")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--only", default="", help="cells whose name has this in it")
    parser.add_argument("--store", action="store_true", help="write the table into docs/results/")
    given = parser.parse_args(arguments)
    place = Workspace(given.data, given.out)
    lines = [
        ["", "seeds", "`total`, as the paper", "`by_evidence`, as ours", "difference", "our learner", "difference"]
    ]
    show(lines[0])
    show(["---"] * len(lines[0]))
    for name, fields in CELLS.items():
        if given.only not in name:
            continue
        seeds = given.seeds * (2 if fields.get("tasks") == MANY else 1)
        try:
            made = [accuracies(seed, fields, place) for seed in range(seeds)]
        except MissingData as error:
            print(error, file=sys.stderr)
            continue
        total, evidence, ours = zip(*made, strict=True)
        means = [f"{statistics.mean(values):.1f}" for values in (total, evidence, ours)]
        apart = [interval(np.subtract(values, total).tolist()) for values in (evidence, ours)]
        lines.append([name, f"{seeds}", means[0], means[1], apart[0], means[2], apart[1]])
        show(lines[-1])
    if given.store:
        store(Path(__file__), lines, called(Path(__file__)), learners=["cosine-paper", "cosine"])


if __name__ == "__main__":
    main()
