"""The gate: the only way from sensitive data to releases. Whatever is drawn was paid for, by construction.

A learner gets a gate, and neither a ledger nor a noise source. It spends an event and gets a permit; the permit draws
each mechanism of that event once and refuses everything else; only what a permit releases can be published.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from reticent import errors, names
from reticent.budget import Budget, Persons
from reticent.gate.ledger import Ledger
from reticent.gate.mechanisms import Mechanism, number_of_runs
from reticent.gate.noise import NoiseSource
from reticent.gate.remembered import Entry, RememberedRows
from reticent.gate.step import Steps
from reticent.labels import LabelSpace
from reticent.privacy import accounting, events, renyi, stored_events
from reticent.privacy.events import Event
from reticent.released import tensors
from reticent.released.release import Array, Release

if TYPE_CHECKING:  # a signature may name what is above this room
    from reticent.gate.epochs import Kept
    from reticent.sensitive.task import Task

Value = TypeVar("Value")
Released = TypeVar("Released")
Result = TypeVar("Result")
_NO_LABELS = LabelSpace(())


class Gate:
    """Owns budget, ledger and noise source while one process may write.

    Guarantees:
      - A permit is given after its spend is durable, and draws nothing else.    test_permits_draw_what_was_paid_for
      - A release that no permit made is not published.                          test_releases_come_from_permits
      - With memory it pays for one task, of the epoch of the vault.           test_a_writer_learns_one_task_with_memory
      - Once closed, and in a forked child, it spends and draws nothing.
                     test_a_closed_gate_spends_and_draws_nothing, test_a_forked_child_loses_and_doubles_nothing
      - What cannot be compiled is refused before the spend.             test_what_cannot_be_compiled_is_not_paid_for

    Args:
        ledger: Where spends go.
        noise: Where noise comes from; the operating system by default. A seeded source is NOT PRIVATE.
        private: False where what is drawn rests on something that was published without privacy, such as labels that
            were read off the data.
        memory: What a model with memory has kept of the tasks before.

    Example:
        >>> import numpy as np
        >>> from reticent.gate.mechanisms import GaussianSum
        >>> gate = Gate(Ledger.create(None, Budget(epsilon=1.0, delta=1e-5)))
        >>> event = events.Gaussian(noise_multiplier=4.0)
        >>> permit = gate.spend(event, task="march")
        >>> noisy = permit.draw(GaussianSum(event), np.zeros(3, np.int64))
        >>> permit.draw(GaussianSum(event), np.zeros(3, np.int64))
        Traceback (most recent call last):
        reticent.errors.NotPaidFor: This permit has drawn its Gaussian already. Noise is paid for once: spend again.
    """

    def __init__(
        self, ledger: Ledger, noise: NoiseSource | None = None, *, private: bool = True, memory: "Kept | None" = None
    ) -> None:
        self._ledger = ledger
        self._memory = memory
        self._noise = NoiseSource.from_os() if noise is None else noise
        self._private = private
        self._admitted: dict[str, Persons] = {}  # how it is known whose the rows are, by task
        self._permits: list[Permit] = []
        self._open, self._process = True, os.getpid()

    def __repr__(self) -> str:
        return f"Gate(budget={self.budget!r}, private={self.private})"

    @property
    def budget(self) -> Budget:
        """What one person may lose over the whole stream."""
        return self._ledger.budget

    @property
    def private(self) -> bool:
        """False if noise comes from a seeded source, or if nothing that is drawn here can be private."""
        return self._private and self._noise.private

    @property
    def memory(self) -> "Kept | None":
        """What a model with memory has kept of the tasks before in its epoch; sensitive. None without memory."""
        return self._memory

    def admit(self, task: "Task") -> "Task":
        """Returns at most as many examples of each person as the budget says; before that they cannot be read."""
        self._admitted[task.name] = task.whose
        return task._capped(self.budget.examples_per_person)

    def spend(self, event: Event, *, task: str, private: bool = True) -> "Permit":
        """Records a spend, durably, and returns the permit to draw it; refuses one that would exceed the budget.

        Args:
            event: What is about to be drawn.
            task: The public name of the task: of one that was admitted, since the same examples under another name
                would be other persons.
            private: False for what is NOT PRIVATE whatever its noise, such as a learner that keeps raw examples; it may
                have another name.
        """
        self._refuse_if_closed()
        task = names.public_name(task)
        if private and self._admitted and task not in self._admitted:
            raise errors.NotPaidFor(f"Expected a spend on the task that was admitted, got the name {task!r}.")
        if any(permit.made is not None for permit in self._permits if permit.task == task):
            raise errors.NotPaidFor(f"Task {task!r} has its release already: nothing more can be spent on it here.")
        parts = drawn_by(event)
        self._refuse_other_epoch(event, task)
        mine = [permit.event for permit in self._permits if permit.task == task]
        whole = events.compose(*mine, event)
        stored_events.from_json(stored_events.to_json(whole))  # a release that could not be read back
        private = private and self.private and events.NonPrivate() not in leaves(event)
        _get_ready(event)
        whose = self._admitted.get(task, Persons.ASSUMED)
        row = self._ledger.spend(event, task=task, private=private, persons=whose)
        permit = Permit(self, event, task, row, self._ledger.is_private(row), parts)
        self._permits.append(permit)
        return permit

    def hides(self, error: Exception) -> bool:
        """Returns whether an exception may depend on private rows: then nobody may see it, see `errors.LearningFailed`.

        Before a task is admitted nothing was read, and after the gate is closed only releases are. In between, refusals
        of ours are about public facts (types, shapes, settings, a budget, what was paid for) as long as nothing is
        spent; afterwards only those of ledger and gate are sure to be. Everything else is hidden, in whatever code it
        was raised; but not where noise is seeded, which is NOT PRIVATE and is how to look for a fault.
        """
        public = errors.LedgerError if self._permits else errors.ReticentError
        return self.private and self._open and bool(self._admitted) and not isinstance(error, public)

    def uniform(self, n: int) -> list[float]:
        """Returns random numbers between 0 and 1 that depend on no data, to draw settings from."""
        self._refuse_if_closed()
        return [word * 2.0**-64 for word in self._noise.words(n).tolist()]

    def rows(self, release: Release) -> list[int]:
        """Returns the rows of the spends that paid for a release; refuses one that no permit of this gate made."""
        self._refuse_if_closed()
        maker = next((permit for permit in self._permits if permit.made is release), None)
        if maker is None:
            raise errors.NotPaidFor(
                f"Nothing was spent on this release of task {release.task!r}: it must not be published. A learner "
                "returns what permit.release(...) made, unchanged."
            )
        return sorted({*maker.paid, *(permit.row for permit in self._paying(release.task))})

    def entry_of(self, release: Release) -> Entry | None:
        """Returns what the vault must keep before a release is published; None without memory."""
        return next((permit.entry for permit in self._permits if permit.made is release), None)

    def close(self) -> None:
        """Ends all permits."""
        self._open = False

    def _refuse_other_epoch(self, event: Event, task: str) -> None:
        """Refuses a spend on an epoch that is not the vault's, and a second one: both would have the same place."""
        if not any(isinstance(part, events.Remembered) for part in leaves(event)):
            return
        if self.memory is None or not self.memory.pays_for(event):
            raise errors.NotPaidFor("Expected an event of the epoch that the vault of this model is for.")
        if any(permit.task == task or isinstance(permit.event, events.Remembered) for permit in self._permits):
            raise errors.NotPaidFor("A writer learns one task with memory, paid for by one spend. Open another writer.")

    def _refuse_if_closed(self) -> None:
        if not self._open:
            raise errors.NotPaidFor("This gate is closed: its writer has finished. Open a new one for each task.")
        if self._process != os.getpid():  # what one spend pays for would be drawn twice
            raise errors.NotPaidFor("This gate was opened by another process. Open a new one in this process.")

    def _paying(self, task: str) -> "list[Permit]":
        """The permits that a release of a task rests on: all of that name, and others that were drawn; not voided."""
        mine = (permit for permit in self._permits if permit.task == task or permit.has_drawn)
        return [permit for permit in mine if not self._ledger.is_voided(permit.row)]


class Permit:
    """What one spend allows: each mechanism of its event, once.

    Guarantees:
      - What was not paid for, was drawn before, has other parameters or was voided is refused.
                                                  test_permits_draw_what_was_paid_for, test_voided_permits_draw_nothing
      - Steps of a training are refused like draws once the gate is closed or the row is voided.
                                                                                 test_steps_end_with_their_gate
      - Labels are counted before a labelled training.                           test_counts_come_before_training
      - Of a private selection only the best run is seen.                        test_only_the_best_run_is_seen
      - A release has the event and the `private` flag of its spends.            test_releases_come_from_permits
      - A release before all of its event was drawn is refused: it could hold values without noise.
                                                                                 test_releases_wait_for_their_draws
      - Threads that share a permit or a run draw each mechanism once.     test_threads_draw_what_was_paid_for_once
    """

    def __init__(self, gate: Gate, event: Event, task: str, row: int, private: bool, parts: Counter[Event]) -> None:
        self.event, self.task, self.row, self.private = event, task, row, private
        self.made: Release | None = None
        self.entry: Entry | None = None  # for the vault
        self.paid: list[int] = []  # the rows that its release rests on, voided since or not
        self._gate, self._parts, self._left = gate, parts, parts.copy()
        self._steps: list[Steps] = []
        self._published = False
        self._lock = threading.Lock()  # taken after `_check`: a forked child is refused and never waits for it

    def __repr__(self) -> str:
        return f"Permit(task={self.task!r}, event={self.event!r})"

    @property
    def has_drawn(self) -> bool:
        """Whether anything was drawn for it."""
        return self._left != self._parts

    @property
    def is_drawn(self) -> bool:
        """Whether all that was paid for is drawn."""
        return not any(self._left.values()) and not any(steps.left for steps in self._steps)

    def draw(self, mechanism: Mechanism[Value, Released], value: Value) -> Released:
        """Draws one mechanism of the event on sensitive data; what it returns may be published with the release."""
        self._take(mechanism.event)
        return self._drawn(mechanism, value)

    def best(self, run: Callable[["RunPermit"], tuple[float, Result]]) -> Result:
        """Makes the runs of a private selection and returns the result of the best one; of equal scores the first.

        How many runs there are is secret and is drawn here; the theorem allows nothing else to be seen of the others.

        Args:
            run: From a permit for one run to its score, on public data, and its result.
        """
        chosen = next((part for part in self._parts if isinstance(part, events.PrivateSelection)), None)
        if chosen is None:
            raise errors.NotPaidFor("This permit has no private selection in its event: nothing is to be repeated.")
        self._take(chosen)
        count = number_of_runs(chosen, rng=self._gate._noise)
        score, best = run(RunPermit(self, chosen.run))
        for _ in range(count - 1):
            reached, result = run(RunPermit(self, chosen.run))
            if reached > score:
                score, best = reached, result
        return best

    def release(self, *, parameters: Mapping[str, Array], labels: LabelSpace = _NO_LABELS) -> Release:
        """Returns the release of the task; everything that this gate has spent on the task must have been drawn.

        Args:
            parameters: Arrays, by name; what no file can hold is refused.
            labels: The labels that became known.
        """
        self._check()
        permits = self._gate._paying(self.task)
        if not all(permit.is_drawn for permit in permits):
            raise errors.NotPaidFor(
                f"Expected everything that was paid for task {self.task!r} to be drawn before its release: values that "
                "were not drawn have no noise."
            )
        if isinstance(self.event, events.Remembered) and (self.entry is None or self.entry.row != self.row):
            raise errors.NotPaidFor("Expected a row that RememberedSums drew for this spend: nothing else can be kept.")
        tensors.refuse_unstorable(parameters)
        self.paid = [permit.row for permit in permits]
        mine = [permit.event for permit in permits if permit.task == self.task]
        self.made = Release(
            task=self.task,
            labels=labels,
            parameters=MappingProxyType(dict(parameters)),
            event=events.compose(*mine),
            private=all(permit.private for permit in permits),
        )
        return self.made

    def publish(self) -> None:
        """Records that what was drawn is published in another form than a release: a noisy accuracy, tuned settings."""
        self._check()
        if not self.is_drawn:
            raise errors.NotPaidFor(
                f"Expected everything that was paid for {self.task!r} to be drawn before it is published: values that "
                "were not drawn have no noise."
            )
        self._gate._ledger.publish(self.row)
        self._published = True

    def _drawn(self, mechanism: Mechanism[Value, Released], value: Value) -> Released:
        drawn = mechanism(value, rng=self._gate._noise)
        if isinstance(drawn, Steps):  # drawn one by one, later: each is refused as a draw would be
            drawn.check = self._check
            self._steps.append(drawn)
        if isinstance(drawn, RememberedRows):  # what it keeps must be in the vault before anything is published
            self.entry = drawn.entry
        return drawn

    def _take(self, event: Event) -> None:
        self._check()
        kind = type(event).__name__
        if event not in self._parts:
            paid = ", ".join(map(_shown, self._parts)) or "nothing"
            raise errors.NotPaidFor(f"{_shown(event)} was not paid for. This permit draws {paid}.")
        with self._lock:
            if not self._left[event]:
                raise errors.NotPaidFor(
                    f"This permit has drawn its {kind} already. Noise is paid for once: spend again."
                )
            if any(event == part.training and self._left[part.counts] for part in _labelled(self.event)):
                raise errors.NotPaidFor(
                    "Expected labels to be counted before training: what is not released is left out."
                )
            self._left[event] -= 1

    def _check(self) -> None:
        self._gate._refuse_if_closed()
        if self.made is not None or self._published:
            raise errors.NotPaidFor("This permit has its release already: nothing more may be drawn for it.")
        if self._gate._ledger.is_voided(self.row):
            raise errors.NotPaidFor(
                f"Row {self.row} of the ledger is voided: nothing may be drawn for it. Spend again."
            )


class RunPermit:
    """What one run of a private selection may draw: one mechanism that spends no more than the selection says."""

    def __init__(self, permit: Permit, most: Event) -> None:
        self._permit, self._most, self._has_drawn = permit, most, False

    def draw(self, mechanism: Mechanism[Value, Released], value: Value) -> Released:
        """Draws the run's mechanism, once."""
        self._permit._check()
        accounting.refuse_fewer_examples(mechanism.event, self._permit._gate.budget)
        with self._permit._lock:
            if self._has_drawn or not renyi.spends_no_more(mechanism.event, self._most):
                raise errors.NotPaidFor(
                    f"{_shown(mechanism.event)} was not paid for. A run draws once, at most {_shown(self._most)}."
                )
            self._has_drawn = True
        return self._permit._drawn(mechanism, value)


def _get_ready(event: Event) -> None:
    """Compiles what an event needs to draw and add up: what a machine cannot do must fail before it was paid for."""
    try:
        from reticent.gate import kernel  # noqa: F401 (importing it compiles it)
        from reticent.gate.noise import normal

        normal.pieces()
        runs = (getattr(part, "run", part) for part in leaves(event))  # what a private selection chooses from, too
        if any(isinstance(part, events.DpSgd) for run in runs for part in leaves(run)):
            from reticent.gate import step_kernel  # noqa: F401
            from reticent.released import adam_kernel  # noqa: F401
    except Exception as error:  # of numba, its settings or its compiler
        raise errors.ReticentError(
            f"The loops that draw noise cannot be compiled here ({type(error).__name__}). Nothing was spent. Install "
            "numba again, and unset the environment variables that begin with NUMBA_."
        ) from error


def leaves(event: Event) -> Iterator[Event]:
    """Yields the parts of an event one by one: those that are drawn, and those published without noise.

    >>> [type(part).__name__ for part in leaves(events.compose(events.Public(), events.NonPrivate()))]
    ['NonPrivate']
    """
    match event:
        case events.Composed(parts=parts):
            for part in parts:
                yield from leaves(part)
        case events.LabelledTraining(counts=counts, training=training):
            yield from (counts, training)
        case events.Public():
            return
        case _:
            yield event


def drawn_by(event: Event) -> Counter[Event]:
    """Returns how often each mechanism of an event is drawn; refuses an event that no mechanism draws."""
    found = list(leaves(event))
    if not found or any(isinstance(part, events.Exposure) for part in found):
        raise errors.InvalidValue("Expected an event that some mechanism draws. What is public needs no spend.")
    return Counter(part for part in found if not isinstance(part, events.NonPrivate))


def _labelled(event: Event) -> Iterator[events.LabelledTraining]:
    if isinstance(event, events.LabelledTraining):
        yield event
    elif isinstance(event, events.Composed):
        for part in event.parts:
            yield from _labelled(part)


def _shown(event: Event) -> str:
    """Returns an event as text, its numbers with six digits."""
    fields = (f"{name}={value:.6g}" for name, value in vars(event).items() if isinstance(value, int | float))
    return f"{type(event).__name__}({', '.join(fields)})"
