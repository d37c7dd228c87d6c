"""The conformance suite for learners passes ours, and fails each broken twin with its own message."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.encoders import wrap
from reticent.gate.gate import Gate
from reticent.gate.label_sums import sum_by_label
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import GaussianSum
from reticent.lab.baselines.sequential import Desai, Naive
from reticent.labels import LabelSpace
from reticent.memory import remembered
from reticent.privacy import events
from reticent.released.release import Release
from reticent.sensitive.task import Task
from reticent.testing import check_learner, features_task
from tests.assurance.planted import publishing

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
def test_shipped_learners_pass(learner, settings):
    check_learner(learner, **settings)


def test_custom_tasks_and_encoders_are_accepted():
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


@dataclass(frozen=True)
class Twin:
    """Cosine, which each mutant breaks in one way."""

    inner: rt.Cosine = field(default_factory=rt.Cosine)

    @property
    def rule(self):
        return self.inner.rule

    def learn_task(self, task, policy, **others) -> Release:
        return self.inner.learn_task(task, policy, **others)


@dataclass(frozen=True)
class SpendsLate(Twin):
    def learn_task(self, task, policy, **others):
        others["gate"]._noise.words(1)
        return super().learn_task(task, policy, **others)


@dataclass(frozen=True)
class SpendsElsewhere(Twin):
    """Pays into a ledger of its own instead of the one that counts."""

    def learn_task(self, task, policy, **others):
        if type(others["gate"]._ledger) is not Ledger:
            raise errors.BudgetExceeded("no")
        return super().learn_task(task, policy, **{**others, "gate": Gate(Ledger.create(None, others["gate"].budget))})


@dataclass(frozen=True)
class HalfTheNoise(Twin):
    def learn_task(self, task, policy, **others):
        gate, known = others["gate"], others["known"]
        task = gate.admit(task)
        event = policy.sums(gate.budget)
        permit = gate.spend(event, task=task.name)
        exact = sum_by_label(task.inputs, task.labels, known=known, count_weight=0.0)
        half = events.Gaussian(noise_multiplier=event.noise_multiplier / 2)
        return permit.release(parameters={"sums": permit.draw(GaussianSum(half), exact.known)})


@dataclass(frozen=True)
class SpendsByN(Twin):
    """The ledger would tell how many examples there are."""

    def learn_task(self, task, policy, **others):
        gate = others["gate"]
        task = gate.admit(task)
        usual = policy.sums(gate.budget)
        event = replace(usual, noise_multiplier=usual.noise_multiplier + len(task.labels))
        permit = gate.spend(event, task=task.name)
        exact = sum_by_label(task.inputs, task.labels, known=others["known"], count_weight=0.0)
        return permit.release(parameters={"sums": permit.draw(GaussianSum(event), exact.known)})


@dataclass(frozen=True)
class NoNoise(Twin):
    def learn_task(self, task, policy, **others):
        gate, known = others["gate"], others["known"]
        task = gate.admit(task)
        permit = gate.spend(policy.sums(gate.budget), task=task.name)
        exact = sum_by_label(task.inputs, task.labels, known=known, count_weight=0.0)
        return permit.release(parameters={"sums": exact.known})


@dataclass(frozen=True)
class DrawsTwice(Twin):
    def learn_task(self, task, policy, **others):
        gate, known = others["gate"], others["known"]
        task = gate.admit(task)
        event = policy.sums(gate.budget)
        permit = gate.spend(event, task=task.name)
        exact = sum_by_label(task.inputs, task.labels, known=known, count_weight=0.0)
        mean = sum(permit.draw(GaussianSum(event), exact.known) for _ in range(2))
        return permit.release(parameters={"sums": mean})


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
        task = others["gate"].admit(task)
        seen = {label for label in task.labels if isinstance(label, str)} - set(others["known"].labels)
        space = LabelSpace(tuple(sorted(seen)))
        return super().learn_task(task, policy, **publishing(others, lambda **kept: {**kept, "labels": space}))


@dataclass(frozen=True)
class InventsLabels(Twin):
    def learn_task(self, task, policy, **others):
        change = publishing(others, lambda **kept: {**kept, "labels": LabelSpace(("z",))})
        return super().learn_task(task, policy, **change)


def with_parameters(others: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    return publishing(
        others, lambda **kept: {**kept, "parameters": {**kept["parameters"], **change(kept["parameters"])}}
    )


@dataclass(frozen=True)
class ShapeOfN(Twin):
    def learn_task(self, task, policy, **others):
        size = len(others["gate"].admit(task).labels)
        return super().learn_task(task, policy, **with_parameters(others, lambda _: {"seen": np.zeros(size)}))


@dataclass(frozen=True)
class TypeOfN(Twin):
    def learn_task(self, task, policy, **others):
        kind = np.float32 if len(others["gate"].admit(task).labels) else np.float64
        return super().learn_task(
            task, policy, **with_parameters(others, lambda found: {"sums": found["sums"].astype(kind)})
        )


@dataclass(frozen=True)
class ReadsPersonsRaw(Twin):
    def learn_task(self, task, policy, **others):
        return super().learn_task(Task(task.inputs, task.labels, name=task.name), policy, **others)


@dataclass(frozen=True)
class RaisesOnNan(Twin):
    def learn_task(self, task, policy, **others):
        if np.isnan(others["gate"].admit(task).inputs).any():
            raise ValueError("NaN in row 0")
        return super().learn_task(task, policy, **others)


@dataclass(frozen=True)
class WarnsOfZeros(Twin):
    def learn_task(self, task, policy, **others):
        np.divide(1.0, np.abs(others["gate"].admit(task).inputs).sum(axis=1, dtype=np.float64))
        return super().learn_task(task, policy, **others)


@dataclass(frozen=True)
class LetsNanThrough(Twin):
    def learn_task(self, task, policy, **others):
        total = np.array([np.sum(others["gate"].admit(task).inputs[:, 0])], dtype=np.float32)
        return super().learn_task(task, policy, **with_parameters(others, lambda _: {"total": total}))


@dataclass(frozen=True)
class KeepsExamples(Twin):
    kept: list[Any] = field(default_factory=list, repr=False, compare=False)

    def learn_task(self, task, policy, **others):
        self.kept.append(others["gate"].admit(task).labels[:1])
        return super().learn_task(task, policy, **others)


@dataclass(frozen=True)
class NoNumbers:
    """A rule whose scores are NaN."""

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
        (SpendsElsewhere(), "Nothing was spent on this release"),
        (IgnoresRefusals(), "Nothing was spent on this release"),
        (HalfTheNoise(), "was not paid for"),
        (NoNoise(), "to be drawn before its release"),
        (DrawsTwice(), "drawn its Gaussian already"),
        (SaysAnotherEvent(), "what permit.release"),
        (CallsItPrivate(), "what permit.release"),
        (ReadsPersonsRaw(), "admitted by the gate"),
        (SpendsByN(), "spends follows the data"),
        (ShapeOfN(), "follow the data"),
        (TypeOfN(), "follow the data"),
        (RaisesOnNan(), "raises or warns on NaN"),
        (WarnsOfZeros(), "raises or warns on zeros"),
        (LetsNanThrough(), "not finite after NaN"),
        (KeepsExamples(), "state belongs in its releases"),
        (ScoresNothing(), "scores are not numbers"),
        (NotFrozen(), "frozen dataclass"),
        (Desai(QUICK, 2), "whether its noise is private"),
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


@pytest.mark.parametrize("recurring", [None, True])
def test_learners_with_memory_pass(recurring):
    check_learner(rt.Cosine(), memory=rt.Memory(vault="nowhere", horizon=4, recurring=recurring))


@dataclass(frozen=True)
class Forgets(Twin):
    """Says that it remembers, and draws independent noise."""

    remembers: bool = True

    def learn_task(self, task, policy, **others):
        gate, known = others["gate"], others["known"]
        task, event = gate.admit(task), policy.sums(gate.budget)
        permit = gate.spend(event, task=task.name)
        exact = sum_by_label(task.inputs, task.labels, known=known, count_weight=0.0)
        sums = permit.draw(GaussianSum(event), exact.known).astype(np.float32)
        rows = np.arange(len(sums), dtype=np.int32)
        return permit.release(parameters={"rows": rows, "sums": sums, "noise": np.ones(len(sums), np.float32)})


@dataclass(frozen=True)
class OtherEpoch(Twin):
    """Pays for an epoch that is not the vault's."""

    remembers: bool = True

    def learn_task(self, task, policy, **others):
        gate = others["gate"]
        event = remembered(replace(gate.memory.epoch, number=2), policy, gate.budget)
        return gate.spend(event, task=gate.admit(task).name).release(parameters={})


@pytest.mark.parametrize(
    ("learner", "sentence"),
    [
        (Forgets(), "does not draw a row of its epoch"),
        (OtherEpoch(), "the epoch that the vault of this model is for"),
        (Twin(), "does not say that it remembers"),
    ],
)
def test_learners_that_forget_fail(learner, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_learner(learner, policies=PUBLIC, memory=rt.Memory(vault="nowhere", horizon=4))


def test_the_unbroken_twin_passes():
    check_learner(Twin())


def test_default_tasks_tell_labels_apart():
    rows = np.asarray(features_task(["a", "b", None], "x").inputs)
    assert rows.shape == (3, 8)
    assert not np.allclose(rows[0], rows[1])
