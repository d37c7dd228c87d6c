"""The conformance suite for learners: it spends before it draws, and only noisy values follow the data."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.budget import Budget, Persons
from reticent.gate.epochs import Kept
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.gate.remembered import Entry
from reticent.labels import LabelSpace
from reticent.memory import Epoch, Memory, first_epoch
from reticent.numerics.rows import take
from reticent.policies import Policy, PublicLabels, ReleasedLabels
from reticent.privacy import events
from reticent.released.model import Encode, Model
from reticent.released.release import Past, Release
from reticent.sensitive.learners.learner import Learner
from reticent.sensitive.task import Task

_RARE = "a label with one example"
_LABELS = ("a", "b", "c")
_EACH = 400
_INVALID_LABELS: tuple[object, ...] = (None, math.nan, ["a list"], ("a", object()), 7, b"bytes", _RARE)
_WIDTH = 8

# From labels to a task with one example of each label; the name is public.
MakeTask = Callable[[Sequence[object], str], Task]


def features_task(labels: Sequence[object], name: str) -> Task:
    """Makes a task of features that tell labels apart."""
    rows = np.array([_LABELS.index(label) if label in _LABELS else 9 for label in labels], dtype=np.float64)
    angles = rows[:, None] * np.arange(1, _WIDTH + 1) + np.arange(len(labels))[:, None] % 7 / 50
    return Task(np.cos(angles).astype(np.float32).reshape(-1, _WIDTH), labels, name=name)


def check_learner(
    learner: Learner,
    *,
    policies: Sequence[Policy] = (PublicLabels(_LABELS), ReleasedLabels()),
    make_task: MakeTask = features_task,
    encoder: Encode | None = None,
    budget: Budget | None = None,
    memory: Memory | None = None,
) -> None:
    """Checks that a learner keeps the protocol: it spends before it draws, and only noisy values follow the data.

    Guarantees:
      - The learners of this library pass.                     test_shipped_learners_pass
      - Each broken twin fails, with its own message.    test_broken_learners_fail
      - So do values without noise, and features that depend on other rows.    test_values_without_noise_fail,
                                                                  test_features_that_depend_on_other_rows_fail
      - With memory, so do learners that forget or that keep another epoch.    test_learners_that_forget_fail

    What it checks, under each policy:
      - A ledger that refuses stops the task before any noise is drawn.
      - What is drawn was paid for, in the task's name; what is released is what a permit made of it.
      - Neighbours and an empty task cost the same event.
      - A task with persons is read through the gate, which bounds what each contributes.
      - With public labels, neighbours and an empty task give the same names, shapes and dtypes.
      - No label is released that the data does not have, nor one with a single example; none where labels are public.
      - NaN, infinity, invalid labels and empty tasks cause no exception and no warning.
      - What follows the data has noise, new in every task: nothing is the same in several releases of the same data,
        and the same but another in several of a neighbour's.
      - Features depend on their own example alone, to the bit, where an encoder makes them.
      - The learner is a frozen value, and is the same value after a task.
      - Its rule turns one and two releases into one score per example and label.
      - With memory: it says `remembers`, draws rows of the epoch that it is given, and keeps each with a new key.

    Args:
        learner: The learner.
        policies: Label policies it is meant for; public labels must include "a", "b" and "c".
        make_task: From labels and a name to a task with one example of each label.
        encoder: What the learner needs to read the inputs.
        budget: What it may spend; (1, 1e-6) by default. The chance of a false alarm is about its delta.
        memory: Checks it in an epoch of memory; there is no vault, and none is made.

    Example:
        >>> from reticent import Cosine
        >>> check_learner(Cosine())
    """
    settings = getattr(type(learner), "__dataclass_params__", None)
    _require(settings is not None and settings.frozen, "The learner must be a frozen dataclass.")
    for policy in policies:
        given = budget or Budget(epsilon=1.0, delta=1e-6)
        epoch = None if memory is None else first_epoch(memory, given)
        suite = _LearnerSuite(learner, policy, make_task, encoder, given, epoch)
        before = suite.fields()
        suite.check_order()
        suite.check_spends()
        suite.check_persons()
        suite.check_features()
        suite.check_shapes()
        suite.check_unusable_examples()
        suite.check_noise()
        suite.check_rule()
        suite.check_memory()
        _require(suite.fields() == before, "The learner changes while it learns: state belongs in its releases.")


class _Watched(NoiseSource):
    """A source that records whether it was asked for noise."""

    asked = False

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        self.asked = True
        return super().words(n)


class _Refusing(Ledger):
    """A ledger that lets nothing be spent."""

    def spend(self, event: events.Event, *, task: str, private: bool, persons: Persons = Persons.ASSUMED) -> int:
        raise errors.BudgetExceeded(f"Nothing may be spent on {task} here.")


@dataclasses.dataclass(frozen=True)
class _LearnerSuite:
    learner: Learner
    policy: Policy
    make_task: MakeTask
    encoder: Encode | None
    budget: Budget
    epoch: Epoch | None

    def gate(self, ledger: Ledger, noise: NoiseSource | None = None, entries: Sequence[Entry] = ()) -> Gate:
        """A gate, in an epoch of memory with these entries if there is one."""
        return Gate(ledger, noise, memory=None if self.epoch is None else Kept(self.epoch, tuple(entries)))

    @property
    def public(self) -> LabelSpace:
        return self.policy.space if isinstance(self.policy, PublicLabels) else LabelSpace(())

    def fields(self) -> str:
        """All that the learner holds, hidden or not."""
        return repr(vars(self.learner) if hasattr(self.learner, "__dict__") else self.learner)

    def learn(self, task: Task, *, gate: Gate | None = None, past: Past = ()) -> Release:
        """Learns one task, and checks that its release might be published."""
        gate = gate or self.gate(Ledger.create(None, self.budget))
        known = Model(self.public, self.learner.rule, tuple(past)).labels
        try:
            release = self.learner.learn_task(
                task, self.policy, known=known, encoder=self.encoder, gate=gate, past=past
            )
            gate.rows(release)
        except errors.NotPaidFor as error:
            raise AssertionError(f"The learner draws or releases what it did not pay for. {error}") from error
        return release

    def check_order(self) -> None:
        source, ledger = _Watched(seed=None), _Refusing.create(None, self.budget)
        refused = False
        try:
            self.learn(self.make_task(self.everyone, "task"), gate=self.gate(ledger, source))
        except errors.BudgetExceeded:
            refused = True
        _require(not source.asked, "Noise is drawn before it is paid for.")
        _require(refused, "The learner continues after the ledger has refused.")

    def check_spends(self) -> None:
        for noise in (NoiseSource.from_os(), NoiseSource.seeded(1)):
            with Ledger.create(None, self.budget) as ledger:
                release = self.learn(self.make_task(self.everyone, "task"), gate=self.gate(ledger, noise))
                spends = ledger.statement().spends
            _require({spend.task for spend in spends} == {release.task} == {"task"}, "The task's name is not kept.")
            _require(release.private is noise.private, "The release does not say whether its noise is private.")

    def check_persons(self) -> None:
        """A task of one person must be learned, with as many examples as the budget says."""
        many = self.make_task(self.everyone, "task")
        try:
            self.learn(Task(many.inputs, many.labels, ["one"] * len(self.everyone), name="task"))
        except errors.InvalidValue as error:
            raise AssertionError(f"The learner does not bound what one person contributes. {error}") from error

    def check_features(self) -> None:
        """Of each example the same, whichever others are beside it."""
        if self.encoder is None:
            return
        labels = self.everyone[:: _EACH // 4]
        inputs = self.make_task(labels, "task").inputs
        whole = np.asarray(self.encoder(inputs))
        for kept in (np.arange(1, len(labels)), np.arange(0, len(labels), 2)):
            same = np.array_equal(whole[kept], np.asarray(self.encoder(take(inputs, kept))), equal_nan=True)
            _require(same, "Features of one example depend on the others: encode each by itself.")

    def check_noise(self) -> None:
        """An entry that is the same in three releases of one task, and another in three of a neighbour's, has none."""
        tasks = self.everyone, self.everyone[1:]
        many = [[self.learn(self.make_task(labels, "task")).parameters for _ in range(3)] for labels in tasks]
        for name in set(many[0][0]).intersection(*(found for side in many for found in side)):
            mine, theirs = ([found[name] for found in side] for side in many)
            if len({value.shape for value in (*mine, *theirs)}) > 1:
                continue  # other labels were released: there is nothing to compare
            still = _same(mine) & _same(theirs) & (mine[0] != theirs[0])
            _require(not np.any(still), "A value of the release follows the data without noise.")

    def check_shapes(self) -> None:
        releases = [
            self.learn(self.make_task(labels, "task"))
            for labels in (self.everyone, self.everyone[1:], (*self.everyone, _RARE), self.everyone[: _EACH + 1], ())
        ]
        for release in releases:
            _require(release.event == releases[0].event, "What the learner spends follows the data.")
            _require(_RARE not in release.labels, "A label with one example is released.")
            if isinstance(self.policy, PublicLabels):
                _require(not len(release.labels), "Labels are released where labels are public.")
                same = _shapes(release) == _shapes(releases[-1])
                _require(same, "Names, shapes or types of the parameters follow the data.")
            else:
                _require(set(release.labels.labels) <= set(_LABELS), "A label is released that the data does not have.")
                same = _kinds(release) == _kinds(releases[-1])
                _require(same, "Names, dimensions or types of the parameters follow the data.")
            if release.labels == releases[0].labels:
                _require(_shapes(release) == _shapes(releases[0]), "Shapes of the parameters follow the data.")

    def check_unusable_examples(self) -> None:
        usual = self.make_task(self.everyone, "task")
        tasks = {
            "invalid labels": self.make_task((*self.everyone, *_INVALID_LABELS), "task"),
            "nothing but invalid labels": self.make_task(_INVALID_LABELS, "task"),
            "an empty task": self.make_task((), "task"),
        }
        if isinstance(usual.inputs, np.ndarray) and usual.inputs.dtype.kind == "f":
            for name, value in (("NaN", np.nan), ("infinity", np.inf), ("huge values", 1e38), ("zeros", 0.0)):
                inputs = usual.inputs.copy()
                inputs[:1] = value
                tasks[name] = Task(inputs, usual.labels, name="task")
        for name, task in tasks.items():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    release = self.learn(task)
                except Exception as error:
                    raise AssertionError(f"The learner raises or warns on {name}: that reveals the data.") from error
            finite = all(np.isfinite(value).all() for value in release.parameters.values())
            _require(finite, f"Parameters are not finite after {name}.")

    def check_rule(self) -> None:
        past, ledger, kept = list[Release](), Ledger.create(None, self.budget), list[Entry]()
        test = self.make_task(_LABELS, "test")
        for name in ("first", "second"):
            gate = self.gate(ledger if self.epoch else Ledger.create(None, self.budget), entries=kept)
            past.append(self.learn(self.make_task(self.everyone, name), gate=gate, past=past))
            kept += [entry for entry in [gate.entry_of(past[-1])] if entry is not None]
            model = Model(self.public, self.learner.rule, tuple(past))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                scores = model.scores(test.inputs, self.encoder)
            _require(scores.shape == (len(_LABELS), len(model.labels)), "The rule has not one score for each label.")
            _require(not np.isnan(scores).any(), "The rule's scores are not numbers.")

    def check_memory(self) -> None:
        """Rows of one epoch, each kept, with a key of its own."""
        if self.epoch is None:
            return
        _require(getattr(self.learner, "remembers", False) is True, "The learner does not say that it remembers.")
        ledger, past, kept = Ledger.create(None, self.budget), list[Release](), list[Entry]()
        for name in ("first", "second", "third"):
            gate = self.gate(ledger, entries=kept)
            past.append(self.learn(self.make_task(self.everyone[:: _EACH // 4], name), gate=gate, past=past))
            mine = isinstance(past[-1].event, events.Remembered)
            entry = gate.entry_of(past[-1])
            _require(mine and entry is not None, "The learner does not draw a row of its epoch: it forgets.")
            kept += [] if entry is None else [entry]
        _require(len({entry.key for entry in kept}) == len(kept), "Noise of two tasks has the same key.")

    @property
    def everyone(self) -> tuple[str, ...]:
        return tuple(label for label in _LABELS for _ in range(_EACH))


def _same(values: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    equal: npt.NDArray[np.bool_] = np.logical_and.reduce([value == values[0] for value in values])
    return equal


def _shapes(release: Release) -> list[tuple[str, tuple[int, ...], object]]:
    return [(name, value.shape, value.dtype) for name, value in release.parameters.items()]


def _kinds(release: Release) -> list[tuple[str, int, object]]:
    return [(name, value.ndim, value.dtype) for name, value in release.parameters.items()]


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence)
