"""Measures of a learned stream: accuracy after each task, under each aggregation, labels released, what was spent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.classifier import ContinualClassifier
from reticent.lab.baselines.sequential import Latest
from reticent.lab.bench import catalogue
from reticent.lab.bench.orders import MOST_TASKS, in_every_order, order_of
from reticent.lab.bench.run import DELTA, TASKS, Run
from reticent.lab.data.datasets import Data
from reticent.lab.data.streams import Stream
from reticent.lab.evaluation import AccuracyMatrix
from reticent.privacy import events, selection
from reticent.privacy.events import Event
from reticent.released.aggregate import AGGREGATES, argmax, pooled
from reticent.released.ensemble import Ensemble
from reticent.released.heads import NOISE
from reticent.released.model import Floats, Model

_MEASURED_AT_EVERY_TASK = 600  # labels; above, only after the last task: each measure goes through all of them

Strings = npt.NDArray[np.str_]


class Assigned:
    """Which training example is in which task, and which task is the home of each label."""

    def __init__(self, run: Run, data: Data, labels: Strings) -> None:
        if data.home is None:
            stream = Stream(tasks=run.tasks, ratio=run.ratio / 100, blurry=run.blurry / 100, seed=run.seed)
            self.task, self.homes = stream.tasks_of(labels), stream.homes(labels)
        else:  # the data says which labels come together; the seed says in which order
            order = order_of(run.seed, max(data.home.values()) + 1)
            joined = {label: int(order[home]) * run.tasks // len(order) for label, home in data.home.items()}
            self.homes = {label: joined[label] for label in np.unique(labels).tolist()}
            self.task = np.array([joined[label] for label in labels.tolist()], dtype=np.int64)
        self.tasks = run.tasks
        self._to_tune = self.task == 0
        if data.tuned_on is not None and data.home is not None:
            at, share = data.tuned_on
            mine = np.flatnonzero([data.home[label] == at for label in labels.tolist()])
            some = np.random.default_rng([run.seed, 7]).permutation(mine)[: max(1, round(share * len(mine)))]
            self._to_tune = np.isin(np.arange(len(labels)), some)
        elif run.tasks == 1 or run.ratio:  # settings are those of one task of a disjoint stream, as in the paper
            self._to_tune = Stream(tasks=TASKS if run.tasks == 1 else run.tasks, seed=run.seed).tasks_of(labels) == 0

    def to_tune(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns the training examples that settings are tuned on: one task, or what the data says the paper took."""
        some: npt.NDArray[np.int64] = rows[self._to_tune]
        return some

    def leave_out(self, places: npt.NDArray[np.int64]) -> None:
        """Takes training examples out of all tasks, by their places among them."""
        self.task[places] = -1

    def examples(self, labels: Strings) -> dict[str, npt.NDArray[np.int64]]:
        """Returns how many examples each label has in each task."""
        used = self.task >= 0
        return {
            label: np.bincount(self.task[used & (labels == label)], minlength=self.tasks)
            for label in np.unique(labels).tolist()
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
    embedded = _embedded(model, inputs)
    for t, answers in _answers(model, inputs, embedded):
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
        "forgetting_curve": [float(v) for v in matrix.forgetting_after_each_task] if whole else None,
        "overall": [None if np.isnan(v) else float(v) for v in overall],  # on the test data of all tasks
        "aggregations": _by_aggregation(model, embedded, truth, at),
        "known": len(set(model.classes_.tolist()) & set(np.unique(data.labels).tolist())),
    }
    if data.home is not None and _shows_every_order(run):
        measured |= in_every_order(
            run.tasks,
            lambda some: _of_tasks(model, inputs, embedded, some, truth, at),
        )
    if run.labels.startswith("remap-"):
        measured |= _with_parents(data, model, answers, truth)
    return measured


def _answers(
    model: ContinualClassifier, inputs: Any, embedded: Floats | None
) -> Iterator[tuple[int, npt.NDArray[np.object_]]]:
    """Yields the answers after each task; after the last alone where the label space is huge."""
    full = model.directory.model
    rule = full.rule
    if embedded is not None and isinstance(rule, Ensemble | Latest):
        for t in range(len(full.releases)):
            tasks = range(t if isinstance(rule, Latest) else 0, t + 1)
            yield t, full.names(_best(rule, full, tasks, embedded))
        return
    part, prepared = Model(full.public, rule), full.prepared(inputs, model.encoder)  # once, not after each task
    for t, release in enumerate(full.releases):
        part = part.with_release(release) if t + 1 < len(full.releases) else full
        if part is full or len(part.labels) <= _MEASURED_AT_EVERY_TASK:
            yield t, part.names(part.answers_to(prepared))


def _shows_every_order(run: Run) -> bool:
    """Whether one training tells how every order of the tasks would have gone."""
    free = catalogue.entry(run.learner).any_order and run.labels.startswith(("base", "public-"))
    return free and 1 < run.tasks <= MOST_TASKS


def _of_tasks(
    model: ContinualClassifier,
    inputs: Any,
    embedded: Floats | None,
    tasks: Sequence[int],
    truth: Strings,
    at: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    """Returns the accuracy on the test data of each of some tasks, of a model that has learned these alone."""
    full = model.directory.model
    if embedded is not None and isinstance(full.rule, Ensemble):
        answers = full.names(_best(full.rule, full, tasks, embedded))
    else:
        part = Model(full.public, full.rule, tuple(full.releases[t] for t in tasks))
        answers = part.names(part.answers_to(full.prepared(inputs, model.encoder)))
    right = answers == truth.astype(object)
    return np.array([_mean(right[at == t]) for t in tasks])


def _embedded(model: ContinualClassifier, inputs: Any) -> Floats | None:
    """Returns what heads read of the test data: computed once, however often it is scored. None for other rules."""
    full = model.directory.model
    rule = full.rule.inner if isinstance(full.rule, Latest) else full.rule
    if not isinstance(rule, Ensemble):
        return None
    return replace(rule, aggregate=argmax).scorer(full.releases, full.labels).embed(inputs, model.encoder)


def _best(rule: Ensemble | Latest, full: Model, tasks: Sequence[int], embedded: Floats) -> npt.NDArray[np.int64]:
    """Returns the row of the best label of each example by the heads of some tasks; -1 where they know none."""
    scorer = rule.scorer(tuple(full.releases[t] for t in tasks), full.labels)
    if not len(scorer.rows):
        return np.full(len(embedded), -1, dtype=np.int64)
    mine = embedded[:, list(tasks)] if embedded.ndim == 3 else embedded
    best: npt.NDArray[np.int64] = scorer.rows[scorer.score(mine).argmax(axis=1)]
    return best


def _by_aggregation(
    model: ContinualClassifier, embedded: Floats | None, truth: Strings, at: npt.NDArray[np.int64]
) -> dict[str, float]:
    """Returns the average accuracy after the last task, under each aggregation function that an ensemble allows."""
    full = model.directory.model
    if embedded is None or not isinstance(full.rule, Ensemble):
        return {}
    rules = {name: replace(full.rule, aggregate=merge) for name, merge in AGGREGATES.items()}
    if not all(NOISE in release.parameters for release in full.releases):
        del rules[pooled.__name__]
    tasks = range(len(full.releases))
    right = {name: full.names(_best(rule, full, tasks, embedded)) == truth for name, rule in rules.items()}
    return {name: float(np.mean([_mean(found[at == t]) for t in tasks])) for name, found in right.items()}


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
