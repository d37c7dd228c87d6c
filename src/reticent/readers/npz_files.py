"""NPZ: arrays that numpy stored, never pickled objects."""

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy.typing as npt
from numpy.lib import format as npy

from reticent import errors
from reticent.readers.examples import Columns, Examples, refuse_missing, refuse_type
from reticent.readers.limits import refuse_too_large

_RATIO = 1032  # no deflated byte becomes more
_METHODS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: _RATIO}  # the two that numpy writes
_ROW = 64  # bytes that a row takes at least, once its label is an object of Python
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npz(path: Path, columns: Columns) -> Examples:
    """Returns features from the array x and labels from y, unless the columns name others.

    What an array declares is compared with the size of its file before anything is allocated.
    """
    if len(columns.inputs) > 1:
        raise errors.InvalidValue(f"Expected one array of inputs in {path.name}, such as --features x.")
    inputs, label = (*columns.inputs, "x")[0], columns.label or "y"
    try:
        with errors.silenced(), zipfile.ZipFile(path) as archive:  # numpy warns of headers of Python 2
            there = [name.removesuffix(".npy") for name in archive.namelist()]
            if columns.label is None and "y" not in there:
                label = ""
            refuse_missing(path, [name for name in (inputs, label, columns.person, *columns.keep) if name], there)
            x = _array(path, archive, inputs, "biufU", "numbers or texts")
            y = _array(path, archive, label, "biufU", "labels: texts or numbers") if label else None
            persons = _array(path, archive, columns.person, "biufUSM", "ids") if columns.person else None
            return Examples(x, y, persons, {name: _kept(path, archive, name, len(x)) for name in columns.keep})
    except errors.ReticentError:
        raise
    except Exception:  # of zipfile, zlib and numpy there are a dozen kinds
        raise errors.InvalidValue(f"{path.name} is not a readable NPZ file of plain arrays.") from None


def _kept(path: Path, archive: zipfile.ZipFile, name: str, rows: int) -> list[object]:
    array = _array(path, archive, name, "biufUSM", "ids")
    if array.shape != (rows,):
        raise errors.InvalidValue(f"Expected one value for each row in array {name!r} of {path.name}.")
    cells: list[object] = array.tolist()
    return cells


def _array(path: Path, archive: zipfile.ZipFile, name: str, kinds: str, expected: str) -> npt.NDArray[Any]:
    stored = f"{name}.npy" if f"{name}.npy" in archive.namelist() else name
    info = archive.getinfo(stored)
    with archive.open(info) as file:
        shape, _, kind = _HEADERS[npy.read_magic(file)](file)
        size = info.file_size - file.tell()
    if kind.hasobject or not kind.itemsize or size != math.prod(shape) * kind.itemsize:
        raise ValueError("no plain array")
    if info.file_size > info.compress_size * _METHODS[info.compress_type] + _RATIO:
        raise ValueError("declares more than it can hold")
    if kind.kind not in kinds:
        refuse_type(path, name, kind, expected)
    refuse_too_large(path, max(size, (*shape, 1)[0] * _ROW))
    with archive.open(info) as file:
        array: npt.NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array
