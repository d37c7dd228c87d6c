"""Runs one cell of an experiment: a stream of public data, learned with seeded noise. NOT PRIVATE.

A run that trains through the encoder keeps its model directory until it is done, so that one that was killed goes on
with the task it was at.
"""

import contextlib
import functools
import importlib
import json
import os
import platform
import re
import shutil
import time
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import reticent
from reticent import errors
from reticent.classifier import ContinualClassifier, load
from reticent.encoders.adapters import film, last_layer
from reticent.encoders.encoder import sha256_of_files
from reticent.gate.noise import NoiseSource
from reticent.lab.baselines.oracles import LabelOracle, LabLedger, NoPrivacy, OracleHeads, without_noise
from reticent.lab.baselines.sequential import BUFFER, Desai, Naive, public_rows
from reticent.lab.bench.experiments import Cell
from reticent.lab.bench.measures import Assigned, classes, measured, spent
from reticent.lab.bench.workspace import Workspace, encoder_of, write
from reticent.lab.data.datasets import Data
from reticent.lab.data.streams import Stream
from reticent.labels import Taxonomy
from reticent.policies import Policy, PublicLabels, ReleasedLabels
from reticent.sensitive.learners import Cosine, Learner, PeftEnsemble
from reticent.sensitive.training import Engine

FORMAT = 1
FILM_EPOCHS = 8
NOT_PRIVATE = "NOT PRIVATE: seeded noise on public data, to measure accuracy."
_PUBLIC_SHARE = 0.8  # of the labels, where a hierarchy places the others
_PACKAGES = ("reticent", "numpy", "scipy", "scikit-learn", "numba", "torch", "transformers", "dp-accounting", "optuna")


# --- one cell as values


def policy_of(cell: Cell, data: Data) -> Policy:
    """Returns where the labels come from."""
    names = sorted(set(data.labels.tolist()))
    if cell.labels == "oracle":
        return ReleasedLabels()  # the learner reads them off the data instead
    if cell.labels == "released":
        return ReleasedLabels() if cell.share is None else ReleasedLabels.paper(share=cell.share / 100)
    if cell.labels.startswith("public-"):
        times = int(cell.labels.removeprefix("public-").removesuffix("x"))
        return PublicLabels([*names, *(f"never {i}" for i in range((times - 1) * len(names)))])
    if cell.labels.startswith("remap-"):
        return _remapped(cell, data, names)
    return PublicLabels(names)


def _remapped(cell: Cell, data: Data, names: list[str]) -> PublicLabels:
    """A public label set that lacks a fifth of the labels, and what becomes of them."""
    if data.parents is None:
        raise errors.InvalidValue(f"{data.name} has no hierarchy.")
    draw = np.random.default_rng([cell.seed, 3])
    public = [names[i] for i in sorted(draw.permutation(len(names))[: round(_PUBLIC_SHARE * len(names))])]
    if cell.labels == "remap-drop":
        return PublicLabels(public)
    if cell.labels == "remap-unknown":
        return PublicLabels([*public, "unknown"], remap=lambda label: "unknown")
    parents = sorted(set(data.parents.values()))
    return PublicLabels([*public, *parents], remap=Taxonomy.from_edges(data.parents.items()))


def learner_of(cell: Cell, size: int, tuned: Any = None) -> Learner:
    """Returns the learner of a cell for tasks of about this size; `tuned` completes the paper's PEFT."""
    private = cell.epsilon is not None
    if ":" in cell.learner:
        return _own(cell.learner)
    if cell.family == "cosine":
        learner = Cosine() if cell.learner == "cosine" else Cosine.paper()
        if not private:
            return NoPrivacy(learner.rule)
        return LabelOracle(learner.rule) if cell.labels == "oracle" else learner
    peft = PeftEnsemble(adapter=last_layer, task_size=size)
    if cell.adapter == "film":
        peft = PeftEnsemble(adapter=film, task_size=size, epochs=FILM_EPOCHS, engine=Engine(rows=16))
    if cell.learner == "peft-paper":
        adapter = film if cell.adapter == "film" else last_layer
        peft = tuned(PeftEnsemble.paper(adapter=adapter, task_size=size))
    peft = peft if private else without_noise(peft)
    if cell.learner == "naive":
        return Naive(peft)
    if cell.learner == "desai":
        return Desai(replace(peft, task_size=max(1, round(0.9 * size))), cell.tasks, seed=cell.seed)
    return OracleHeads(peft) if cell.labels == "oracle" else peft


def _own(name: str) -> Learner:
    """Returns the user's own learner: an object of a module, or what its class or function returns."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise errors.InvalidValue(f"Expected a learner at {name}: {error}.") from error
    learner: Learner = found() if isinstance(found, type) or not hasattr(found, "learn_task") else found
    return learner


# --- running


def run(cell: Cell, place: Workspace) -> dict[str, Any]:
    """Learns the stream of a cell, or goes on with it, and returns what was measured."""
    data = place.load(cell)
    train, test = data.rows(cell.seed)
    through = cell.adapter == "film"
    names = np.concatenate([data.labels, data.unseen_labels])
    inputs: Any = [*data.inputs, *data.unseen_inputs] if through else place.features(cell)
    stream = Assigned(cell, data, names[train])
    if {stream.homes.get(label) for label in names[test].tolist()} - {None} != set(range(cell.tasks)):
        raise errors.InvalidValue(f"Expected test examples in each of the {cell.tasks} tasks. Use fewer tasks.")
    first = train[stream.task == 0]
    learner = learner_of(
        cell,
        max(1, len(train) // cell.tasks),
        tuned=lambda peft: place.tuned(cell, peft, _take(inputs, first), names[first]),
    )
    model = _model(cell, data, learner, place, through)
    seconds = _seconds(model.path)
    for t in range(cell.tasks):
        rows = train[stream.task == t]
        x, y = _take(inputs, rows), names[rows].tolist()
        if t < len(model.releases):  # learned before it was killed
            if isinstance(learner, Desai):
                learner.remember(x, public_rows(model._policy(), y, model._model().labels))
            continue
        started = time.monotonic()
        model.set_params(noise=NoiseSource.seeded(int(cell.digest, 16) % 2**60 + t))
        model.learn_task(x, y, name=f"task {t + 1}")
        seconds.append(time.monotonic() - started)
        if model.path is not None:
            write(Path(model.path) / "seconds.json", json.dumps(seconds))
    started = time.monotonic()
    worth = measured(cell, data, model, _take(inputs, test), names[test], stream)
    result = {
        "format": FORMAT,
        "private": False,
        "note": NOT_PRIVATE,
        "cell": asdict(cell),
        "name": cell.name,
        "status": "done",
        "error": None,
        **worth,
        "classes": classes(cell, model, stream.examples(names[train])),
        "seconds": {"learn": sum(seconds), "evaluate": time.monotonic() - started},
        "spent": spent(cell, model),
        "environment": environment(),
        "digests": {
            "data": place.digest(cell),
            "learner": re.sub(r" at 0x[0-9a-f]+", "", repr(learner)),
            "code": code(),
        },
    }
    if model.path is not None:
        shutil.rmtree(model.path)
    return result


def examples_of_a_blurry_class(cell: Cell, data: Data) -> list[float]:
    """Returns how many examples a blurry class has in its home task and in the tasks that follow."""
    train, _ = data.rows(cell.seed)
    stream = Stream(tasks=cell.tasks, ratio=cell.ratio / 100, seed=cell.seed)
    return stream.of_a_blurry_class(np.concatenate([data.labels, data.unseen_labels])[train])


def failed(cell: Cell, error: str) -> dict[str, Any]:
    """Returns the result of a run that did not come to its end."""
    return {
        "format": FORMAT,
        "private": False,
        "note": NOT_PRIVATE,
        "cell": asdict(cell),
        "name": cell.name,
        "status": "failed",
        "error": error,
        "environment": environment(),
    }


def _model(cell: Cell, data: Data, learner: Learner, place: Workspace, through: bool) -> ContinualClassifier:
    """Returns a classifier, or the one that was killed on its way."""
    encoder = encoder_of(data) if through else None
    endless = cell.endless  # the lab's ledger is in memory only: such a run begins anew
    path = place.out / "unfinished" / cell.digest if through and not endless else None
    if path is not None and (path / "manifest.json").exists():
        model = load(path, encoder=encoder, learner=learner)
        model.labels = policy_of(cell, data)  # a function is not stored
        if _resumed(model):
            return model
        shutil.rmtree(path)
    model = ContinualClassifier(
        encoder=encoder, labels=policy_of(cell, data), learner=learner, budget=cell.budget, path=path
    )
    if endless:
        model._ledger = LabLedger.create(None, cell.budget)
    return model


def _resumed(model: ContinualClassifier) -> bool:
    """Voids what was spent on the task that was killed; False where the ledger says that its release had left."""
    learned = {release.task for release in model.releases}
    kept = learned | {BUFFER} if learned else learned
    lost = [s for s in model.statement().spends if s.voided is None and s.task not in kept]
    if any(spend.published for spend in lost):
        model._open_ledger().close()
        return False
    for spend in lost:
        model._open_ledger().void(spend.row, reason="killed before its release")
    return True


def _take(inputs: Any, rows: npt.NDArray[np.int64]) -> Any:
    return inputs[rows] if isinstance(inputs, np.ndarray) else [inputs[i] for i in rows]


def _seconds(folder: Any) -> list[float]:
    file = None if folder is None else Path(folder) / "seconds.json"
    return [] if file is None or not file.exists() else list(json.loads(file.read_text(encoding="utf-8")))


@functools.cache
def code() -> str:
    """Returns a digest of the sources that decide a number: the package without its pages and its command line."""
    package = Path(reticent.__file__).parent
    rooms = {file: file.relative_to(package).parts[0] for file in package.rglob("*.py")}
    return sha256_of_files([file for file, room in rooms.items() if room not in ("cli", "report")])[:16]


@functools.cache
def environment() -> dict[str, Any]:
    """Returns what a result depends on beside its cell."""
    versions = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "versions": versions,
    }
