"""Runs one cell of an experiment: a stream of public data, learned with seeded noise. NOT PRIVATE.

Features are encoded once for all cells, and kept beside the results. A run that trains through the encoder keeps its
model directory until it is done, so that one that was killed goes on with the task it was at.
"""

import contextlib
import fcntl
import functools
import hashlib
import importlib
import json
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import encoders, errors, events, selection
from reticent.budget import Budget
from reticent.classifier import ContinualClassifier, load
from reticent.encoders.adapters import film, last_layer
from reticent.evaluation import AccuracyMatrix
from reticent.events import Event
from reticent.gate.noise import NoiseSource
from reticent.lab import datasets
from reticent.lab.baselines import LabelOracle, LabLedger, NoPrivacy, OracleHeads, without_noise
from reticent.lab.datasets import Data
from reticent.lab.experiments import Cell
from reticent.lab.sequential import BUFFER, Desai, Latest, Naive, public_rows
from reticent.lab.streams import Stream
from reticent.labels import Taxonomy
from reticent.policies import Policy, PublicLabels, ReleasedLabels
from reticent.released import aggregate
from reticent.released.aggregate import Aggregate, Logits
from reticent.released.ensemble import Ensemble
from reticent.released.model import Model
from reticent.sensitive.dpsgd import Engine
from reticent.sensitive.learners import Cosine, Learner, PeftEnsemble
from reticent.sensitive.tuning import tune_uncounted

FORMAT = 1
DELTA = 1e-5
FILM_EPOCHS = 8
RULES = {"argmax": aggregate.argmax, "median": aggregate.median, "entropy": aggregate.entropy}
NOT_PRIVATE = "NOT PRIVATE: seeded noise on public data, to measure accuracy."
_MEASURED_AT_EVERY_TASK = 20_000  # labels; above, only after the last task: each measure goes through all of them
_PUBLIC_SHARE = 0.8  # of the labels, where a hierarchy places the others
_PACKAGES = ("reticent", "numpy", "scipy", "scikit-learn", "numba", "torch", "transformers", "dp-accounting", "optuna")

Strings = npt.NDArray[np.str_]


# --- data, encoded once


@dataclass(frozen=True)
class Workspace:
    """Where data lies and where features are kept.

    Args:
        data: The folder of data sets.
        out: The results folder.
    """

    data: Path
    out: Path

    def load(self, cell: Cell) -> Data:
        """Returns the raw data of a cell."""
        return _loaded(cell.data, self.data, cell.text, cell.label)[0]

    def digest(self, cell: Cell) -> str:
        """Returns the digest of a cell's data."""
        return _loaded(cell.data, self.data, cell.text, cell.label)[1]

    def features(self, cell: Cell) -> npt.NDArray[np.float32]:
        """Returns features of inputs followed by test inputs, encoded by the first who asks."""
        file = self.out / "features" / f"{self.digest(cell)[:20]}.npy"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with _only_one(file.with_suffix(".lock")):
                if not file.exists():
                    _write_array(file, _encoded(self.load(cell)))
        return _mapped(file)

    def tuned(self, cell: Cell, learner: PeftEnsemble, inputs: Any, labels: Strings) -> PeftEnsemble:  # noqa: ANN401
        """Returns the paper's learner with settings tuned once for each data set, budget and seed, as the paper has."""
        key = [cell.data, cell.epsilon, cell.seed, cell.adapter, cell.tasks]
        file = self.out / "tuned" / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:20]}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(file.with_suffix(".lock")):
            if not file.exists():
                encoder = encoder_of(self.load(cell)) if cell.adapter == "film" else None
                found = tune_uncounted(
                    learner, inputs, labels.tolist(), budget=budget_of(cell), encoder=encoder, seed=cell.seed
                )
                settings = {name: getattr(found, name) for name in ("rate", "learning_rate", "clip_norm", "tuning")}
                _write(file, json.dumps({"for": key, **settings}, indent=1))
        settings = json.loads(file.read_text(encoding="utf-8"))
        return replace(learner, **{name: value for name, value in settings.items() if name != "for"})


@functools.lru_cache(maxsize=2)
def _loaded(name: str, folder: Path, text: str | None, label: str | None) -> tuple[Data, str]:
    data = datasets.load(name, folder, text=text, label=label)
    return data, datasets.digest(data)


@functools.lru_cache(maxsize=2)
def _mapped(file: Path) -> npt.NDArray[np.float32]:
    features: npt.NDArray[np.float32] = np.load(file, mmap_mode="r")
    return features


def encoder_of(data: Data) -> Any:  # noqa: ANN401
    """Returns the encoder that a data set asks for."""
    name = data.encoder
    if name is None:
        raise errors.InvalidValue(f"{data.name} has features alone: nothing can be trained through its encoder.")
    return encoders.hf(name.removeprefix("hf:")) if name.startswith("hf:") else getattr(encoders, name)()


def _encoded(data: Data) -> npt.NDArray[np.float32]:
    parts = [part for part in (data.inputs, data.unseen_inputs) if len(part)]
    if data.encoder is None:
        return np.concatenate(parts).astype(np.float32)
    encoder = encoder_of(data)
    return np.concatenate([np.asarray(encoder(part), np.float32) for part in parts])


# --- one cell as values


def budget_of(cell: Cell) -> Budget:
    """Returns the budget of a run; without privacy it is only written on the ledger."""
    return Budget(epsilon=8.0 if cell.epsilon is None else cell.epsilon, delta=DELTA)


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


def learner_of(cell: Cell, size: int, tuned: Any = None) -> Learner:  # noqa: ANN401
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
    stream = _Assigned(cell, data, names[train])
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
            _write(Path(model.path) / "seconds.json", json.dumps(seconds))
    started = time.monotonic()
    measured = _measured(cell, data, model, _take(inputs, test), names[test], stream)
    result = {
        "format": FORMAT,
        "private": False,
        "note": NOT_PRIVATE,
        "cell": asdict(cell),
        "name": cell.name,
        "status": "done",
        "error": None,
        **measured,
        "classes": _classes(cell, model, stream.examples(names[train])),
        "seconds": {"learn": sum(seconds), "evaluate": time.monotonic() - started},
        "spent": _spent(cell, model),
        "environment": environment(),
        "digests": {"data": place.digest(cell), "learner": re.sub(r" at 0x[0-9a-f]+", "", repr(learner))},
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


class _Assigned:
    """Which training example is in which task, and which task is the home of each label."""

    def __init__(self, cell: Cell, data: Data, labels: Strings) -> None:
        if data.home is None:
            stream = Stream(tasks=cell.tasks, ratio=cell.ratio / 100, seed=cell.seed)
            self.task, self.homes = stream.tasks_of(labels), stream.homes(labels)
        else:  # the data says which labels come together; the seed says in which order
            order = np.random.default_rng(cell.seed).permutation(max(data.home.values()) + 1)
            joined = {label: int(order[home]) * cell.tasks // len(order) for label, home in data.home.items()}
            self.homes = {label: joined[label] for label in np.unique(labels).tolist()}
            self.task = np.array([joined[label] for label in labels.tolist()], dtype=np.int64)
        self.tasks = cell.tasks

    def examples(self, labels: Strings) -> dict[str, npt.NDArray[np.int64]]:
        """Returns how many examples each label has in each task."""
        return {
            label: np.bincount(self.task[labels == label], minlength=self.tasks) for label in np.unique(labels).tolist()
        }


def _model(cell: Cell, data: Data, learner: Learner, place: Workspace, through: bool) -> ContinualClassifier:
    """Returns a classifier, or the one that was killed on its way."""
    encoder = encoder_of(data) if through else None
    endless = _endless(cell)  # the lab's ledger is in memory only: such a run begins anew
    path = place.out / "unfinished" / cell.digest if through and not endless else None
    if path is not None and (path / "manifest.json").exists():
        model = load(path, encoder=encoder, learner=learner)
        model.labels = policy_of(cell, data)  # a function is not stored
        if _resumed(model):
            return model
        shutil.rmtree(path)
    model = ContinualClassifier(
        encoder=encoder, labels=policy_of(cell, data), learner=learner, budget=budget_of(cell), path=path
    )
    if endless:
        model._ledger = LabLedger.create(None, budget_of(cell))
    return model


def _endless(cell: Cell) -> bool:
    """Whether no budget can hold what a cell spends."""
    return cell.epsilon is None or cell.labels == "oracle"


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


def _take(inputs: Any, rows: npt.NDArray[np.int64]) -> Any:  # noqa: ANN401
    return inputs[rows] if isinstance(inputs, np.ndarray) else [inputs[i] for i in rows]


def _seconds(folder: Any) -> list[float]:  # noqa: ANN401
    file = None if folder is None else Path(folder) / "seconds.json"
    return [] if file is None or not file.exists() else list(json.loads(file.read_text(encoding="utf-8")))


# --- measuring


def _measured(
    cell: Cell,
    data: Data,
    model: ContinualClassifier,
    inputs: Any,  # noqa: ANN401
    truth: Strings,
    stream: _Assigned,
) -> dict[str, Any]:
    """Returns accuracy on each task's test data after each task, and what follows from it."""
    at = np.array([stream.homes.get(label, -1) for label in truth.tolist()])
    values = np.full((cell.tasks, cell.tasks), np.nan)
    answers = np.zeros(0, dtype=object)
    logits = _logits(model, inputs)
    for t, answers in _answers(model, inputs, logits):
        right = answers == truth.astype(object)
        if cell.labels.startswith("remap-"):
            right = right & np.isin(truth, model.classes_.astype(str))
        values[t, : t + 1] = [_mean(right[at == i]) for i in range(t + 1)]
    matrix = AccuracyMatrix(values)
    whole = bool(np.isfinite(values[np.tril_indices(cell.tasks)]).all())
    measured: dict[str, Any] = {
        "accuracy": matrix.average_accuracy,
        "forgetting": matrix.forgetting if whole and cell.tasks > 1 else None,
        "matrix": [[None if np.isnan(v) else float(v) for v in row] for row in values],
        "curve": [None if np.isnan(v) else float(v) for v in matrix.after_each_task],
        "rules": _by_rule(model, logits, truth),
        "known": len(set(model.classes_.tolist()) & set(np.unique(data.labels).tolist())),
    }
    if cell.labels.startswith("remap-"):
        measured |= _with_parents(data, model, answers, truth)
    return measured


def _answers(
    model: ContinualClassifier,
    inputs: Any,  # noqa: ANN401
    logits: Sequence[Logits],
) -> Iterator[tuple[int, npt.NDArray[np.object_]]]:
    """Yields the answers after each task; after the last alone where the label space is huge."""
    full = model._model()
    rule = full.rule
    if isinstance(rule, Ensemble | Latest):
        for t in range(len(full.releases)):
            if isinstance(rule, Latest):
                yield t, full.names(_best(logits[t : t + 1], rule.inner.aggregate))
            else:
                yield t, full.names(_best(logits[: t + 1], rule.aggregate))
        return
    part = Model(full.public, rule)
    for t, release in enumerate(full.releases):
        part = part.with_release(release)
        if t + 1 == len(full.releases) or len(part.labels) <= _MEASURED_AT_EVERY_TASK:
            yield t, part.names(part.top(inputs, model.encoder, 1)[0][:, 0])


def _logits(model: ContinualClassifier, inputs: Any) -> list[Logits]:  # noqa: ANN401
    """Returns what each task's head says of the test data: computed once, however often it is aggregated."""
    full = model._model()
    rule = full.rule.inner if isinstance(full.rule, Latest) else full.rule
    if not isinstance(rule, Ensemble):
        return []
    embedded = rule.scorer(full.releases, full.labels).embed(inputs, model.encoder)
    alone = replace(rule, aggregate=aggregate.argmax)
    logits = []
    for t, release in enumerate(full.releases):
        scorer = alone.scorer([release], full.labels)
        mine = embedded[:, t : t + 1] if embedded.ndim == 3 else embedded
        empty = np.zeros((len(mine), 0), np.float32)
        logits.append(Logits(scorer.rows, scorer.score(mine) if len(scorer.rows) else empty))
    return logits


def _best(logits: Sequence[Logits], merge: Aggregate) -> npt.NDArray[np.int64]:
    """Returns the row of the best label of each example; -1 where no head knows any."""
    rows = np.unique(np.concatenate([model.rows for model in logits]))
    if not len(rows):
        return np.full(len(logits[0].values), -1, dtype=np.int64)
    best: npt.NDArray[np.int64] = rows[merge(logits, rows).argmax(axis=1)]
    return best


def _by_rule(model: ContinualClassifier, logits: Sequence[Logits], truth: Strings) -> dict[str, float]:
    """Returns the final accuracy under each aggregation rule, of an ensemble."""
    full = model._model()
    if not isinstance(full.rule, Ensemble):
        return {}
    return {name: _mean(full.names(_best(logits, rule)) == truth) for name, rule in RULES.items()}


def _with_parents(
    data: Data, model: ContinualClassifier, answers: npt.NDArray[np.object_], truth: Strings
) -> dict[str, float]:
    """Returns accuracy on labels that are public, and how often the broader label is right, for all."""
    parents: Mapping[str, str] = data.parents or {}
    public = np.isin(truth, model.classes_.astype(str))
    broader = np.array([parents.get(str(a), str(a)) for a in answers])
    return {
        "accuracy": _mean((answers == truth.astype(object))[public]),
        "parent": _mean(broader == np.array([parents[label] for label in truth.tolist()])),
    }


def _mean(right: Any) -> float:  # noqa: ANN401
    return float(np.mean(right)) if len(right) else float("nan")


def _classes(
    cell: Cell, model: ContinualClassifier, examples: Mapping[str, npt.NDArray[np.int64]]
) -> list[list[Any]] | None:
    """Returns size, whether it was released, and the planned chance of that, for each label of released ones."""
    if cell.labels != "released" or cell.epsilon is None:
        return None
    releasing = _releasing(model.releases[-1].event)
    if releasing is None:
        return None
    rule = selection.rule(releasing)
    known = set(model.classes_.tolist())
    return [
        [int(sizes.sum()), label in known, round(1 - float(np.prod(1 - rule.release_probability(sizes[sizes > 0]))), 6)]
        for label, sizes in examples.items()
    ]


def _releasing(event: Event) -> events.LabelSelection | events.JointGaussian | events.LabelCounts | None:
    """Returns the part of a task's event that released its labels; None where a learner of the user's has its own."""
    if isinstance(event, events.LabelSelection | events.JointGaussian | events.LabelCounts):
        return event
    if isinstance(event, events.LabelledTraining):
        return _releasing(event.counts)
    return _releasing(event.parts[0]) if isinstance(event, events.Composed) else None


def _spent(cell: Cell, model: ContinualClassifier) -> dict[str, Any]:
    statement = model.statement()
    return {
        "epsilon": None if _endless(cell) else statement.now.epsilon,
        "delta": DELTA,
        "statement": statement.text(),
        "ledger": statement.json()["rows"],
    }


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


# --- files


def _write(file: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def _write_array(file: Path, values: npt.NDArray[np.float32]) -> None:
    part = file.with_suffix(f".{os.getpid()}.part.npy")
    np.save(part, values)
    part.replace(file)


@contextlib.contextmanager
def _only_one(file: Path) -> Iterator[None]:
    """Lets one process in at a time."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
