"""Source: examples of a file in batches of bounded size, read anew each time they are asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from reticent import errors
from reticent.numerics.coded import Coded
from reticent.readers.examples import Examples, NamedColumns

BATCH = 1 << 24  # bytes of inputs that are held at once, about
PART = 1 << 26  # bytes of a file that one worker reads at a time, about


T = TypeVar("T")


class Source(Protocol):
    """What readers make of a file: its batches, its pieces, and what its schema declares. Reading starts when iterated.

    Guarantees:
      - Each pass over it, and its parts one after another, give the same examples.  test_parts_and_passes_are_the_whole
      - A pass gives at least one batch, which may be empty: its shape and types are declared by the schema.
                                                                                    test_an_empty_file_is_an_empty_batch
      - Ids that are read alone are those of the examples.                  test_ids_alone_are_those_of_the_examples
      - Batches are of bounded size, whatever the number of rows.                       test_batches_are_of_bounded_size
    """

    @property
    def path(self) -> Path:
        """Where it is read from; parts of one file share it."""

    @property
    def has_labels(self) -> bool:
        """Whether examples have labels."""

    @property
    def has_persons(self) -> bool:
        """Whether examples say whose they are."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of features; none where these have none."""

    @property
    def numeric(self) -> bool:
        """Whether labels are declared to be numbers or truth values; False where nothing is declared."""

    @property
    def width(self) -> int | None:
        """How many features a row has; None where inputs are texts or images."""

    @property
    def size(self) -> int:
        """Bytes that all of it would take in memory at least, as far as it is declared; 0 where nothing is."""

    def __iter__(self) -> Iterator[Examples]:
        """Reads the examples in batches, from the first one on. SENSITIVE."""

    def ids(self) -> Iterator[Coded]:
        """Reads the person ids alone, of the same rows in the same order; none where there are none. SENSITIVE."""

    def parts(self) -> "list[Source]":
        """Returns pieces that can be read apart, in order: together they are the whole."""


@dataclass(frozen=True)
class Shards:
    """Several files of one schema, one after another."""

    path: Path
    files: "tuple[Source, ...]"

    @property
    def has_labels(self) -> bool:
        """Whether examples have labels."""
        return self.files[0].has_labels

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of features; none where these have none."""
        return self.files[0].names

    @property
    def has_persons(self) -> bool:
        """Whether examples say whose they are."""
        return self.files[0].has_persons

    @property
    def numeric(self) -> bool:
        """Whether labels are declared to be numbers or truth values; a shard without any label declares nothing."""
        return any(file.numeric for file in self.files)

    @property
    def width(self) -> int | None:
        """How many features a row has."""
        return self.files[0].width

    @property
    def size(self) -> int:
        """Bytes that all of it would take in memory at least."""
        return sum(file.size for file in self.files)

    def __iter__(self) -> Iterator[Examples]:
        """Reads the examples in batches."""
        for file in self.files:
            yield from file

    def ids(self) -> Iterator[Coded]:
        """Reads the person ids alone."""
        for file in self.files:
            yield from file.ids()

    def parts(self) -> "list[Source]":
        """Returns the parts of all files."""
        return [part for file in self.files for part in file.parts()]


@dataclass(frozen=True, repr=False)
class Held:
    """Sensitive: examples that were read already, from what cannot be read twice: standard input."""

    path: Path
    examples: Examples
    width: int | None
    numeric: bool = False
    size: int = 0

    def __repr__(self) -> str:
        return "Held(<sensitive>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Examples are sensitive: they cannot be pickled or copied.")

    @property
    def has_labels(self) -> bool:
        """Whether examples have labels."""
        return self.examples.labels is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of features; none where these have none."""
        return tuple(getattr(self.examples.inputs, "columns", ()))

    @property
    def has_persons(self) -> bool:
        """Whether examples say whose they are."""
        return self.examples.persons is not None

    def __iter__(self) -> Iterator[Examples]:
        """Gives the examples, in one batch."""
        yield self.examples

    def ids(self) -> Iterator[Coded]:
        """Gives the person ids."""
        if self.examples.persons is not None:
            yield Coded.of(self.examples.persons)

    def parts(self) -> "list[Source]":
        """Returns itself alone."""
        return [self]


def guarded(batches: Iterator[T], sentence: str) -> Iterator[T]:
    """Yields batches of a reader, silently; whatever a library raises about a file becomes one sentence.

    Args:
        batches: What the reader yields.
        sentence: What is said of a file that cannot be read.
    """
    while True:
        try:
            with errors.silenced():  # not while others use the batch
                batch = next(batches, None)
        except errors.ReticentError:
            raise
        except Exception:  # each library has a dozen kinds
            raise errors.InvalidValue(sentence) from None
        if batch is None:
            return
        yield batch


def joined(batches: Sequence[Examples]) -> Examples:
    """Returns batches as one."""
    first = batches[0]
    if len(batches) == 1:
        return first
    labels = None if first.labels is None else Coded.joined([Coded.of(batch.labels or ()) for batch in batches])
    persons = None if first.persons is None else Coded.joined([Coded.of(batch.persons or ()) for batch in batches])
    kept = {name: [cell for batch in batches for cell in batch.kept[name]] for name in first.kept}
    return Examples(_inputs([batch.inputs for batch in batches]), labels, persons, kept)


def _inputs(inputs: Sequence[Any]) -> Any:
    if not isinstance(inputs[0], np.ndarray):
        return [cell for batch in inputs for cell in batch]
    whole = np.concatenate(inputs)
    names = getattr(inputs[0], "columns", None)
    return whole if names is None else named(whole, names)


def named(features: Any, columns: Sequence[str]) -> NamedColumns:
    """Returns features that know the names of their columns."""
    found = features.view(NamedColumns)
    found.columns = list(columns)
    return found  # type: ignore[no-any-return]
