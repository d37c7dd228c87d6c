"""Task: the sensitive examples of one task, for the time it takes to learn it."""

from typing import Any, NoReturn

from reticent import errors, names
from reticent.budget import Persons
from reticent.labels import LabelSpace, Spellings
from reticent.numerics.rows import take
from reticent.sensitive import columns
from reticent.sensitive.persons import first_of_each


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

    Example:
        >>> Task([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
        Task(<sensitive>)
    """

    __slots__ = ("_inputs", "_labels", "_persons", "name", "numeric", "whose")

    def __init__(
        self,
        inputs: Any,
        labels: Any,
        persons: Any = None,
        *,
        name: str = "task",
        each_row_is_a_person: bool = False,
    ) -> None:
        if persons is not None and each_row_is_a_person:
            raise errors.InvalidValue("Expected persons, or each_row_is_a_person=True; not both.")
        said = Persons.STATED if each_row_is_a_person else Persons.ASSUMED
        self.whose = said if persons is None else Persons.BY_IDS  # public: how the task was passed
        self._inputs = columns.inputs_of(inputs)
        self._labels = columns.column_of("labels", labels, self._inputs)
        self.numeric = columns.holds_numbers(labels)  # public: what the column of labels declares
        self._persons = None if persons is None else columns.column_of("persons", persons, self._inputs)
        self.name = names.public_name(name)

    @property
    def inputs(self) -> columns.Inputs:
        """What is learned from. SENSITIVE."""
        self._refuse_unbounded()
        return self._inputs

    @property
    def labels(self) -> list[object]:
        """One label per example. SENSITIVE."""
        self._refuse_unbounded()
        return self._labels

    def __repr__(self) -> str:
        return "Task(<sensitive>)"

    def __getstate__(self) -> NoReturn:
        raise TypeError("A task is sensitive: it cannot be pickled or copied.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("A task is sensitive: it cannot be pickled or copied.")

    def _capped(self, examples_per_person: int) -> "Task":
        """Returns a task that can be read: at most this many examples of each person, the first in the data's order.

        The choice depends on a person's own rows alone; an example whose id is missing (None, NaN) is left out. Without
        person ids every example is taken to be of another person.
        """
        if self._persons is None:
            return self
        kept = first_of_each(self._persons, examples_per_person)
        inputs = take(self._inputs, kept)
        capped = Task(inputs, [self._labels[i] for i in kept], name=self.name)
        capped.whose = self.whose
        return capped

    def spelled_like(self, known: LabelSpace) -> "Task":
        """Returns the task with its labels as they are known: a number and its text are one label."""
        task = Task(self._inputs, Spellings(known).of(self.labels), name=self.name)
        task.whose = self.whose
        return task

    def _refuse_unbounded(self) -> None:
        if self._persons is not None:
            raise errors.InvalidValue(
                "Expected a task admitted by the gate: gate.admit(task) bounds what one person contributes."
            )
