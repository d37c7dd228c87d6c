"""Parquet: every cell is read by itself; one that is no Python object (text that is not UTF-8) is None."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.readers.examples import Columns, refuse_missing, refuse_type
from reticent.readers.limits import LONGEST_CELL, refuse_too_large

_ROWS = 1 << 16  # read at a time
_CELL = 64  # bytes that a Python object takes, at least
_FOOTER = {"thrift_string_size_limit": 1 << 24, "thrift_container_size_limit": 1 << 20}


def read_parquet(path: Path, columns: Columns, *, labelled: bool) -> dict[str, list[object]]:
    """Returns the wanted columns, as Python objects; every row is a row, with labels or not."""
    parquet = library()
    del labelled
    try:
        schema = parquet.read_schema(path)
        refuse_missing(path, columns.wanted, schema.names)
        _refuse_types(path, columns, schema)
        texts = [name for name in columns.wanted if _is_text(_plain(schema.field(name).type))]
        with errors.silenced(), parquet.ParquetFile(path, read_dictionary=texts, **_FOOTER) as file:
            cells = file.metadata.num_rows * len(columns.wanted)
            refuse_too_large(path, max(cells * _CELL, _uncompressed(file.metadata)))
            return _read(file, columns, {name: _Typed(schema.field(name).type) for name in columns.wanted})
    except errors.ReticentError:
        raise
    except Exception:  # pyarrow has a dozen kinds
        raise errors.InvalidValue(f"{path.name} is not a readable Parquet file.") from None


def library() -> Any:
    """Returns pyarrow's reader and writer of Parquet, or says how to install it: a core install is smaller without."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise errors.ReticentError("Parquet files need pyarrow: pip install 'reticent[parquet]'.") from None
    return parquet


class _Typed(list[object]):
    """Cells of a column, with the type that the file declares: what no label can be is refused by it."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.type = _plain(kind)


def _read(file: Any, columns: Columns, found: dict[str, Any]) -> dict[str, list[object]]:
    for batch in file.iter_batches(batch_size=_ROWS, columns=list(columns.wanted)):
        for name, cells in found.items():
            cells += _values(batch[name])
    return found


def _values(column: Any) -> Iterator[object]:
    """Yields cells; of a dictionary each entry that occurs is read once, however many rows have it."""
    if not hasattr(column, "dictionary"):
        return map(_value, column)
    places = column.indices.to_pylist()
    entries = {place: _value(column.dictionary[place]) for place in set(places) if place is not None}
    return map(entries.get, places)


def _value(cell: Any) -> object:
    """Returns a cell as a Python object, None where it is none (text that is not UTF-8, a date beyond the calendar)."""
    try:
        if hasattr(cell, "as_buffer") and cell.is_valid and cell.as_buffer().size > LONGEST_CELL:
            return None
        value: object = cell.as_py()
    except (ValueError, OverflowError):
        return None
    return value


def _uncompressed(metadata: Any) -> int:
    """Returns the size of all row groups; pyarrow ends the process where it is asked for a broken column's."""
    return sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))


def _refuse_types(path: Path, columns: Columns, schema: Any) -> None:
    """Refuses columns whose type says that every cell would be left out."""
    wanted: list[tuple[str | None, Callable[[Any], bool], str]] = [
        (columns.text, _is_text, "texts"),
        (columns.image, _is_text, "paths of images"),
        *((name, _is_number, "numbers") for name in columns.features),
        (columns.label, _is_label, "labels: texts or numbers"),
        (columns.person, _is_id, "ids"),
    ]
    for name, fits, expected in wanted:
        kind = None if name is None else schema.field(name).type
        if name is not None and not fits(_plain(kind)) and str(kind) != "null":  # of no cell at all
            refuse_type(path, name, kind, expected)


def _plain(kind: Any) -> Any:
    """Returns the type of the cells: of a dictionary (a pandas category) that of its entries."""
    return getattr(kind, "value_type", kind) if str(kind).startswith("dictionary") else kind


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _is_label(kind: Any) -> bool:
    from pyarrow import types

    return _is_text(kind) or (_is_number(kind) and not types.is_decimal(kind))


def _is_id(kind: Any) -> bool:
    from pyarrow import types

    dates, known = (types.is_date, types.is_timestamp), (types.is_binary, types.is_large_binary)
    return (
        _is_text(kind)
        or _is_number(kind)
        or any(of(kind) for of in (*dates, *known, types.is_fixed_size_binary))
        or str(kind) == "extension<arrow.uuid>"
    )
