"""What a model stores and what a task takes, beside the paper's formulas: the table of docs/reproducing-the-paper.md.

    python benchmarks/storage.py             # sums and heads: seconds
    python benchmarks/storage.py --film      # also FiLM through a ViT-B/16 with random weights: minutes, 1 GB of memory

Streams have the shape of Split-CIFAR-100 with the labels of the base data set: ten tasks, a hundred labels, 768
features. Features are random: neither sizes nor times depend on them. Seconds are processor time of one thread.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import reticent as rt
from reticent.encoders.adapters import film, last_layer
from reticent.released.model import Model

TASKS, LABELS, WIDTH, EACH = 10, 100, 768, 5_000
TESTED = 10_000
FILM = 38_400  # scale and bias of the 25 LayerNorms of ViT-B/16, as the paper counts them
BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
SPACE = rt.PublicLabels([f"label {i}" for i in range(LABELS)])
HEADS = TASKS * (LABELS * WIDTH + LABELS)


def task(seed: int) -> tuple[np.ndarray, list[str]]:
    """Returns the random features of a task of ten labels."""
    x = np.random.default_rng(seed).normal(size=(EACH, WIDTH)).astype(np.float32)
    return x, [f"label {10 * seed + i % 10}" for i in range(EACH)]


def stored(model: Model, folder: Path) -> tuple[int, int]:
    """Returns how many numbers the releases hold, and the bytes of their files."""
    numbers = sum(value.size for release in model.releases for value in release.parameters.values())
    return numbers, sum(file.stat().st_size for file in (folder / "releases").iterdir())


def measured(learner: Any, folder: Path) -> dict[str, float]:
    """Learns the stream, and returns what it takes."""
    model = rt.ContinualClassifier(labels=SPACE, learner=learner, budget=BUDGET, path=folder)
    model.learn_task(*task(0), name="0")  # compiles
    started = time.process_time()
    for t in range(1, TASKS):
        model.learn_task(*task(t), name=f"{t}")
    learn = (time.process_time() - started) / (TASKS - 1)
    x = np.random.default_rng(99).normal(size=(TESTED, WIDTH)).astype(np.float32)
    model.predict(x[:10])
    started = time.process_time()
    model.predict(x)
    predict = time.process_time() - started
    numbers, size = stored(model.directory.model, folder)
    return {"numbers": numbers, "bytes": size, "learn": learn, "predict": predict}


def through_vit(folder: Path) -> dict[str, float]:
    """Learns one task of a few random images with FiLM through ViT-B/16, and returns what ten of them take."""
    import torch
    from transformers import ViTConfig, ViTImageProcessorPil, ViTModel

    torch.manual_seed(0)
    ViTModel(ViTConfig(), add_pooling_layer=False).save_pretrained(folder / "vit")
    ViTImageProcessorPil().save_pretrained(folder / "vit")
    encoder = rt.encoders.hf(folder / "vit")
    learner = rt.PeftEnsemble.paper(adapter=film, task_size=4, rate=1.0, epochs=1)
    model = rt.ContinualClassifier(labels=SPACE, learner=learner, budget=BUDGET, path=folder / "model", encoder=encoder)
    images = [np.random.default_rng(i).integers(0, 256, size=(32, 32, 3), dtype=np.uint8) for i in range(4)]
    model.learn_task(images, [f"label {i}" for i in range(4)], name="0")
    numbers, size = stored(model.directory.model, folder / "model")
    return {"numbers": TASKS * numbers, "bytes": TASKS * size}  # times of random weights on a CPU would tell nothing


def rows(with_film: bool) -> list[tuple[str, str, int, dict[str, float]]]:
    """Returns what is compared: name, the paper's formula, its value, what was measured."""
    sums = f"K O = {LABELS * WIDTH:,}"
    heads = f"T (O K + O) = {HEADS:,}"
    learners: list[tuple[str, str, int, Callable[[Path], dict[str, float]]]] = [
        ("`Cosine.paper()`", sums, LABELS * WIDTH, lambda to: measured(rt.Cosine.paper(), to)),
        ("`Cosine()`", sums, LABELS * WIDTH, lambda to: measured(rt.Cosine(), to)),
        (
            "`PeftEnsemble.paper(adapter=last_layer)`",
            heads,
            HEADS,
            lambda to: measured(rt.PeftEnsemble.paper(adapter=last_layer, task_size=EACH), to),
        ),
        ("`PeftEnsemble()`", heads, HEADS, lambda to: measured(rt.PeftEnsemble(task_size=EACH), to)),
    ]
    if with_film:
        formula = f"{heads.split(' =')[0]} + T F = {HEADS + TASKS * FILM:,}"
        learners.append(("`PeftEnsemble.paper()`, FiLM, ViT-B/16", formula, HEADS + TASKS * FILM, through_vit))
    found = []
    for name, formula, value, make in learners:
        with tempfile.TemporaryDirectory() as folder:
            found.append((name, formula, value, make(Path(folder) / "at")))
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--film", action="store_true")
    print("| learner | the paper keeps | numbers in our releases | files | a task | 10,000 predictions |")
    print("|---|---|---|---|---|---|")
    for name, formula, value, found in rows(parser.parse_args().film):
        times = f"{found['numbers']:,.0f} ({found['numbers'] / value:.2f}x)"
        learn, predict = (f"{found[key]:.2f} s" if key in found else "-" for key in ("learn", "predict"))
        print(f"| {name} | {formula} | {times} | {found['bytes'] / 1e6:.1f} MB | {learn} | {predict} |")


if __name__ == "__main__":
    main()
