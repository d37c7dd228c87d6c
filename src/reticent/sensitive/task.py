"""Task: the sensitive examples of one task, for the time it takes to learn it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from reticent import errors, names
from reticent.budget import Persons
from reticent.labels import LabelSpace
from reticent.numerics.coded import Coded
from reticent.numerics.progress import Bar
from reticent.readers.sources import Held
from reticent.sensitive import columns, task_streams
from reticent.sensitive.batch import Batch
from reticent.sensitive.engines import Engine, InArrow, Local, Part

Result = TypeVar("Result")


class Task:
    """Inputs, labels and optional person ids of one task. Never prints its contents, has no length, cannot be stored.

    Guarantees:
      - Its representation is the same for every task; it has no length and cannot be pickled or copied.
                                                                           test_task_repr_hides_its_contents
      - While it has person ids its examples cannot be read; `Gate.admit` bounds persons and returns a task that can.
                                                                           test_persons_are_bounded_before_reading
      - Errors are read from metadata (number of dimensions, lengths), never from a scan of rows.
                                                                           test_tasks_are_refused_by_metadata

    Args:
        inputs: Features of shape (n, K), or a sequence of texts, images or paths for an encoder.
        labels: One label per example, of any type.
        persons: One id per example: whose it is. Needed to bound what one person contributes.
        name: The public name of the task, such as a month: one line of visible characters.
        each_row_is_a_person: Instead of persons: your word that no two examples are of one person. The statement says
            whose word it is; without ids and without it, that nobody gave it.
        engine: Where its parts are worked on; threads of this process by default.

    Example:
        >>> Task([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        Task(<sensitive>)
    """

    __slots__ = ("_known", "_most", "_pieces", "_source", "_stamps", "engine", "name", "whose")

    def __init__(
        self,
        inputs: Any,
        labels: Any,
        persons: Any = None,
        *,
        name: str = "task",
        each_row_is_a_person: bool = False,
        engine: Engine | None = None,
    ) -> None:
        found = columns.inputs_of(inputs)
        numeric = columns.holds_numbers(labels)
        coded = columns.column_of("labels", labels, found)
        whose = None if persons is None else columns.column_of("persons", persons, found)
        self._fill(task_streams.InMemory(found, coded, whose, numeric), name, each_row_is_a_person, engine)

    @classmethod
    def streamed(
        cls,
        source: task_streams.Source,
        *,
        name: str = "task",
        each_row_is_a_person: bool = False,
        engine: Engine | None = None,
    ) -> "Task":
        """Returns a task whose examples are read batch by batch, when they are learned from.

        Args:
            source: Sensitive: of `readers.open_source`, or `readers.Batches`.
            name: The public name of the task.
            each_row_is_a_person: Your word that no two examples are of one person.
            engine: Where its parts are worked on.
        """
        if not getattr(source, "has_labels", True):  # else learning failed unless there was no row
            raise errors.InvalidValue("Expected a source with labels: name their column, as in Columns(label=...).")
        task = cls.__new__(cls)
        task._fill(source, name, each_row_is_a_person, engine)
        return task

    def _fill(self, source: Any, name: str, each_row_is_a_person: bool, engine: Engine | None) -> None:
        if getattr(source, "used_up", False):
            raise errors.InvalidValue(
                "Expected a reader that was not read yet: this one was learned from. Open it again."
            )
        if source.has_persons and each_row_is_a_person:
            raise errors.InvalidValue("Expected persons, or each_row_is_a_person=True; not both.")
        said = Persons.STATED if each_row_is_a_person else Persons.ASSUMED
        self.whose = Persons.BY_IDS if source.has_persons else said  # public: how the task was passed
        self.name = names.public_name(name)
        if isinstance(source, InArrow):
            engine = source  # rows that stay elsewhere are worked on there
        if engine is not None and (isinstance(engine, type) or not hasattr(engine, "map")):
            raise errors.InvalidValue("Expected an engine, such as rt.engines.Local(threads=2) or rt.engines.Ray().")
        self.engine: Engine = Local() if engine is None else engine
        self._source = source
        self._most: int | None = None  # examples of each person; None until the gate says it
        self._known: LabelSpace | None = None
        self._pieces: list[task_streams.Piece] | None = None
        self._stamps: task_streams.Stamps = {}

    @property
    def numeric(self) -> bool:
        """Whether the column of labels is declared to hold numbers; public."""
        return bool(self._source.numeric)

    @property
    def width(self) -> int | None:
        """How many features an example has, by its declared type; None where inputs are something else. Public."""
        found: int | None = self._source.width
        return found

    @property
    def rereadable(self) -> bool:
        """Whether it can be read more than once: not if it came as an iterator. Public."""
        return bool(getattr(self._source, "rereadable", True))

    @property
    def inputs(self) -> columns.Inputs:
        """What is learned from, all at once. SENSITIVE."""
        self._hold()
        if self._most is None and isinstance(self._source, task_streams.InMemory):
            return self._source.inputs
        return task_streams.collected([batch.inputs for batch in self.batches()], self.no_inputs)

    @property
    def labels(self) -> list[object]:
        """One label per example, all at once. SENSITIVE."""
        self._hold()
        return [label for batch in self.batches() for label in batch.labels]

    @property
    def is_in_memory(self) -> bool:
        """Whether all of it is in memory; public: how it was passed."""
        return isinstance(self._source, task_streams.InMemory)

    @property
    def no_inputs(self) -> columns.Inputs:
        """No input at all, of the shape and type that are declared, by which inputs are refused before the spend."""
        if isinstance(self._source, task_streams.InMemory):
            return self._source.inputs[:0]
        return [] if self.width is None else np.zeros((0, self.width), np.float32)

    def whole(self) -> list[Batch]:
        """Returns all of a task that is in memory as one batch. SENSITIVE."""
        self._refuse_unbounded()
        return [batch for piece in self._parts() for batch in replace(piece, source=piece.source.at_once())]

    def refuse_elsewhere(self) -> None:
        """Refuses, before anything is spent, rows that stay elsewhere: nothing but sums of them comes here."""
        if isinstance(self._source, InArrow):
            iter(self._source)

    def at_hand(self) -> "Task":
        """Returns the task in memory, read in one pass: inputs and labels are of the same rows. SENSITIVE."""
        return self if self.is_in_memory else self.in_memory_of([b.alone() for b in self.batches()], self.no_inputs)

    def in_memory_of(self, batches: Sequence[Batch], nothing: columns.Inputs) -> "Task":
        """Returns a task in memory with what batches hold in place of its own inputs and labels. SENSITIVE.

        Args:
            batches: Made from those of the task.
            nothing: What the inputs are where there is no batch.
        """
        inputs = task_streams.collected([batch.inputs for batch in batches], nothing)
        labels = Coded.joined([batch.labels for batch in batches])
        return self._changed(_source=task_streams.InMemory(inputs, labels, None), _most=None, _known=None)

    def batches(self) -> Iterator[Batch]:
        """Yields all examples in batches of a bounded size, in their order. SENSITIVE."""
        self._refuse_unbounded()
        return self._batches(lambda _: None)

    def _batches(self, show: Callable[[float], None]) -> Iterator[Batch]:
        for piece in _in_turn(self._parts(), show):
            yield from piece
        task_streams.refuse_changed(self._stamps)

    def mapped(self, work: Callable[[Part], Result], *, shown: bool = True) -> Iterator[Result]:
        """Yields what work returns for parts of the task; the engine says where, and in which order. SENSITIVE.

        Args:
            work: From an iterable of batches to a partial result; a frozen value that can be pickled.
            shown: Whether a stream shows its progress on a terminal.
        """
        self._refuse_unbounded()
        with Bar("Learning") as bar:
            show = bar.show if shown and not self.is_in_memory else lambda _: None
            if self.engine.shares_memory:
                shared = task_streams.Shared(self._batches(show))
                yield from self.engine.map(lambda _: shared.worked(work), [shared] * self.engine.ready())
            elif self.rereadable and not isinstance(self._source, task_streams.InMemory | Held):
                parts = (replace(piece, known=None) for piece in _in_turn(self._parts(), show))
                yield from self.engine.map(task_streams.Spelled(work, self._known), parts)  # its workers read them
                task_streams.refuse_changed(self._stamps)
            else:
                yield from self.engine.map(work, ([batch.alone()] for batch in self._batches(show)))

    def ready(self) -> None:
        """Refuses, before anything is spent, an engine that cannot work on this task."""
        files: list[Path] = []
        if not self.engine.shares_memory and self.rereadable:
            files = task_streams.files_of(self._source)
        self.engine.ready(files)

    def _hold(self) -> None:
        """Keeps an iterator in memory where it is read column by column: whoever comes second would find no rows."""
        self._refuse_unbounded()
        if not self.rereadable:
            held = self.at_hand()
            self._source, self._most, self._known, self._pieces = held._source, None, None, None

    def _parts(self) -> list[Any]:
        if not self.rereadable:
            return [task_streams.Once(iter(self._source), self._most, self._known)]
        if self._pieces is None:
            self._stamps = task_streams.stamps(task_streams.files_of(self._source))
            self._pieces = task_streams.pieces(self._source, self._most, self._known)
        return self._pieces

    def __repr__(self) -> str:
        return "Task(<sensitive>)"

    def __getstate__(self) -> NoReturn:
        raise TypeError("A task is sensitive: it cannot be pickled or copied.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("A task is sensitive: it cannot be pickled or copied.")

    def _capped(self, examples_per_person: int) -> "Task":
        """Returns a task that can be read: at most this many examples of each person, the first in the data's order.

        The choice depends on a person's own rows alone; an example whose id is missing is left out (`person_id`).
        Without person ids every example is taken to be of another person.
        """
        if not self._unbounded:
            return self
        return self._changed(_most=examples_per_person)

    def spelled_like(self, known: LabelSpace) -> "Task":
        """Returns the task with its labels as they are known: a number and its text are one label."""
        self._refuse_unbounded()
        return self._changed(_known=known)

    def _changed(self, **changes: Any) -> "Task":
        task = Task.__new__(Task)
        for name in self.__slots__:
            setattr(task, name, changes.get(name, getattr(self, name)))
        task._pieces = None
        return task

    @property
    def _unbounded(self) -> bool:
        return bool(self._source.has_persons) and self._most is None

    def _refuse_unbounded(self) -> None:
        if self._unbounded:
            raise errors.InvalidValue(
                "Expected a task admitted by the gate: gate.admit(task) bounds what one person contributes."
            )


def _in_turn(pieces: Sequence[Any], show: Callable[[float], None]) -> Iterator[Any]:
    """Yields pieces, and shows how many are done."""
    for done, piece in enumerate(pieces):
        show(done / len(pieces))
        yield piece
