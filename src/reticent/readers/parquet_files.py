"""Parquet: streamed by row group. Every cell is read by itself; one that is no Python object is missing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.numerics.coded import Coded
from reticent.readers import parquet_cells, parquet_types
from reticent.readers.examples import Columns, Examples, refuse_missing, refuse_type
from reticent.readers.limits import refuse_too_large
from reticent.readers.sources import BATCH, PART, Source, guarded

Kinds = tuple[tuple[str, Any], ...]

_MOST = 1 << 16  # rows of a batch
_CELL = 64  # bytes that a Python object takes, at least
_BUFFER = 1 << 16  # bytes of each column that are read ahead in a large row group
_LARGE = 1 << 27  # bytes of one
_REST = 4  # times the features: other columns that decide how many rows make a batch
_FOOTER = {"thrift_string_size_limit": 1 << 24, "thrift_container_size_limit": 1 << 20}


@dataclass(frozen=True, repr=False)
class ParquetSource:
    """Row groups of a file.

    Args:
        path: The file.
        columns: Which columns are what.
        kinds: From each wanted column to its type.
        large: Whether a row group takes much memory.
        groups: The row groups that are read; None for all.
    """

    path: Path
    columns: Columns
    kinds: Kinds
    large: bool
    groups: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        return f"ParquetSource({self.path.name})"

    @property
    def has_labels(self) -> bool:
        """Whether examples have labels."""
        return self.columns.label is not None

    @property
    def has_persons(self) -> bool:
        """Whether examples say whose they are."""
        return self.columns.person is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of features; none where these have none."""
        return names(self.columns, self.kinds)

    @property
    def numeric(self) -> bool:
        """Whether labels are declared to be numbers or truth values."""
        return numeric(self.columns, self.kinds)

    @property
    def width(self) -> int | None:
        """How many features a row has; None where inputs are texts or images."""
        return width(self.columns, self.kinds)

    @property
    def size(self) -> int:
        """Bytes that all of it takes in memory at least."""
        objects = len(self.columns.wanted) - len(self.columns.features)
        with self._opened() as file:
            rows: int = file.metadata.num_rows
            return max(rows * (objects * _CELL + (self.width or 0) * 8), sum(_sizes(file.metadata)))

    def __iter__(self) -> Iterator[Examples]:
        """Reads the examples in batches."""
        return guarded(self._examples(), _unreadable(self.path))

    def ids(self) -> Iterator[Coded]:
        """Reads the person ids alone."""
        name = self.columns.person
        batches = iter(()) if name is None else self._batches([name])
        return guarded((parquet_cells.coded(batch[name]) for batch in batches), _unreadable(self.path))

    def parts(self) -> list[Source]:
        """Returns row groups, small ones together: a part reads the footer of the file again."""
        with self._opened() as file:
            sizes = _sizes(file.metadata)
        found: list[list[int]] = [[]]
        filled = 0
        for group in range(len(sizes)) if self.groups is None else self.groups:
            if found[-1] and filled + sizes[group] > PART:
                found.append([])
                filled = 0
            found[-1].append(group)
            filled += sizes[group]
        return [replace(self, groups=tuple(groups)) for groups in found]

    def _opened(self) -> Any:
        """Opens the file; columns of a large row group are read in pieces, which takes a little longer."""
        texts = [name for name, kind in self.kinds if parquet_types.is_text(kind)]
        buffer = _BUFFER if self.large else 0
        try:
            with errors.silenced():
                return library().ParquetFile(
                    self.path, read_dictionary=texts, buffer_size=buffer, pre_buffer=False, **_FOOTER
                )
        except Exception:  # pyarrow has a dozen kinds
            raise errors.InvalidValue(_unreadable(self.path)) from None

    def _examples(self) -> Iterator[Examples]:
        memory = parquet_cells.SideBySide()
        for batch in self._batches(list(self.columns.wanted)):
            yield parquet_cells.examples_of(batch, self.columns, self.path.parent, memory)

    def _batches(self, wanted: list[str]) -> Iterator[Any]:
        """Reads record batches; one that is empty where there is no other, because it has a schema."""
        import pyarrow

        found, threads = False, pyarrow.cpu_count() > 1  # to hand columns to a single thread takes longer than to read
        with self._opened() as file:
            if kinds_of(file.schema_arrow, self.columns) != self.kinds:
                raise errors.InvalidValue(f"{self.path.name} has another schema than when it was opened.")
            groups = range(file.metadata.num_row_groups) if self.groups is None else self.groups
            for group in groups:
                rows = self._rows_at_once(file.metadata.row_group(group))
                for batch in file.iter_batches(rows, row_groups=[group], columns=wanted, use_threads=threads):
                    yield batch
                    found = True
            if not found:
                yield parquet_cells.empty(file.schema_arrow, wanted)

    def _rows_at_once(self, group: Any) -> int:
        """Returns how many rows make a batch: by their features, unless the group says that the rest is larger."""
        row = group.total_byte_size // max(group.num_rows, 1)
        kinds = dict(self.kinds)
        features = sum(parquet_types.feature_bytes(kinds[name]) for name in self.columns.features)
        return min(max(BATCH // max(features if row < _REST * features else row, 1), 1), _MOST)


def open_parquet(path: Path, columns: Columns, *, labelled: bool) -> ParquetSource:
    """Opens a file whose schema has the wanted columns; every row is a row, with labels or not."""
    del labelled
    if not columns.inputs:
        raise errors.InvalidValue("Expected the column with the inputs: --text, --image or --features.")
    parquet = library()
    try:
        with errors.silenced(), parquet.ParquetFile(path, **_FOOTER) as file:
            schema, metadata = file.schema_arrow, file.metadata
            found = checked(path, columns, schema)
            for size in _sizes(metadata):
                refuse_too_large(path, size)
            large = max(_sizes(metadata), default=0) > _LARGE
            return ParquetSource(path, columns, found, large)
    except errors.ReticentError:
        raise
    except Exception:  # pyarrow has a dozen kinds
        raise errors.InvalidValue(_unreadable(path)) from None


def refuse_other_schemas(files: Sequence[Any]) -> None:
    """Refuses files of which a wanted column has another type than in the first one; one of no cell at all has none.

    But not in place of lists, whose length it would have to say.
    """
    known: dict[str, Any] = {}
    for file in files:
        for name, kind in file.kinds:
            first = known.setdefault(name, kind)
            if str(first) == "null":
                known[name] = kind
            elif str(kind) != "null" and kind != first:
                refuse_type(file.path, name, kind, f"{str(first)[:60]} as the files before it")
    for file in files:
        for name, kind in file.kinds:
            if str(kind) == "null" and parquet_types.list_size(known[name]):
                refuse_type(file.path, name, kind, f"{str(known[name])[:60]} as the other files")


def library() -> Any:
    """Returns pyarrow's reader and writer of Parquet, or says how to install it: a core install is smaller without."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise errors.ReticentError("Parquet files need pyarrow: pip install 'reticent[parquet]'.") from None
    return parquet


def checked(path: Path, columns: Columns, schema: Any) -> Kinds:
    """Returns the types of the wanted columns; refuses a schema without one, or by which no cell could be used."""
    refuse_missing(path, columns.wanted, schema.names)
    _refuse_types(path, columns, schema)
    return kinds_of(schema, columns)


def width(columns: Columns, kinds: Kinds) -> int | None:
    """Returns how many features a row has; None where inputs are texts or images."""
    given = columns.features
    return parquet_types.list_size(dict(kinds)[given[0]]) or len(given) if given else None


def names(columns: Columns, kinds: Kinds) -> tuple[str, ...]:
    """Returns the names of the columns of features; a column of lists names none."""
    lists = any(parquet_types.list_size(dict(kinds)[name]) for name in columns.features)
    return () if lists else tuple(columns.features)


def numeric(columns: Columns, kinds: Kinds) -> bool:
    """Returns whether labels are declared to be numbers or truth values."""
    return columns.label is not None and bool(parquet_types.is_number(dict(kinds)[columns.label]))


def kinds_of(schema: Any, columns: Columns) -> Kinds:
    """Returns the types of the wanted columns; all that hold texts are one, as pyarrow may read one as another."""
    import pyarrow

    kinds = ((name, parquet_types.plain(schema.field(name).type)) for name in columns.wanted)
    return tuple((name, pyarrow.string() if parquet_types.is_text(kind) else kind) for name, kind in kinds)


def _sizes(metadata: Any) -> list[int]:
    """Returns the size of each row group; pyarrow ends the process where it is asked for a broken column's."""
    return [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]


def _refuse_types(path: Path, columns: Columns, schema: Any) -> None:
    """Refuses columns whose type says that every cell would be left out."""
    one = len(columns.features) == 1
    number = parquet_types.is_features if one else parquet_types.is_number
    numbers = "lists of numbers of one fixed size, or numbers" if one else "numbers"
    wanted: list[tuple[str | None, Callable[[Any], bool], str]] = [
        (columns.text, parquet_types.is_text, "texts"),
        (columns.image, parquet_types.is_text, "paths of images"),
        *((name, number, numbers) for name in columns.features),
        (columns.label, parquet_types.is_label, "labels: texts or numbers"),
        (columns.person, parquet_types.is_id, "ids"),
    ]
    for name, fits, expected in wanted:
        kind = None if name is None else schema.field(name).type
        if name is not None and not fits(parquet_types.plain(kind)) and str(kind) != "null":  # of no cell at all
            refuse_type(path, name, kind, expected)


def _unreadable(path: Path) -> str:
    return f"{path.name} is not a readable Parquet file."
