"""Which reader a file goes to, by the ending of its name."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.readers.csv_files import read_csv
from reticent.readers.examples import Columns, Examples
from reticent.readers.image_folders import read_folder
from reticent.readers.npz_files import read_npz
from reticent.readers.parquet_files import read_parquet

Table = dict[str, list[object]]
TABLES: dict[str, Callable[[Path, Sequence[str]], Table]] = {".csv": read_csv, ".parquet": read_parquet}


def read(path: Path, columns: Columns, *, labelled: bool = True) -> Examples:
    """Reads a file by its ending, or a folder with one subfolder of images per label (none where unlabelled)."""
    if path.is_dir():
        if columns.person is not None:
            raise errors.InvalidValue(
                "A folder of images does not say whose they are. List them in a .csv file: --image and --person."
            )
        return read_folder(path, labelled=labelled)
    if not path.is_file():
        raise errors.InvalidValue(f"No file at {path}.")
    if path.suffix == ".npz":
        return read_npz(path, columns)
    if path.suffix in TABLES:
        return _table(path, columns)
    raise errors.InvalidValue(f"Expected a .csv, .parquet or .npz file or a folder of images, got {path.name}.")


def _table(path: Path, columns: Columns) -> Examples:
    wanted = [c for c in (columns.text, columns.image, *columns.features, columns.label, columns.person) if c]
    if not (columns.text or columns.image or columns.features):
        raise errors.InvalidValue("Expected the column with the inputs: --text, --image or --features.")
    data = TABLES[path.suffix](path, wanted)
    if columns.text:
        inputs: Any = data[columns.text]
    elif columns.image:
        inputs = [path.parent / str(name) if name is not None else None for name in data[columns.image]]
    else:
        inputs = np.column_stack([_numbers(data[name]) for name in columns.features])
    return Examples(
        inputs,
        data[columns.label] if columns.label else None,
        data[columns.person] if columns.person else None,
    )


def _numbers(values: list[object]) -> npt.NDArray[np.float64]:
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("nan")
