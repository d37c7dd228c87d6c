"""Performs one run: a stream of public data, learned with seeded noise. NOT PRIVATE.

A run that trains through the encoder keeps its model directory until it is done, so that a killed one resumes with the
task that it was learning.
"""

import contextlib
import functools
import json
import os
import platform
import re
import shutil
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from reticent import errors
from reticent.classifier import ContinualClassifier
from reticent.gate import voiding
from reticent.gate.noise import NoiseSource
from reticent.lab.baselines.oracles import experiment
from reticent.lab.baselines.sequential import Desai, public_rows
from reticent.lab.bench.catalogue import entry, learner_of
from reticent.lab.bench.measures import Assigned, classes, measured, spent
from reticent.lab.bench.paid_tuning import tune_and_pay
from reticent.lab.bench.run import FILM, MEMORIES, Run
from reticent.lab.bench.versions import version_of
from reticent.lab.bench.workspace import Workspace, encoder_of
from reticent.lab.data.datasets import Data
from reticent.lab.data.streams import Stream
from reticent.loading import load
from reticent.memory import Memory
from reticent.numerics.files import write_whole
from reticent.numerics.rows import take
from reticent.policies import Policy, PublicLabels, ReleasedLabels
from reticent.released import store
from reticent.released.ledger_file import FILE_NAME, LedgerFile
from reticent.sensitive.learners import Learner
from reticent.taxonomy import Taxonomy

FORMAT = 4  # of runs/*.json
NOT_PRIVATE = "NOT PRIVATE: seeded noise on public data, to measure accuracy."
_PUBLIC_SHARE = 0.8  # of the labels, where a hierarchy places the others
_PACKAGES = ("reticent", "numpy", "scipy", "scikit-learn", "numba", "torch", "transformers", "dp-accounting", "optuna")


# --- labels


def policy_of(run: Run, data: Data) -> Policy:
    """Returns where the labels come from."""
    names = sorted(set(data.labels.tolist()))
    called = data.names if run.names else None
    if run.labels == "oracle":
        return ReleasedLabels()  # the learner reads them off the data instead
    if run.labels == "released":
        return ReleasedLabels(names=called) if run.share is None else ReleasedLabels.paper(share=run.share / 100)
    if run.labels.startswith("public-"):
        times = int(run.labels.removeprefix("public-").removesuffix("x"))
        return PublicLabels([*names, *(f"never {i}" for i in range((times - 1) * len(names)))], names=called)
    if run.labels.startswith("remap-"):
        return _remapped(run, data, names)
    return PublicLabels(names, names=called)


def _remapped(run: Run, data: Data, names: list[str]) -> PublicLabels:
    """A public label set that lacks a fifth of the labels, and where those are mapped."""
    if data.parents is None:
        raise errors.InvalidValue(f"{data.name} has no hierarchy.")
    draw = np.random.default_rng([run.seed, 3])
    public = [names[i] for i in sorted(draw.permutation(len(names))[: round(_PUBLIC_SHARE * len(names))])]
    if run.labels == "remap-drop":
        return PublicLabels(public)
    if run.labels == "remap-unknown":
        return PublicLabels([*public, "unknown"], remap=lambda label: "unknown")
    parents = sorted(set(data.parents.values()))
    return PublicLabels([*public, *parents], remap=Taxonomy.from_edges(data.parents.items()))


# --- learning and measuring


def result_of(run: Run, place: Workspace) -> dict[str, Any]:
    """Learns the stream of a run, or the rest of it where it was killed, and returns what was measured."""
    began = time.process_time()
    data = place.load(run)
    train, test = data.rows(run.seed)
    through = run.adapter == FILM
    names = np.concatenate([data.labels, data.unseen_labels])
    inputs: Any = [*data.inputs, *data.unseen_inputs] if through or run.names else place.features(run)
    stream = Assigned(run, data, names[train])
    if {stream.homes.get(label) for label in names[test].tolist()} - {None} != set(range(run.tasks)):
        raise errors.InvalidValue(f"Expected test examples in each of the {run.tasks} tasks. Use fewer tasks.")
    some = stream.to_tune(train)
    learner = learner_of(
        run,
        max(1, len(train) // run.tasks),
        tuned=lambda peft: place.tuned(run, peft, take(inputs, some), names[some]),
    )
    model = _model(run, data, learner, place, through)
    seconds = _seconds(model.path)
    if isinstance(policy := policy_of(run, data), PublicLabels) and entry(run.learner).pays:
        learner = tune_and_pay(run, model, policy, stream, take(inputs, train), names[train])
    for t in range(run.tasks):
        rows = train[stream.task == t]
        x, y = take(inputs, rows), names[rows].tolist()
        if t < len(model.releases):  # learned before it was killed
            if isinstance(learner, Desai):
                learner.remember(x, public_rows(model._policy(), y, model.directory.model.labels))
            continue
        started = time.monotonic()
        model.set_params(noise=NoiseSource.seeded(int(run.digest, 16) % 2**60 + t))
        with errors.silenced():  # that no label is known is a result here
            model.learn_task(x, y, name=f"task {t + 1}")
        seconds.append(time.monotonic() - started)
        if model.path is not None:
            write_whole(Path(model.path) / "seconds.json", json.dumps(seconds))
    started = time.monotonic()
    worth = measured(run, data, model, take(inputs, test), names[test], stream)
    result = {
        "format": FORMAT,
        "private": False,
        "note": NOT_PRIVATE,
        "run": asdict(run),
        "name": run.name,
        "status": "done",
        "error": None,
        "version": version_of(run.learner),
        **worth,
        "classes": classes(run, model, stream.examples(names[train])),
        "seconds": {
            "learn": sum(seconds),
            "evaluate": time.monotonic() - started,
            "processor": time.process_time() - began,  # with tuning, where this run was the first to need it
        },
        "spent": spent(run, model),
        "environment": environment(),
        "digests": {
            "data": place.digest(run),
            "learner": re.sub(r" at 0x[0-9a-f]+", "", repr(learner)),
        },
    }
    if model.path is not None:
        forget(Path(model.path))
    if run.memory != MEMORIES[0]:
        shutil.rmtree(place.out / "unfinished" / run.digest)
    return result


def forget(path: Path) -> None:
    """Removes a model directory, its ledger first: killed half-way, what is left is no model."""
    (path / FILE_NAME).unlink(missing_ok=True)
    shutil.rmtree(path)


def examples_of_a_blurry_class(run: Run, data: Data) -> list[float]:
    """Returns how many examples a blurry class has in its home task and in the tasks that follow."""
    train, _ = data.rows(run.seed)
    stream = Stream(tasks=run.tasks, ratio=run.ratio / 100, blurry=run.blurry / 100, seed=run.seed)
    return stream.of_a_blurry_class(np.concatenate([data.labels, data.unseen_labels])[train])


def failed(run: Run, error: str) -> dict[str, Any]:
    """Returns the result of a run that failed."""
    return {
        "format": FORMAT,
        "private": False,
        "note": NOT_PRIVATE,
        "run": asdict(run),
        "name": run.name,
        "status": "failed",
        "error": error,
        "environment": environment(),
    }


def _model(run: Run, data: Data, learner: Learner, place: Workspace, through: bool) -> ContinualClassifier:
    """Returns a new classifier, or the one that a killed run left."""
    encoder, policy = _encoder(run, data, place, through), policy_of(run, data)
    if run.spends_without_limit:  # the lab's ledger is in memory only: such a run starts again
        return experiment(learner, policy, budget=run.budget, encoder=encoder)
    if run.memory != MEMORIES[0]:
        return _remembering(run, place, learner, encoder, policy)
    path = place.out / "unfinished" / run.digest if through else None
    if path is None or not (path / FILE_NAME).exists() or _was_writing(path):
        if path is not None and path.exists():
            forget(path)  # killed while it was made or removed, or wrote a release
        return ContinualClassifier(encoder=encoder, labels=policy, learner=learner, budget=run.budget, path=path)
    model = load(path, encoder=encoder, learner=learner)
    model.labels = policy  # a function is not stored
    void_unpublished(path)
    return model


def _encoder(run: Run, data: Data, place: Workspace, through: bool) -> Any:
    """Returns what reads the inputs of a run: nothing where they are features already."""
    if run.names and not through:
        return place.reader(run)
    return encoder_of(data, place.speed) if through else None


def _remembering(run: Run, place: Workspace, learner: Learner, encoder: Any, policy: Policy) -> ContinualClassifier:
    """Returns a new classifier with a vault; a run that was killed starts again, for it takes minutes at most."""
    folder = place.out / "unfinished" / run.digest
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = Memory(vault=folder / "vault", horizon=max(2, run.tasks), recurring=run.memory == "recurring" or None)
    return ContinualClassifier(
        encoder=encoder, labels=policy, learner=learner, budget=run.budget, path=folder / "model", memory=kept
    )


def _was_writing(path: Path) -> bool:
    """Whether a run was killed while it wrote a release, whose spend is never voided: it starts again."""
    with LedgerFile.open(path) as ledger:
        return bool(store.left_behind(path, ledger.releases, ledger.identity))


def void_unpublished(path: Path) -> None:
    """Voids what was spent on a task that was killed: a benchmark publishes nothing but whole releases."""
    with LedgerFile.open(path) as ledger:
        spends = ledger.statement().spends
    for spend in spends:
        if not spend.is_settled:
            voiding.void(path, spend.row, reason="killed before its release")


def _seconds(folder: Any) -> list[float]:
    file = None if folder is None else Path(folder) / "seconds.json"
    return [] if file is None or not file.exists() else list(json.loads(file.read_text(encoding="utf-8")))


@functools.cache
def environment() -> dict[str, Any]:
    """Returns what a result depends on beside its run."""
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
