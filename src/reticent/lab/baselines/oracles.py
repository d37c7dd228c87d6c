"""Baselines of the paper that are NOT private: they exist to measure what privacy costs.

Nothing here can be reached from a model or the command line. Releases are marked not private, their event is infinite,
and only the lab's own ledger accepts it.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from reticent import errors
from reticent.budget import Budget, Persons
from reticent.classifier import ContinualClassifier
from reticent.directory import Directory
from reticent.gate import grid, label_sums
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.labels import Label, LabelSpace, in_public_order
from reticent.policies import Policy, PublicLabels
from reticent.privacy import accounting, events
from reticent.privacy.events import Event
from reticent.released import denoise
from reticent.released.ensemble import Ensemble
from reticent.released.heads import ROWS
from reticent.released.model import Encode
from reticent.released.release import Past, Release
from reticent.released.sums import Sums
from reticent.sensitive.learners.cosine import noisy_sums
from reticent.sensitive.learners.learner import Learner
from reticent.sensitive.learners.peft import PeftEnsemble, fit, prepared
from reticent.sensitive.learners.seen import seen
from reticent.sensitive.task import Task

# Exact sums carry no noise; combinations that divide by it need some number.
_HARDLY_ANY_NOISE = 1e-6
_HARDLY_ANY_CLIPPING = 64.0
_TOTAL = Sums(denoise.total)


class LabLedger(Ledger):
    """Records everything and refuses nothing, in memory only; its statement says infinity."""

    def spend(self, event: Event, *, task: str, private: bool, persons: Persons = Persons.ASSUMED) -> int:
        """Records a spend; one that a real ledger would refuse is not private."""
        with contextlib.suppress(errors.BudgetExceeded):
            super()._refuse_unaffordable(event, task)
            return super().spend(event, task=task, private=private, persons=persons)
        return super().spend(event, task=task, private=False, persons=persons)

    def _refuse_unaffordable(self, event: Event, task: str) -> None:
        """Nothing is."""


def experiment(
    learner: Learner, labels: Policy, *, budget: Budget, encoder: Encode | None = None
) -> ContinualClassifier:
    """Returns a classifier for a non-private learner, with a ledger that accepts it.

    Example:
        >>> model = experiment(NoPrivacy(), PublicLabels(["a"]), budget=Budget(epsilon=1.0, delta=1e-5))
        >>> _ = model.learn_task(np.ones((1, 2)), ["a"], name="march")
        >>> "NOT PRIVATE" in model.privacy_statement()
        True
    """
    model = ContinualClassifier(encoder=encoder, learner=learner, labels=labels, budget=budget)
    model._directory = Directory.create(None, labels, learner.rule, budget, ledger=LabLedger)
    return model


def without_noise(learner: PeftEnsemble) -> PeftEnsemble:
    """Returns a learner that trains without privacy: practically no clipping and no noise, an infinite cost.

    Use it alone, in `Naive` or in `Desai`; only the ledger of an `experiment` accepts it.

    Example:
        >>> event = without_noise(PeftEnsemble()).calibrate(events.Public(), None, rate=0.2, steps=100)
        >>> accounting.epsilon(event, 1e-5)
        inf
    """
    return replace(learner, calibrate=_no_noise, clip_norm=_HARDLY_ANY_CLIPPING)


def _no_noise(beside: Event, budget: Budget | None, *, rate: float, steps: int) -> events.DpSgd:
    return events.DpSgd(noise_multiplier=_HARDLY_ANY_NOISE, rate=rate, steps=steps)


def base_dataset(labels: Iterable[object]) -> PublicLabels:
    """The paper's Base Dataset: every label that occurs anywhere in the data is taken as public. It is not.

    So it costs infinity, whatever learns with it, and every release is NOT PRIVATE; only an `experiment` accepts it.

    Example:
        >>> accounting.epsilon(base_dataset(["b", "a", "b"]).space.event, 1e-5)
        inf
    """
    return PublicLabels(LabelSpace(in_public_order(label_sums.count_by_label(labels)), events.NonPrivate()))


@dataclass(frozen=True)
class NoPrivacy:
    """Exact sums of whatever labels there are: the paper's columns without privacy."""

    rule: Sums = _TOTAL

    def learn_task(
        self, task: Task, policy: Policy, *, known: LabelSpace, encoder: Encode | None, gate: Gate, past: Past = ()
    ) -> Release:
        """Publishes exact sums."""
        task = gate.admit(task)
        looked = seen(task, encoder, past)
        new = _new(task.labels, known)
        permit = gate.spend(events.NonPrivate(), task=task.name)
        everything = known.union(new)
        exact = looked.known_sums(everything)
        parameters = {
            "rows": np.arange(len(everything), dtype=np.int32),
            "sums": (exact / grid.SCALE).astype(np.float32),
            "noise": np.full(len(everything), _HARDLY_ANY_NOISE, dtype=np.float32),
        }
        return permit.release(labels=new, parameters=parameters)


@dataclass(frozen=True)
class LabelOracle:
    """The paper's Label Oracle: private sums, but each task's labels are read off its data."""

    rule: Sums = _TOTAL

    def learn_task(
        self, task: Task, policy: Policy, *, known: LabelSpace, encoder: Encode | None, gate: Gate, past: Past = ()
    ) -> Release:
        """Publishes noisy sums of exactly the labels that occur."""
        task, budget = gate.admit(task), gate.budget
        looked, labels = seen(task, encoder, past), task.labels
        new = _new(labels, known)
        gaussian = events.Gaussian(
            noise_multiplier=accounting.gaussian_sigma(budget), examples_per_person=budget.examples_per_person
        )
        permit = gate.spend(events.compose(gaussian, events.NonPrivate()), task=task.name)
        found: set[Label] = set(label_sums.count_by_label(labels))
        return noisy_sums(looked, known, new, gaussian, permit, updated=found)


@dataclass(frozen=True)
class OracleHeads:
    """The Label Oracle for PEFT: private training, but each task's head has exactly the labels of its data."""

    learner: PeftEnsemble

    @property
    def rule(self) -> Ensemble:
        """Heads, aggregated."""
        return self.learner.rule

    def learn_task(
        self, task: Task, policy: Policy, *, known: LabelSpace, encoder: Encode | None, gate: Gate, past: Past = ()
    ) -> Release:
        """Trains a head over the labels that occur."""
        learner = self.learner.resolved(encoder)
        task = gate.admit(task)
        inputs = prepared(learner, task.inputs, encoder, past)
        training = learner.calibrate(events.Public(), gate.budget, rate=learner.rate or 1.0, steps=learner.steps)
        permit = gate.spend(events.compose(training, events.NonPrivate()), task=task.name)
        new = _new(task.labels, known)
        everything = known.union(new)
        at = label_sums.places(task.labels, everything.row)
        rows = np.unique(at[at >= 0])
        places = np.where(at >= 0, np.searchsorted(rows, at), -1)
        parameters = fit(learner, inputs, places, len(rows), encoder, training, permit)
        return permit.release(labels=new, parameters={ROWS: rows.astype(np.int32), **parameters})


def _new(labels: list[object], known: LabelSpace) -> LabelSpace:
    found = in_public_order(label_sums.count_by_label(labels))
    return LabelSpace(tuple(label for label in found if label not in known), events.NonPrivate())
