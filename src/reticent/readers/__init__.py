"""Read a task from a file: CSV, Parquet, NPZ or a folder of images.

Errors are read from metadata only (header, schema, names of arrays), never from a scan of rows: what a row holds must
not decide whether an exception appears. In a CSV file a line is an example and is read by itself, so that no line (an
open quote, say) changes what another one is; lines that do not parse are left out, and every column is text: no type is
inferred from the data. Texts that hold line breaks need Parquet.
"""

import csv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a file are what; all public.

    Args:
        text: The column with texts.
        image: The column with paths of images, relative to the file.
        features: Columns of numbers, in order; or ("x",) in an NPZ file.
        label: The column with labels; not needed to predict.
        unit: The column that says whose example it is.
    """

    text: str | None = None
    image: str | None = None
    features: Sequence[str] = ()
    label: str | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        if sum([self.text is not None, self.image is not None, bool(self.features)]) > 1:
            raise errors.InvalidValue("Expected one kind of input: text, image or features.")


@dataclass(frozen=True)
class Examples:
    """Sensitive: inputs, labels and units of a file, ready for `learn_task`."""

    inputs: Any
    labels: Sequence[object] | npt.NDArray[Any] | None
    units: Sequence[object] | npt.NDArray[Any] | None

    def __repr__(self) -> str:
        return "Examples(<sensitive>)"


def read(path: Path, columns: Columns, *, labelled: bool = True) -> Examples:
    """Reads a file by its ending, or a folder with one subfolder of images per label; unlabelled ones may lie loose."""
    if path.is_dir():
        if columns.unit is not None:
            raise errors.InvalidValue(
                "A folder of images does not say whose they are. List them in a .csv file: --image and --unit."
            )
        return _folder(path, labelled)
    if not path.is_file():
        raise errors.InvalidValue(f"No file at {path}.")
    if path.suffix == ".npz":
        return _npz(path, columns)
    if path.suffix in (".csv", ".parquet"):
        return _table(path, columns)
    raise errors.InvalidValue(f"Expected a .csv, .parquet or .npz file or a folder of images, got {path.name}.")


def _table(path: Path, columns: Columns) -> Examples:
    wanted = [c for c in (columns.text, columns.image, *columns.features, columns.label, columns.unit) if c]
    if not (columns.text or columns.image or columns.features):
        raise errors.InvalidValue("Expected the column with the inputs: --text, --image or --features.")
    data = _read_csv(path, wanted) if path.suffix == ".csv" else _read_parquet(path, wanted)
    if columns.text:
        inputs: Any = data[columns.text]
    elif columns.image:
        inputs = [path.parent / str(name) if name is not None else None for name in data[columns.image]]
    else:
        inputs = np.column_stack([_numbers(data[name]) for name in columns.features])
    return Examples(
        inputs,
        data[columns.label] if columns.label else None,
        data[columns.unit] if columns.unit else None,
    )


def _read_csv(path: Path, wanted: list[str]) -> dict[str, list[object]]:
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        header = _fields(next(file, ""))
        _refuse_missing(path, wanted, header, shown=False)  # where there is no header, its first line is an example
        rows = [row for row in map(_fields, file) if len(row) == len(header)]
    return {name: [row[header.index(name)] for row in rows] for name in wanted}


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _read_parquet(path: Path, wanted: list[str]) -> dict[str, list[object]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(path)
    except (pa.ArrowInvalid, OSError):
        raise errors.InvalidValue(f"{path.name} is not a readable Parquet file.") from None
    _refuse_missing(path, wanted, schema.names)
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


def _npz(path: Path, columns: Columns) -> Examples:
    names = {"x": columns.features[0] if columns.features else "x", "y": columns.label or "y"}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            _refuse_missing(path, [names["x"], *([columns.unit] if columns.unit else [])], stored.files)
            labels = stored[names["y"]] if names["y"] in stored.files else None
            units = stored[columns.unit] if columns.unit else None
            return Examples(stored[names["x"]], labels, units)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, errors.ReticentError):
            raise
        raise errors.InvalidValue(f"{path.name} is not a readable NPZ file of plain arrays.") from None


def _folder(path: Path, labelled: bool) -> Examples:
    """Paths of images; the label is the name of the folder they are in."""
    files = sorted(f for f in path.glob("*/*") if _is_image(f) and not f.parent.is_symlink())
    if labelled:
        return Examples(files, [f.parent.name for f in files], None)
    loose = sorted(f for f in path.glob("*") if _is_image(f))
    return Examples(files or loose, None, None)


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in _IMAGES and path.is_file()


def _numbers(values: list[object]) -> npt.NDArray[np.float64]:
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _refuse_missing(path: Path, wanted: Sequence[str | None], there: Sequence[str], *, shown: bool = True) -> None:
    for name in wanted:
        if name not in there:
            rest = f"{path.name}. Its columns: {', '.join(there[:20]) or 'none'}." if shown else None
            raise errors.InvalidValue(f"No column {name!r} in {rest or f'the first line of {path.name}.'}")
