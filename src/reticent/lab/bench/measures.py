"""Measures of a learned stream: accuracy after each task, under each aggregation, labels released, what was spent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.classifier import ContinualClassifier
from reticent.lab.baselines.sequential import Latest
from reticent.lab.bench.run import DELTA, Run
from reticent.lab.data.datasets import Data
from reticent.lab.data.streams import Stream
from reticent.lab.evaluation import AccuracyMatrix
from reticent.privacy import events, selection
from reticent.privacy.events import Event
from reticent.released.aggregate import AGGREGATES, Aggregate, Logits, argmax
from reticent.released.ensemble import Ensemble
from reticent.released.model import Model

_MEASURED_AT_EVERY_TASK = 20_000  # labels; above, only after the last task: each measure goes through all of them

Strings = npt.NDArray[np.str_]


class Assigned:
    """Which training example is in which task, and which task is the home of each label."""

    def __init__(self, run: Run, data: Data, labels: Strings) -> None:
        if data.home is None:
            stream = Stream(tasks=run.tasks, ratio=run.ratio / 100, blurry=run.blurry / 100, seed=run.seed)
            self.task, self.homes = stream.tasks_of(labels), stream.homes(labels)
        else:  # the data says which labels come together; the seed says in which order
            order = np.random.default_rng(run.seed).permutation(max(data.home.values()) + 1)
            joined = {label: int(order[home]) * run.tasks // len(order) for label, home in data.home.items()}
            self.homes = {label: joined[label] for label in np.unique(labels).tolist()}
            self.task = np.array([joined[label] for label in labels.tolist()], dtype=np.int64)
        self.tasks = run.tasks

    def examples(self, labels: Strings) -> dict[str, npt.NDArray[np.int64]]:
        """Returns how many examples each label has in each task."""
        return {
            label: np.bincount(self.task[labels == label], minlength=self.tasks) for label in np.unique(labels).tolist()
        }


def measured(
    run: Run,
    data: Data,
    model: ContinualClassifier,
    inputs: Any,
    truth: Strings,
    stream: Assigned,
) -> dict[str, Any]:
    """Returns accuracy on each task's test data after each task, and what follows from it."""
    at = np.array([stream.homes.get(label, -1) for label in truth.tolist()])
    values = np.full((run.tasks, run.tasks), np.nan)
    answers, overall = np.zeros(0, dtype=object), [np.nan] * run.tasks
    logits = _logits(model, inputs)
    for t, answers in _answers(model, inputs, logits):
        right = answers == truth.astype(object)
        if run.labels.startswith("remap-"):
            right = right & np.isin(truth, model.classes_.astype(str))
        overall[t] = _mean(right)
        values[t, : t + 1] = [_mean(right[at == i]) for i in range(t + 1)]
    matrix = AccuracyMatrix(values)
    whole = bool(np.isfinite(values[np.tril_indices(run.tasks)]).all())
    measured: dict[str, Any] = {
        "accuracy": matrix.average_accuracy,
        "forgetting": matrix.forgetting if whole and run.tasks > 1 else None,
        "matrix": [[None if np.isnan(v) else float(v) for v in row] for row in values],
        "curve": [None if np.isnan(v) else float(v) for v in matrix.after_each_task],
        "overall": [None if np.isnan(v) else float(v) for v in overall],  # on the test data of all tasks
        "aggregations": _by_aggregation(model, logits, truth),
        "known": len(set(model.classes_.tolist()) & set(np.unique(data.labels).tolist())),
    }
    if run.labels.startswith("remap-"):
        measured |= _with_parents(data, model, answers, truth)
    return measured


def _answers(
    model: ContinualClassifier,
    inputs: Any,
    logits: Sequence[Logits],
) -> Iterator[tuple[int, npt.NDArray[np.object_]]]:
    """Yields the answers after each task; after the last alone where the label space is huge."""
    full = model.directory.model
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


def _logits(model: ContinualClassifier, inputs: Any) -> list[Logits]:
    """Returns what each task's head says of the test data: computed once, however often it is aggregated."""
    full = model.directory.model
    rule = full.rule.inner if isinstance(full.rule, Latest) else full.rule
    if not isinstance(rule, Ensemble):
        return []
    embedded = rule.scorer(full.releases, full.labels).embed(inputs, model.encoder)
    alone = replace(rule, aggregate=argmax)
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


def _by_aggregation(model: ContinualClassifier, logits: Sequence[Logits], truth: Strings) -> dict[str, float]:
    """Returns the final accuracy of an ensemble under each aggregation function."""
    full = model.directory.model
    if not isinstance(full.rule, Ensemble):
        return {}
    return {name: _mean(full.names(_best(logits, merge)) == truth) for name, merge in AGGREGATES.items()}


def _with_parents(
    data: Data, model: ContinualClassifier, answers: npt.NDArray[np.object_], truth: Strings
) -> dict[str, float]:
    """Returns how often answers are right where the label is public, and the broader label, for all."""
    parents: Mapping[str, str] = data.parents or {}
    public = np.isin(truth, model.classes_.astype(str))
    broader = np.array([parents.get(str(a), str(a)) for a in answers])
    return {
        "public": _mean((answers == truth.astype(object))[public]),
        "parent": _mean(broader == np.array([parents[label] for label in truth.tolist()])),
    }


def _mean(right: Any) -> float:
    return float(np.mean(right)) if len(right) else float("nan")


def classes(
    run: Run, model: ContinualClassifier, examples: Mapping[str, npt.NDArray[np.int64]]
) -> list[list[Any]] | None:
    """Returns size, whether it was released, and the planned chance of release, for each label."""
    if run.labels != "released" or run.epsilon is None:
        return None
    releasing = _releasing(model.releases[-1].event)
    if releasing is None:
        return None
    law = selection.law(releasing)
    known = set(model.classes_.tolist())
    return [
        [int(sizes.sum()), label in known, round(1 - float(np.prod(1 - law.release_probability(sizes[sizes > 0]))), 6)]
        for label, sizes in examples.items()
    ]


def _releasing(event: Event) -> events.LabelSelection | events.JointGaussian | events.LabelCounts | None:
    """Returns the part of a task's event that released its labels; None where a custom learner has another."""
    if isinstance(event, events.LabelSelection | events.JointGaussian | events.LabelCounts):
        return event
    if isinstance(event, events.LabelledTraining):
        return _releasing(event.counts)
    return _releasing(event.parts[0]) if isinstance(event, events.Composed) else None


def spent(run: Run, model: ContinualClassifier) -> dict[str, Any]:
    """Returns the ledger of a run and its total cost; None where that is infinite."""
    statement = model.statement()
    return {
        "epsilon": None if run.spends_without_limit else statement.epsilon,
        "delta": DELTA,
        "statement": statement.text(),
        "ledger": statement.json()["rows"],
    }
