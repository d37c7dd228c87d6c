"""Accuracy of the Cosine learner on real features, the paper's and ours, as a page: docs/results.md.

    python benchmarks/cosine.py DATA docs/results.md

DATA is a folder with clinc150_data_full.json and cifar100_efficientnet_lite0.npz. Noise comes from the operating
system, so figures differ by some tenths from run to run; each is the median of three seeds of the class order.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import reticent as rt
from reticent.encoders import minilm
from reticent.lab.streams import Stream
from reticent.labels import Label

SEEDS = range(3)
RATIOS = (0.0, 0.5, 1.0)
Data = tuple[np.ndarray, list[Label], np.ndarray, list[Label]]


def clinc150(folder: Path) -> Data:
    """CLINC150 as MiniLM features."""
    stored = json.loads((folder / "clinc150_data_full.json").read_text())
    encoder = minilm()
    parts: list[Any] = []
    for name in ("train", "test"):
        parts += [encoder([text for text, _ in stored[name]]), [label for _, label in stored[name]]]
    x, y, x_test, y_test = parts
    return x, y, x_test, y_test


def cifar100(folder: Path) -> Data:
    """CIFAR-100 as EfficientNet-Lite0 features."""
    stored = np.load(folder / "cifar100_efficientnet_lite0.npz")
    scale = np.float32(stored["scale"])
    train, test = stored["x_train"] * scale, stored["x_test"] * scale
    return train, stored["y_train"].tolist(), test, stored["y_test"].tolist()


def accuracy(data: Data, policy: Any, learner: Any, *, epsilon: float, ratio: float, seed: int) -> float:
    """Learns a stream of ten tasks and returns the final accuracy in percent."""
    x, y, x_test, y_test = data
    model = rt.ContinualClassifier(labels=policy, learner=learner, budget=rt.Budget(epsilon=epsilon, delta=1e-5))
    for name, features, labels in Stream(tasks=10, ratio=ratio, seed=seed).split(x, np.asarray(y)):
        model.learn_task(features, labels, name=name)
    return 100 * model.score(x_test, y_test)


def median(data: Data, policy: Any, learner: Any, *, epsilon: float, ratio: float) -> float:
    """Returns the median over three seeds."""
    return statistics.median(accuracy(data, policy, learner, epsilon=epsilon, ratio=ratio, seed=seed) for seed in SEEDS)


def main_table(name: str, data: Data) -> list[str]:
    """Public and released labels, the paper's and ours, disjoint and blurry."""
    space: Sequence[Label] = sorted(set(data[1]), key=str)
    methods: dict[str, tuple[Callable[[], Any], Any]] = {
        "public labels, the paper's": (lambda: rt.PublicLabels(space), rt.Cosine.paper()),
        "public labels, ours": (lambda: rt.PublicLabels(space), rt.Cosine()),
        "released labels, the paper's (10 %)": (rt.ReleasedLabels.paper, rt.Cosine.paper()),
        "released labels, ours": (rt.ReleasedLabels, rt.Cosine()),
    }
    lines = [f"## {name}", "", "| epsilon | method | disjoint | ratio 50 | ratio 100 |", "|---|---|---|---|---|"]
    for epsilon in (1.0, 8.0):
        for method, (policy, learner) in methods.items():
            cells = [f"{median(data, policy(), learner, epsilon=epsilon, ratio=ratio):.1f}" for ratio in RATIOS]
            lines.append(f"| {epsilon:g} | {method} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return [*lines, ""]


def empty_labels_table(data: Data) -> list[str]:
    """Public labels that never occur: the guard and the live-label path."""
    space = sorted(set(data[1]), key=str)
    lines = ["## CLINC150 with labels that never occur (public, epsilon 1, disjoint, ours)", ""]
    lines += ["| labels that never occur | accuracy |", "|---|---|"]
    for extra in (0, 5_000, 1_000_000):
        policy = rt.PublicLabels([*space, *(f"never {i}" for i in range(extra))])
        lines.append(f"| {extra:,} | {median(data, policy, rt.Cosine(), epsilon=1.0, ratio=0.0):.1f} |")
        print(lines[-1], flush=True)
    return [*lines, ""]


def main() -> None:
    """Runs everything and writes the page."""
    folder, page = Path(sys.argv[1]), Path(sys.argv[2])
    started = time.monotonic()
    clinc = clinc150(folder)
    lines = [
        "# Results",
        "",
        "Written by `python benchmarks/cosine.py DATA docs/results.md`, never by hand. Accuracy in percent after ten",
        "tasks, delta 1e-5, half of the classes blurry, median of three seeds, noise from the operating system.",
        "",
        *main_table("CLINC150, MiniLM features", clinc),
        *empty_labels_table(clinc),
        *main_table("CIFAR-100, EfficientNet-Lite0 features", cifar100(folder)),
    ]
    lines.append(f"Took {(time.monotonic() - started) / 60:.0f} minutes on 2 cores.")
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
