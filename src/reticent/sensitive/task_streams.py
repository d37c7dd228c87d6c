"""Where the examples of a task come from: memory, a file that can be read again, or an iterator that cannot."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.labels import LabelSpace, Spellings
from reticent.numerics.coded import Coded
from reticent.readers import Examples
from reticent.readers.sources import Held, Shards
from reticent.sensitive.batch import Batch
from reticent.sensitive.columns import Inputs
from reticent.sensitive.persons import Counters, Marks, kept_of_each

Result = TypeVar("Result")

_BYTES = 1 << 24  # of features in a batch
_ROWS = 1 << 14  # in a batch of anything else


class Source(Protocol):
    """Sensitive: examples that can be read again, batch by batch. Files are read by `readers`, whose sources are these.

    Whether there are persons and whether labels are numbers is read from metadata, before any row.
    """

    @property
    def has_persons(self) -> bool:
        """Whether each example says whose it is."""

    @property
    def numeric(self) -> bool:
        """Whether the column of labels is declared to hold numbers."""

    @property
    def width(self) -> int | None:
        """How many features an example has; None where inputs are for an encoder."""

    def __iter__(self) -> Iterator[Examples]:
        """Starts anew, and yields examples of a bounded size."""

    def ids(self) -> Iterator[Coded]:
        """Yields the person ids alone, of the same rows in the same order."""

    def parts(self) -> "Sequence[Source]":
        """Returns pieces that can be read apart from each other; one after another they are the source."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """Sensitive: a source of columns in memory; features are never copied."""

    inputs: Inputs
    labels: Coded
    persons: Coded | None
    numeric: bool = False

    def __repr__(self) -> str:
        return "InMemory(<sensitive>)"

    @property
    def has_persons(self) -> bool:
        """Whether each example says whose it is."""
        return self.persons is not None

    @property
    def width(self) -> int | None:
        """How many features an example has; None where inputs are something else."""
        return self.inputs.shape[1] if isinstance(self.inputs, np.ndarray) and self.inputs.ndim == 2 else None

    def __iter__(self) -> Iterator[Examples]:
        size = self._rows_at_once()
        for start in range(0, max(1, len(self.labels)), size):  # one batch at least: it has a shape
            part = slice(start, start + size)
            whose = None if self.persons is None else self.persons.taken(part)
            yield Examples(self.inputs[part], self.labels.taken(part), whose)

    def at_once(self) -> Iterator[Examples]:
        """Yields all of it in one batch."""
        yield Examples(self.inputs, self.labels, self.persons)

    def parts(self) -> "list[InMemory]":
        """Itself: what is in memory is shared out batch by batch."""
        return [self]

    def ids(self) -> Iterator[Coded]:
        """All ids at once."""
        if self.persons is not None:
            yield self.persons

    def _rows_at_once(self) -> int:
        if not isinstance(self.inputs, np.ndarray) or self.inputs.ndim < 2:
            return _ROWS
        row = self.inputs.dtype.itemsize * int(np.prod(self.inputs.shape[1:], dtype=np.int64))
        return max(1, _BYTES // max(1, row))


@dataclass(frozen=True, eq=False)
class Piece:
    """Sensitive: a part of a task as batches, with the rows of each person bounded and labels in their spelling.

    Args:
        source: What is read.
        marks: Which rows count; None where all do.
        known: The labels in whose spelling those of the batches are; None leaves them.
    """

    source: Iterable[Examples]
    marks: Marks | None = None
    known: LabelSpace | None = None

    def __repr__(self) -> str:
        return "Piece(<sensitive>)"

    def __iter__(self) -> Iterator[Batch]:
        at, spelled = 0, None if self.known is None else Spellings(self.known)
        for examples in self.source:
            size = len(examples.inputs)
            rows = None if self.marks is None else self.marks.rows(at, at + size)
            yield batch_of(examples, rows, spelled)
            at += size
        if self.marks is not None and at != len(self.marks):
            raise errors.InvalidValue("Expected a source that has the same rows whenever it is read.")


@dataclass(frozen=True, eq=False)
class Spelled:
    """Work on parts with labels as they are known; an engine sends it once, and known labels may be millions.

    Args:
        work: From a part to its result.
        known: The labels in whose spelling those of the batches are; None leaves them.
    """

    work: "Callable[[Iterable[Batch]], Any]"
    known: LabelSpace | None

    def __call__(self, part: Any) -> Any:
        """Returns the result of a piece."""
        return self.work(replace(part, known=self.known))


@dataclass(frozen=True, eq=False)
class Once:
    """Sensitive: an iterator of examples, read once; counters of persons are carried along, of all of them."""

    source: Iterator[Examples]
    most: int | None = None
    known: LabelSpace | None = None

    def __repr__(self) -> str:
        return "Once(<sensitive>)"

    def __iter__(self) -> Iterator[Batch]:
        counters = None if self.most is None else Counters(self.most)
        spelled = None if self.known is None else Spellings(self.known)
        for examples in self.source:
            whose = () if examples.persons is None else examples.persons
            rows = None if counters is None else np.flatnonzero(counters.kept(Coded.of(whose)))
            yield batch_of(examples, rows, spelled)


class Shared:
    """Batches that several threads take turns to read, each the next one that nobody has."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches, self._lock, self._stopped = batches, threading.Lock(), False

    def __iter__(self) -> Iterator[Batch]:
        while True:
            with self._lock:
                batch = None if self._stopped else next(self._batches, None)
            if batch is None:
                return
            yield batch

    def worked(self, work: "Callable[[Iterable[Batch]], Result]") -> Result:
        """Returns what work makes of the batches that it gets; where it fails, nobody gets another one."""
        try:
            return work(self)
        except BaseException:
            self._stopped = True
            raise


def batch_of(examples: Examples, rows: npt.NDArray[np.int64] | None, spelled: Spellings | None) -> Batch:
    """Returns the examples that count, with labels as they are known: a number and its text are one label."""
    labels = Coded.of(() if examples.labels is None else examples.labels)
    labels = labels if rows is None else labels.taken(rows)
    return Batch(examples.inputs, rows, labels if spelled is None else labels.mapped(spelled.one))


def pieces(source: Source, most: int | None, known: LabelSpace | None) -> list[Piece]:
    """Returns the parts of a source; where persons are bounded, their ids are read before anything else.

    Args:
        source: Sensitive.
        most: How many examples of each person count; None where there are no ids.
        known: The labels in whose spelling those of the batches are.
    """
    if isinstance(source, InMemory) and known is not None:  # entries are looked up once, not in each batch
        source, known = replace(source, labels=source.labels.mapped(Spellings(known).one)), None
    parts = source.parts()
    if most is None:
        return [Piece(part, None, known) for part in parts]
    marks = kept_of_each([_Ids(part) for part in parts], most)
    return [Piece(part, kept, known) for part, kept in zip(parts, marks, strict=True)]


Stamps = dict[Path, tuple[int, int, int] | None]


def files_of(source: Any) -> list[Path]:
    """Returns the files and folders that a source is read from; none where it is in memory."""
    opened = source.files if isinstance(source, Shards) else (source,)
    return [file.path for file in opened if hasattr(file, "path") and not isinstance(file, Held)]


def stamps(files: Iterable[Path]) -> Stamps:
    """Returns the size of each file, when it was last written and where it lies; None where there is none."""
    return {path: _stamp(path) for path in files}


def refuse_changed(before: Stamps) -> None:
    """Refuses files that were written to, or replaced, since these stamps: rows are known by their places in them.

    Guarantees:
      - A file with as many rows, in another order, is refused.       test_a_file_that_is_rewritten_publishes_nothing
    """
    if stamps(before) != before:
        raise errors.InvalidValue("A file changed while it was read. Learn from files that nobody writes to.")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


@dataclass(frozen=True, eq=False)
class _Ids:
    source: Source

    def __iter__(self) -> Iterator[Coded]:
        return self.source.ids()


def collected(inputs: "Sequence[Inputs]", nothing: Inputs) -> Inputs:
    """Returns the inputs of batches at once, for what needs them in memory.

    Args:
        inputs: Of each batch.
        nothing: What it is where there is none.
    """
    arrays = [part for part in inputs if isinstance(part, np.ndarray)]
    if not arrays:
        return [cell for part in inputs for cell in part] if inputs else nothing
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
