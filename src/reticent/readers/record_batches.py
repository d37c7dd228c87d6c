"""Batches: record batches of pyarrow as examples, from wherever a program has them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.numerics.coded import Coded
from reticent.readers import parquet_cells, parquet_files
from reticent.readers.examples import Columns, Examples
from reticent.readers.sources import BATCH, guarded

_SHOWN = Path("these record batches")
_UNREADABLE = "These record batches cannot be read."
_ROW = 64  # bytes of a row, at least


class Batches:
    """Record batches to learn from, such as those of a database or of a data set. Nothing is read before the spend.

    A table, a data set or a list of record batches can be read again. A `RecordBatchReader` is read once: then one
    counter for each person, and one vector for each label that is not known yet, stay in memory until the end.

    Guarantees:
      - Columns are refused by their types, before anything is read or spent.
                                                                              test_record_batches_are_refused_by_schema
      - A reader that was learned from is refused, before anything is spent.  test_a_reader_is_learned_once
      - Learned as a file that holds the same rows.                           test_streams_are_learned_like_arrays

    Args:
        batches: A `pyarrow.Table`, `RecordBatchReader` or `dataset.Dataset`, or a list of record batches.
        label: The column with labels.
        text: The column with texts,
        image: or with paths of images,
        features: or the columns of numbers, in order; or one column of lists of a fixed size.
        person: The column that says whose example it is.

    Example:
        >>> import pyarrow as pa
        >>> table = pa.table({"note": ["chest pain"], "code": ["I20"]})
        >>> Batches(table, text="note", label="code")
        Batches(<sensitive>)
    """

    def __init__(
        self,
        batches: Any,
        *,
        label: str,
        text: str | None = None,
        image: str | None = None,
        features: str | Sequence[str] = (),
        person: str | None = None,
    ) -> None:
        given = (features,) if isinstance(features, str) else tuple(features)
        self.columns = Columns(text=text, image=image, features=given, label=label, person=person)
        if not self.columns.inputs:
            raise errors.InvalidValue("Expected the column with the inputs: text, image or features.")
        first = batches[0] if isinstance(batches, list | tuple) and batches else batches
        schema = getattr(first, "schema", None)
        if not hasattr(schema, "names") or not (hasattr(batches, "to_batches") or hasattr(batches, "__iter__")):
            raise errors.InvalidValue(
                "Expected a pyarrow Table, RecordBatchReader or Dataset, or a list of record batches: something with a "
                "schema. Of a generator make one: pyarrow.RecordBatchReader.from_batches(schema, generator)."
            )
        self._batches = batches
        self._kinds = parquet_files.checked(_SHOWN, self.columns, schema)
        self._begun = False
        for batch in batches if isinstance(batches, list | tuple) else ():
            other = getattr(batch, "schema", None)
            if not hasattr(other, "names") or parquet_files.checked(_SHOWN, self.columns, other) != self._kinds:
                raise errors.InvalidValue("Expected record batches of one schema.")

    def __repr__(self) -> str:
        return "Batches(<sensitive>)"

    @property
    def rereadable(self) -> bool:
        """Whether it can be read more than once: a reader cannot."""
        return hasattr(self._batches, "to_batches") or isinstance(self._batches, list | tuple)

    @property
    def used_up(self) -> bool:
        """Whether it was read, and cannot be read again."""
        return self._begun and not self.rereadable

    @property
    def has_labels(self) -> bool:
        """Whether examples have labels: always."""
        return True

    @property
    def has_persons(self) -> bool:
        """Whether examples say whose they are."""
        return self.columns.person is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of features; a column of lists names none."""
        return parquet_files.names(self.columns, self._kinds)

    @property
    def numeric(self) -> bool:
        """Whether labels are declared to be numbers or truth values."""
        return parquet_files.numeric(self.columns, self._kinds)

    @property
    def width(self) -> int | None:
        """How many features a row has; None where inputs are texts or images."""
        return parquet_files.width(self.columns, self._kinds)

    def __iter__(self) -> Iterator[Examples]:
        """Yields the examples in batches of a bounded size. SENSITIVE."""
        self._begun = True
        return guarded(self._examples(), _UNREADABLE)

    def ids(self) -> Iterator[Coded]:
        """Yields the person ids alone. SENSITIVE."""
        name = self.columns.person
        batches = iter(()) if name is None else iter(self._given())
        return guarded((parquet_cells.coded(batch[name]) for batch in batches), _UNREADABLE)

    def parts(self) -> "list[Batches]":
        """Returns itself alone: it is read here."""
        return [self]

    def _examples(self) -> Iterator[Examples]:
        memory = parquet_cells.SideBySide()
        size = max(1, BATCH // max(_ROW, 4 * (self.width or 0)))
        for batch in self._given():
            if parquet_files.kinds_of(batch.schema, self.columns) != self._kinds:
                raise errors.InvalidValue("Expected record batches of one schema.")
            for start in range(0, max(1, batch.num_rows), size):
                yield parquet_cells.examples_of(batch.slice(start, size), self.columns, Path(), memory)

    def _given(self) -> Iterable[Any]:
        given: Iterable[Any] = self._batches.to_batches() if hasattr(self._batches, "to_batches") else self._batches
        return given
