"""PEFT Ensemble beside Cosine, Naive, Non-CL and Desai et al.: one resumable run per cell, then a page of tables.

    python benchmarks/peft.py DATA RUNS last_layer          # all cells on cached features, minutes
    python benchmarks/peft.py DATA RUNS film [CELL ...]     # through MiniLM, half an hour each; peft-8-0, say
    python benchmarks/peft.py DATA RUNS page docs/peft.md

DATA is a folder with clinc150_data_full.json and cifar100_efficientnet_lite0.npz. RUNS keeps the model directory of a
run in progress, so that one that was killed goes on with the task it was at, and a JSON file for each that is done.
Runs are seeded and NOT PRIVATE.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import reticent as rt
from reticent.encoders import last_layer, minilm
from reticent.evaluation import AccuracyMatrix
from reticent.gate.noise import NoiseSource
from reticent.lab.baselines import LabLedger, NoPrivacy, without_noise
from reticent.lab.sequential import Desai, Naive, public_rows
from reticent.lab.streams import Stream
from reticent.released import denoise
from reticent.released.model import Model
from reticent.released.sums import Sums
from reticent.sensitive.dpsgd import Engine

TASKS = 10
ENDLESS = "none"  # no privacy
METHODS = {
    "peft": "PEFT Ensemble",
    "cosine": "Cosine, ours",
    "cosine_paper": "Cosine, the paper's",
    "naive": "Naive",
    "desai": "Desai et al.",
    "noncl": "Non-CL, all data at once",
}
FILM_CELLS = ["peft-8-0", "peft-8-1", "peft-8-2", "peft-1-0", "naive-8-0", "noncl-8-0", "desai-8-0"]
FILM_EPOCHS, FILM_MINUTES = 8, 30


@dataclass(frozen=True)
class Cell:
    """One run: where the head sits, which method, which budget, which seed, on which data."""

    adapter: str
    method: str
    epsilon: str
    seed: int
    data: str = "clinc150"

    @property
    def name(self) -> str:
        """The name of its files."""
        return "-".join([*([self.data] if self.data != "clinc150" else []), self.adapter, self.method, self.epsilon])

    def file(self, runs: Path) -> Path:
        """Where its result goes."""
        return runs / f"{self.name}-{self.seed}.json"


@dataclass(frozen=True)
class Data:
    """Inputs and labels, to learn from and to test on."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def texts(folder: Path) -> Data:
    """CLINC150 as texts."""
    stored = json.loads((folder / "clinc150_data_full.json").read_text())
    return Data(
        *(np.array([row[k] for row in stored[name]], dtype=object) for name in ("train", "test") for k in (0, 1))
    )


def features(folder: Path, name: str) -> Data:
    """Features of CLINC150 by MiniLM, or of CIFAR-100 as they are stored."""
    if name == "clinc150":
        raw, encoder = texts(folder), minilm()
        return Data(encoder(list(raw.x)), raw.y, encoder(list(raw.x_test)), raw.y_test)
    stored = np.load(folder / "cifar100_efficientnet_lite0.npz")
    scale = np.float32(stored["scale"])
    return Data(stored["x_train"] * scale, stored["y_train"], stored["x_test"] * scale, stored["y_test"])


def learner_of(cell: Cell, size: int) -> Any:
    """Returns the learner of a cell."""
    if cell.method == "cosine":
        return rt.Cosine() if cell.epsilon != ENDLESS else NoPrivacy()
    if cell.method == "cosine_paper":
        return rt.Cosine.paper() if cell.epsilon != ENDLESS else NoPrivacy(Sums(denoise.total))
    peft = rt.PeftEnsemble(adapter=last_layer, task_size=size)
    if cell.adapter == "film":
        peft = rt.PeftEnsemble(task_size=size, epochs=FILM_EPOCHS, engine=Engine(rows=16))
    peft = without_noise(peft) if cell.epsilon == ENDLESS else peft
    if cell.method == "naive":
        return Naive(peft)
    return Desai(replace(peft, task_size=round(0.9 * size)), TASKS) if cell.method == "desai" else peft


def run(cell: Cell, data: Data, runs: Path) -> None:
    """Learns the stream of a cell, or goes on with it, and writes its result."""
    tasks = 1 if cell.method == "noncl" else TASKS
    learner = learner_of(cell, len(data.x) // tasks)
    space = rt.PublicLabels(sorted(set(data.y.tolist()), key=str))
    budget = rt.Budget(epsilon=8.0 if cell.epsilon == ENDLESS else float(cell.epsilon), delta=1e-5)
    folder = runs / f"{cell.name}-{cell.seed}"
    encoder = minilm() if cell.adapter == "film" else None
    if encoder is None or not (folder / "manifest.json").exists():
        path = None if encoder is None else folder
        model = rt.ContinualClassifier(encoder=encoder, labels=space, learner=learner, budget=budget, path=path)
        if cell.epsilon == ENDLESS:
            model._ledger = LabLedger.create(None, budget)
    else:
        model = rt.load(folder, encoder=encoder, learner=learner)
        for spend in model.statement().spends:
            if not spend.published and spend.voided is None and spend.task != "memory buffer":
                model._open_ledger().void(spend.row, reason="killed before its release")
    seconds = _seconds(folder)
    stream = Stream(tasks=tasks, seed=cell.seed)
    for t, (name, x, y) in enumerate(stream.split(data.x, data.y)):
        if t < len(model.releases):  # learned before it was killed
            if isinstance(learner, Desai):
                learner.remember(list(x), public_rows(space, y.tolist(), space.space))
            continue
        started = time.monotonic()
        model.set_params(noise=NoiseSource.seeded(1_000_000 * cell.seed + 1_000 * len(cell.name) + t))
        model.learn_task(x if encoder is None else list(x), y.tolist(), name=name)
        seconds.append(time.monotonic() - started)
        if encoder is not None:
            (folder / "seconds.json").write_text(json.dumps(seconds))
            print(cell.name, cell.seed, name, f"{seconds[-1]:.0f} s", flush=True)
    matrix = matrix_of(model, stream, data, tasks)
    result = {
        "cell": vars(cell),
        "accuracy": 100 * matrix.average_accuracy,
        "forgetting": 100 * matrix.forgetting,
        "matrix": np.where(np.isnan(matrix.values), -1, matrix.values).tolist(),
        "seconds": sum(seconds),
        "epsilon": model.spent()["epsilon"] if cell.epsilon != ENDLESS else None,
        "version": rt.__version__,
    }
    cell.file(runs).write_text(json.dumps(result, indent=1))
    print(cell.name, cell.seed, f"accuracy {result['accuracy']:.1f}, forgetting {result['forgetting']:.1f}", flush=True)


def _seconds(folder: Path) -> list[float]:
    file = folder / "seconds.json"
    return json.loads(file.read_text()) if file.exists() else []


def matrix_of(model: rt.ContinualClassifier, stream: Stream, data: Data, tasks: int) -> AccuracyMatrix:
    """Returns the accuracy on each task's test data after each task; each adapter encodes the test data once."""
    full = model._model()
    inputs = data.x_test if model.encoder is None else list(data.x_test)
    embedded = full._scorer.embed(inputs, model.encoder) if not _latest(model) else _each(model, inputs)
    task = stream.tasks_of(data.y)
    home = dict(zip(data.y.tolist(), task.tolist(), strict=True))
    at = np.array([home[label] for label in data.y_test.tolist()])
    values = np.full((tasks, tasks), np.nan)
    for t in range(tasks):
        part = Model(full.public, full.rule, full.releases[: t + 1])
        features = embedded
        if embedded.ndim == 3:
            features = embedded[:, t : t + 1] if _latest(model) else embedded[:, : t + 1]
        right = part.names(part._scorer.rows[part._scorer.score(features).argmax(axis=1)]) == data.y_test
        values[t, : t + 1] = [np.mean(right[at == i]) for i in range(t + 1)]
    return AccuracyMatrix(values)


def _latest(model: rt.ContinualClassifier) -> bool:
    return isinstance(model.learner, Naive | Desai)


def _each(model: rt.ContinualClassifier, inputs: Any) -> Any:
    """Test data encoded by the model after each task."""
    rule = model.learner.rule.inner  # type: ignore[union-attr]
    return rule.scorer(model.releases, model._model().labels).embed(inputs, model.encoder)


def cells(adapter: str) -> Iterator[Cell]:
    """Yields the cells of a tier."""
    if adapter == "film":
        for name in FILM_CELLS:
            method, budget, number = name.split("-")
            yield Cell("film", method, budget, int(number))
        return
    for seed in range(3):
        for epsilon in ("1", "8", ENDLESS):
            for method in METHODS:
                yield Cell(adapter, method, epsilon, seed)
        for epsilon in ("1", "8"):
            for method in ("peft", "cosine", "cosine_paper"):
                yield Cell(adapter, method, epsilon, seed, "cifar100")


def page(runs: Path, file: Path) -> None:
    """Writes the tables."""
    done = [json.loads(f.read_text()) for f in sorted(runs.glob("*.json"))]
    lines = [
        "# PEFT Ensemble beside the baselines",
        "",
        "Written by `python benchmarks/peft.py DATA RUNS page docs/peft.md`, never by hand. Ten tasks, disjoint",
        "classes in random order, every label public, delta 1e-5, settings as a user gets them (nothing tuned).",
        "Median over seeds, with the number of seeds in brackets; seconds for the whole stream on one thread of a busy",
        "machine.",
        "Runs are seeded: NOT PRIVATE.",
        "",
    ]
    for title, adapter, data in (
        ("CLINC150, last layer on MiniLM features", "last_layer", "clinc150"),
        (f"CLINC150, FiLM through MiniLM, {FILM_EPOCHS} epochs", "film", "clinc150"),
        ("CIFAR-100, last layer on EfficientNet-Lite0 features", "last_layer", "cifar100"),
    ):
        lines += [f"## {title}", "", "| method | epsilon | accuracy | forgetting | seconds |", "|---|---|---|---|---|"]
        wanted = dict.fromkeys((c.method, c.epsilon) for c in cells(adapter) if c.data == data)
        for method, epsilon in wanted:
            mine = [r for r in done if _of(r, adapter, data, method, epsilon)]
            lines.append(f"| {METHODS[method]} | {epsilon} | {_median(mine, adapter)} |")
        lines.append("")
    file.write_text("\n".join(lines), encoding="utf-8")


def _of(result: Any, adapter: str, data: str, method: str, epsilon: str) -> bool:
    cell = result["cell"]
    return (cell["adapter"], cell["data"], cell["method"], cell["epsilon"]) == (adapter, data, method, epsilon)


def _median(results: list[Any], adapter: str) -> str:
    if not results:
        estimate = f"{FILM_MINUTES} minutes" if adapter == "film" else "seconds"
        return f"*not run here* (about {estimate}) | |"
    middle = [statistics.median(r[key] for r in results) for key in ("accuracy", "forgetting", "seconds")]
    return f"{middle[0]:.1f} ({len(results)}) | {middle[1]:.1f} | {middle[2]:.0f}"


def main() -> None:
    """Runs what is asked for and not done."""
    folder, runs, tier, *rest = (Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
    runs.mkdir(parents=True, exist_ok=True)
    if tier == "page":
        page(runs, Path(rest[0]))
        return
    if tier == "film":
        import torch

        torch.set_num_threads(1)
    todo = [
        c for c in cells(tier) if not c.file(runs).exists() and (not rest or f"{c.method}-{c.epsilon}-{c.seed}" in rest)
    ]
    cached: dict[str, Data] = {}
    for cell in todo:
        if cell.data not in cached:
            cached[cell.data] = texts(folder) if tier == "film" else features(folder, cell.data)
        run(cell, cached[cell.data], runs)


if __name__ == "__main__":
    main()
