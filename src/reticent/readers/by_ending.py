"""Which reader a file goes to, by the ending of its name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.readers.csv_files import STANDARD_INPUT, read_csv, readable
from reticent.readers.examples import Columns, Examples, NamedColumns
from reticent.readers.image_folders import read_folder
from reticent.readers.npz_files import read_npz
from reticent.readers.parquet_files import read_parquet

TABLES: dict[str, Callable[..., dict[str, list[object]]]] = {".csv": read_csv, ".parquet": read_parquet}


def read(path: Path, columns: Columns, *, labelled: bool = True) -> Examples:
    """Reads a file by its ending, or a folder with one subfolder of images per label (none where unlabelled).

    Args:
        path: The file or folder; "-" is CSV from standard input.
        columns: Which columns are what.
        labelled: Whether rows without a label are left out; else each row is an example, also one that does not parse.
    """
    if path.is_dir():
        if columns.person is not None:
            raise errors.InvalidValue(
                "A folder of images does not say whose they are. List them in a .csv file: --image and --person."
            )
        if columns.keep:
            raise errors.InvalidValue("A folder of images has no columns to keep; its predictions name the files.")
        return read_folder(path, labelled=labelled)
    if path == STANDARD_INPUT:
        return _table(path, columns, read_csv, labelled)
    if not path.is_file():
        raise errors.InvalidValue(f"No file at {path}.")
    ending = path.suffix.lower()
    if ending == ".npz":
        return read_npz(path, columns)
    if ending in TABLES:
        return _table(path, columns, TABLES[ending], labelled)
    raise errors.InvalidValue(f"Expected a .csv, .parquet or .npz file or a folder of images, got {path.name}.")


def _table(path: Path, columns: Columns, reader: Callable[..., dict[str, list[object]]], labelled: bool) -> Examples:
    if not columns.inputs:
        raise errors.InvalidValue("Expected the column with the inputs: --text, --image or --features.")
    data = reader(path, columns, labelled=labelled)
    if columns.text:
        inputs: Any = [readable(cell) for cell in data[columns.text]]
    elif columns.image:
        inputs = [path.parent / str(name) if name is not None else None for name in data[columns.image]]
    else:
        inputs = np.column_stack([_numbers(data[name]) for name in columns.features]).view(NamedColumns)
        inputs.columns = list(columns.features)
    return Examples(
        inputs,
        data[columns.label] if columns.label else None,
        data[columns.person] if columns.person else None,
        {name: data[name] for name in columns.keep},
    )


def _numbers(values: list[object]) -> npt.NDArray[np.float64]:
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("nan")
