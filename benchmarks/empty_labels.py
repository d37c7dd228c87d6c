"""Figures of docs/names.md that no run of the benchmark has: names alone, sums without noise, what silence costs.

    python benchmarks/empty_labels.py --data ../shared/data --out results/empty-labels

- Names alone: each test input goes to the label whose name's feature is nearest; no examples are read.
- Sums without noise: at ratio 100 blurry classes are too thin to be released; the exact sums of the others.
- What silence costs: streams that are drawn, with labels that never occur, under `by_evidence` as it is and with the
  limit below which a label is silent at zero; then CLINC150 among 15,000 labels under three limits.

Accuracy in %, medians of the seeds. Eight minutes on one core; what needs data that is missing is left out.
"""

from contests import on_one_thread

on_one_thread()

import argparse
import itertools
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
from replays import Replay

from reticent.budget import Budget
from reticent.lab.bench.run import Run
from reticent.lab.bench.workspace import Workspace, encoder_of
from reticent.lab.data.datasets import MissingData
from reticent.lab.data.streams import Stream
from reticent.numerics.rows import unit_or_zero
from reticent.policies import PublicLabels
from reticent.privacy import accounting
from reticent.released import evidence
from reticent.released.denoise import Blocks
from reticent.released.sums import Sums

Floats = npt.NDArray[np.floating[Any]]

CLASSES, EMPTY, TASKS, WIDTH, TESTS = 150, 1_350, 10, 384, 20
SIZES: dict[str, Callable[[np.random.Generator], npt.NDArray[np.int64]]] = {
    "half 150, half 15": lambda draw: np.where(np.arange(CLASSES) % 2, 150, 15),
    "1 to 300": lambda draw: draw.integers(1, 301, CLASSES),
}


def names_alone(data: str, place: Workspace) -> float:
    """Returns the accuracy of names without examples."""
    run = Run(data=data, learner="cosine", names=True)
    loaded = place.load(run)
    _, test = loaded.rows(run.seed)
    truth = np.concatenate([loaded.labels, loaded.unseen_labels])[test]
    labels = sorted(set(loaded.labels.tolist()))
    public = PublicLabels(labels, names=loaded.names)
    called = [public.name(label) or "" for label in labels]
    features = unit_or_zero(np.asarray(encoder_of(loaded)(called)))
    return _accuracy(features, place.features(run)[test], np.array(labels), truth)


def without_noise(seed: int, place: Workspace) -> float:
    """Returns the accuracy of exact sums of the classes that have a task of their own, CLINC150, ratio 100."""
    run = Run(data="clinc150", learner="cosine", seed=seed)
    loaded = place.load(run)
    train, test = loaded.rows(seed)
    names, features = np.concatenate([loaded.labels, loaded.unseen_labels]), unit_or_zero(place.features(run))
    table = Stream(tasks=TASKS, ratio=1.0, blurry=0.5, seed=seed).examples(names[train])
    kept = np.unique(names[train])[(table > 0).sum(axis=1) == 1]
    sums = np.stack([features[train][names[train] == label].sum(axis=0) for label in kept])
    return _accuracy(unit_or_zero(sums), features[test], kept, names[test])


def _accuracy(weights: Floats, inputs: Floats, labels: npt.NDArray[np.str_], truth: npt.NDArray[np.str_]) -> float:
    return 100 * float((labels[(inputs @ weights.T).argmax(axis=1)] == truth).mean())


def drawn(sizes: str, empty: int, seed: int, *, spread: bool) -> tuple[Blocks, Floats]:
    """Returns noisy sums of classes that are drawn, and inputs of each class to tell apart, in its order.

    Args:
        sizes: Of the classes; one of `SIZES`.
        empty: Labels without examples.
        seed: Of all draws.
        spread: Every class evenly over all tasks; else each in one task.
    """
    draw = np.random.default_rng(seed)
    sigma = accounting.gaussian_sigma(Budget(epsilon=8.0, delta=1e-5))
    means = unit_or_zero(draw.normal(size=(CLASSES, WIDTH))) * evidence.CLASS_LENGTH
    around = np.sqrt((1 - evidence.CLASS_LENGTH**2) / WIDTH)
    share = np.full((CLASSES, TASKS), 1 / TASKS) if spread else np.eye(TASKS)[np.arange(CLASSES) % TASKS]
    counts = SIZES[sizes](draw)[:, None] * share
    sums = np.zeros((CLASSES + empty, TASKS, WIDTH), np.float32)
    sums[:CLASSES] = counts[:, :, None] * means[:, None] + around * np.sqrt(counts)[:, :, None] * draw.normal(
        size=(CLASSES, TASKS, WIDTH)
    )
    sums += draw.normal(scale=sigma, size=sums.shape)
    inputs = np.repeat(means, TESTS, axis=0) + around * draw.normal(size=(CLASSES * TESTS, WIDTH))
    return Blocks(sums, np.full(sums.shape[:2], sigma), len(sums)), inputs


def silenced(blocks: Blocks, inputs: Floats) -> tuple[float, float]:
    """Returns the accuracy without the rule that some labels are silent, and with it."""
    with mock.patch.object(evidence, "_SILENT", 0.0):
        found = [evidence.by_evidence(blocks)]
    found.append(evidence.by_evidence(blocks))
    truth = np.repeat(np.arange(CLASSES), TESTS)
    without, ruled = (100 * float((_scores(w, inputs).argmax(axis=1) == truth).mean()) for w in found)
    return without, ruled


def _scores(weights: Floats, inputs: Floats) -> Floats:
    scores = inputs @ weights.T
    scores[:, ~weights.any(axis=1)] = -np.inf  # labels without a direction may not win
    return scores


def limits(seed: int, place: Workspace) -> list[float]:
    """Returns the accuracy on CLINC150 among 15,000 labels, ratio 100: no limit, a fifth and half a percent."""
    run = Run(data="clinc150", learner="cosine", labels="public-100x", epsilon=1.0, ratio=100.0, seed=seed)
    replay = Replay.of(run, place)
    made = []
    for limit in (0.0, 0.002, 0.005):
        with mock.patch.object(evidence, "_SILENT_IN_LARGE_SPACES", limit):
            found = Sums().directions(replay.model.releases, replay.model.directory.model.labels)
        x = unit_or_zero(replay.inputs) - found.centre
        made.append(replay.average(replay.labels(found.rows)[(x @ found.weights.T).argmax(axis=1)]))
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/empty-labels"), help="where features are kept")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args(arguments)
    place, seeds = Workspace(given.data, given.out), range(given.seeds)

    def say(words: str, of_seeds: Iterable[Sequence[float]]) -> None:
        try:
            made = list(of_seeds)
        except MissingData as error:
            print(error, file=sys.stderr)
            return
        medians = ", ".join(f"{statistics.median(column):.1f}" for column in zip(*made, strict=True))
        print(f"{words}: {medians}", flush=True)

    for data in ("clinc150", "icd10cm-blocks"):
        say(f"names alone, {data}", ([names_alone(data, place)] for _ in range(1)))
    say("sums without noise, CLINC150, released, ratio 100", ([without_noise(seed, place)] for seed in seeds))
    for sizes, (empty, spread) in itertools.product(SIZES, ((EMPTY, True), (0, True), (EMPTY, False))):
        words = f"classes of {sizes}, {empty} empty, {'spread evenly' if spread else 'each in one task'}"
        say(
            f"{words}: without silence, with it",
            (silenced(*drawn(sizes, empty, seed, spread=spread)) for seed in seeds),
        )
    say(
        "CLINC150 among 15,000 labels, ratio 100, epsilon 1: limit 0, 0.2 %, 0.5 %",
        (limits(seed, place) for seed in seeds),
    )


if __name__ == "__main__":
    main()
