"""The conformance suite for learners passes ours, and fails each broken twin with a sentence of its own."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.encoders import wrap
from reticent.gate.ledger import Ledger
from reticent.lab.baselines.sequential import Desai, Naive
from reticent.labels import LabelSpace
from reticent.privacy import events
from reticent.released.release import Release
from reticent.sensitive.task import Task
from reticent.testing import check_learner, features_task

PUBLIC = (rt.PublicLabels(["a", "b", "c"]),)
QUICK = rt.PeftEnsemble(task_size=600, epochs=1, rate=0.5)


@pytest.mark.parametrize(
    ("learner", "settings"),
    [
        (rt.Cosine(), {}),
        (rt.Cosine.paper(), {"policies": (*PUBLIC, rt.ReleasedLabels.paper())}),
        (rt.PeftEnsemble(), {}),
        (QUICK, {"policies": (*PUBLIC, rt.ReleasedLabels.paper(0.3))}),
        (Naive(QUICK), {"policies": PUBLIC}),
    ],
)
def test_learners_pass(learner, settings):
    check_learner(learner, **settings)


def test_tasks_and_encoders_may_be_ones_own():
    def texts(labels, name):
        return Task([str(label) for label in labels], labels, name=name)

    def lengths(inputs):
        return np.array([[len(text), 1.0] for text in inputs], dtype=np.float32).reshape(-1, 2)

    check_learner(
        rt.Cosine(),
        make_task=texts,
        encoder=wrap(lengths, width=2, name="lengths"),
        budget=rt.Budget(epsilon=4.0, delta=1e-6),
    )


def unwatched(others: dict[str, Any]) -> dict[str, Any]:
    """A ledger of one's own instead of the one that counts."""
    return {**others, "ledger": Ledger.create(None, others["budget"])}


@dataclass(frozen=True)
class Twin:
    """Cosine, which each mutant spoils in one way."""

    inner: rt.Cosine = field(default_factory=rt.Cosine)

    @property
    def rule(self):
        return self.inner.rule

    def learn_task(self, task, policy, **others) -> Release:
        return self.inner.learn_task(task, policy, **others)


@dataclass(frozen=True)
class SpendsLate(Twin):
    def learn_task(self, task, policy, **others):
        release = super().learn_task(task, policy, **unwatched(others))
        others["ledger"].spend(release.event, task=task.name, private=others["rng"].private)
        return release


@dataclass(frozen=True)
class SpendsNothing(Twin):
    def learn_task(self, task, policy, **others):
        if type(others["ledger"]) is not Ledger:
            raise errors.BudgetExceeded("no")
        return super().learn_task(task, policy, **unwatched(others))


@dataclass(frozen=True)
class IgnoresRefusals(Twin):
    def learn_task(self, task, policy, **others):
        try:
            return super().learn_task(task, policy, **others)
        except errors.BudgetExceeded:
            return Release(task=task.name, labels=LabelSpace(()), parameters={}, event=events.Public(), private=True)


@dataclass(frozen=True)
class SaysAnotherEvent(Twin):
    def learn_task(self, task, policy, **others):
        return replace(super().learn_task(task, policy, **others), event=events.Public())


@dataclass(frozen=True)
class CallsItPrivate(Twin):
    def learn_task(self, task, policy, **others):
        return replace(super().learn_task(task, policy, **others), private=True)


@dataclass(frozen=True)
class LabelsFromData(Twin):
    def learn_task(self, task, policy, **others):
        release = super().learn_task(task, policy, **others)
        seen = {label for label in task.labels if isinstance(label, str)}
        return replace(release, labels=LabelSpace(tuple(sorted(seen - set(others["known"].labels)))))


@dataclass(frozen=True)
class InventsLabels(Twin):
    def learn_task(self, task, policy, **others):
        return replace(super().learn_task(task, policy, **others), labels=LabelSpace(("z",)))


@dataclass(frozen=True)
class ShapeOfN(Twin):
    def learn_task(self, task, policy, **others):
        release = super().learn_task(task, policy, **others)
        return replace(release, parameters={**release.parameters, "seen": np.zeros(len(task.labels))})


@dataclass(frozen=True)
class TypeOfN(Twin):
    def learn_task(self, task, policy, **others):
        release = super().learn_task(task, policy, **others)
        sums = release.parameters["sums"].astype(np.float32 if len(task.labels) else np.float64)
        return replace(release, parameters={**release.parameters, "sums": sums})


@dataclass(frozen=True)
class RaisesOnNan(Twin):
    def learn_task(self, task, policy, **others):
        if np.isnan(task.inputs).any():
            raise ValueError("NaN in row 0")
        return super().learn_task(task, policy, **others)


@dataclass(frozen=True)
class WarnsOfZeros(Twin):
    def learn_task(self, task, policy, **others):
        np.divide(1.0, np.abs(task.inputs).sum(axis=1, dtype=np.float64))
        return super().learn_task(task, policy, **others)


@dataclass(frozen=True)
class LetsNanThrough(Twin):
    def learn_task(self, task, policy, **others):
        release = super().learn_task(task, policy, **others)
        total = np.array([np.sum(task.inputs[:, 0])], dtype=np.float32)
        return replace(release, parameters={**release.parameters, "total": total})


@dataclass(frozen=True)
class KeepsExamples(Twin):
    kept: list[Any] = field(default_factory=list, repr=False, compare=False)

    def learn_task(self, task, policy, **others):
        self.kept.append(task.labels[:1])
        return super().learn_task(task, policy, **others)


@dataclass(frozen=True)
class NoNumbers:
    """A rule whose scores are no numbers."""

    inner: Any

    def scorer(self, releases, labels):
        found = self.inner.scorer(releases, labels)
        return replace(found, score=lambda features: np.full((len(features), len(found.rows)), np.nan, np.float32))


@dataclass(frozen=True)
class ScoresNothing(Twin):
    @property
    def rule(self):
        return NoNumbers(self.inner.rule)


@dataclass
class NotFrozen:
    rule: Any = None


@pytest.mark.parametrize(
    ("learner", "sentence"),
    [
        (SpendsLate(), "Noise is drawn before it is paid for"),
        (SpendsNothing(), "Nothing is spent"),
        (IgnoresRefusals(), "goes on when the ledger refuses"),
        (SaysAnotherEvent(), "event is not what was spent"),
        (CallsItPrivate(), "whether its noise is private"),
        (ShapeOfN(), "follow the data"),
        (TypeOfN(), "follow the data"),
        (RaisesOnNan(), "raises or warns on NaN"),
        (WarnsOfZeros(), "raises or warns on zeros"),
        (LetsNanThrough(), "not finite after NaN"),
        (KeepsExamples(), "state belongs in its releases"),
        (ScoresNothing(), "scores are not numbers"),
        (NotFrozen(), "frozen dataclass"),
        (Desai(QUICK, 2), "name is not kept"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_broken_learners_fail(learner, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_learner(learner, policies=PUBLIC)


@pytest.mark.parametrize(
    ("learner", "policy", "sentence"),
    [
        (LabelsFromData(), rt.ReleasedLabels(), "label with one example is released"),
        (LabelsFromData(), *PUBLIC, "one example is released|labels are public"),
        (InventsLabels(), rt.ReleasedLabels(), "the data does not have"),
        (InventsLabels(), *PUBLIC, "labels are public"),
        (TypeOfN(), rt.ReleasedLabels(), "follow the data"),
    ],
)
def test_labels_from_the_data_fail(learner, policy, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_learner(learner, policies=[policy])


def test_the_twin_itself_passes():
    check_learner(Twin())


def test_default_tasks_tell_labels_apart():
    rows = np.asarray(features_task(["a", "b", None], "x").inputs)
    assert rows.shape == (3, 8)
    assert not np.allclose(rows[0], rows[1])
