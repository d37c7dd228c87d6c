"""Parquet: every cell is read by itself; one that is no Python object (text that is not UTF-8) is None."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.readers.examples import refuse_missing


def read_parquet(path: Path, wanted: Sequence[str]) -> dict[str, list[object]]:
    """Returns the wanted columns, as Python objects."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(path)
    except (pa.ArrowInvalid, OSError):
        raise errors.InvalidValue(f"{path.name} is not a readable Parquet file.") from None
    refuse_missing(path, wanted, schema.names)
    coded = [name for name in wanted if _is_dictionary_of_texts(schema.field(name).type)]
    try:
        table = parquet.read_table(path, columns=[name for name in wanted if name not in coded])
        texts = parquet.read_table(_without_arrow_types(path), columns=coded) if coded else table
    except (pa.ArrowInvalid, OSError):
        raise errors.InvalidValue(f"{path.name} is not a readable Parquet file.") from None
    return {name: [_value(cell) for cell in (texts if name in coded else table)[name]] for name in wanted}


def _is_dictionary_of_texts(kind: Any) -> bool:
    from pyarrow import types

    texts = types.is_string, types.is_large_string, types.is_string_view
    return bool(types.is_dictionary(kind)) and any(is_text(kind.value_type) for is_text in texts)


def _without_arrow_types(path: Path) -> Any:
    """Returns a Parquet file whose footer does not say that a column was a dictionary (a pandas category).

    To make one again, all its texts are checked at once, and one that is not UTF-8 fails the whole column. As plain
    texts each cell is read by itself.
    """
    import pyarrow as pa

    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little") + 8
    footer = content[-size:].replace(b"ARROW:schema", b"ARROW_schema")
    return pa.BufferReader(content[:-size] + footer)


def _value(cell: Any) -> object:
    """Returns a cell as a Python object, None where it is none (text that is not UTF-8, a date beyond the calendar)."""
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        return None
