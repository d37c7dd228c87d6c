"""NPZ: arrays that numpy stored, never pickled objects. They are read some rows at a time, compressed or not."""

import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from reticent import errors
from reticent.numerics.coded import Coded
from reticent.readers.examples import Columns, Examples, refuse_missing, refuse_type
from reticent.readers.limits import refuse_too_large
from reticent.readers.sources import BATCH, Source, guarded

_RATIO = 1032  # no deflated byte becomes more
_METHODS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: _RATIO}  # the two that numpy writes
_ROW = 64  # bytes that a row takes at least, once its label is an object of Python
_MOST = 1 << 16  # rows of a batch
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


@dataclass(frozen=True)
class _Array:
    """What a member of an archive declares: its numbers, and after how many bytes they begin."""

    member: str
    shape: tuple[int, ...]
    kind: np.dtype[Any]
    fortran: bool
    header: int

    @property
    def row(self) -> int:
        """Bytes of a row."""
        return math.prod(self.shape[1:]) * self.kind.itemsize


@dataclass(frozen=True, repr=False)
class NpzSource:
    """Rows of arrays in one archive.

    Args:
        path: The file.
        inputs: The array of features or texts.
        labels: That of labels.
        persons: That of ids.
        kept: Those that are carried along.
    """

    path: Path
    inputs: _Array
    labels: _Array | None
    persons: _Array | None
    kept: tuple[tuple[str, _Array], ...]
    names: tuple[str, ...] = ()  # an array names no columns

    def __repr__(self) -> str:
        return f"NpzSource({self.path.name})"

    @property
    def has_labels(self) -> bool:
        """Whether examples have labels."""
        return self.labels is not None

    @property
    def has_persons(self) -> bool:
        """Whether examples say whose they are."""
        return self.persons is not None

    @property
    def numeric(self) -> bool:
        """Whether labels are numbers or truth values, by the type of their array."""
        return self.labels is not None and self.labels.kind.kind in "biuf"

    @property
    def width(self) -> int | None:
        """How many features a row has; None where inputs are texts."""
        return self.inputs.shape[1] if len(self.inputs.shape) == 2 else None

    @property
    def size(self) -> int:
        """Bytes that all of it takes in memory at least."""
        return sum(max(array.row, _ROW) for array in self._arrays()) * self.inputs.shape[0]

    def __iter__(self) -> Iterator[Examples]:
        """Reads the examples in batches."""
        return guarded(self._batches(), _unreadable(self.path))

    def ids(self) -> Iterator[Coded]:
        """Reads the person ids alone."""
        return guarded(self._ids(), _unreadable(self.path))

    def parts(self) -> list[Source]:
        """Returns itself alone: the checksum of an archive is known when all of it was read."""
        return [self]

    def _arrays(self) -> list[_Array]:
        kept = (array for _, array in self.kept)
        return [array for array in (self.inputs, self.labels, self.persons, *kept) if array is not None]

    def _counts(self) -> list[int]:
        """Returns the sizes of batches; of no rows, one that is empty."""
        last = self.inputs.shape[0]
        step = min(max(BATCH // sum(max(array.row, 1) for array in self._arrays()), 1), _MOST)
        return [min(step, last - start) for start in range(0, max(last, 1), step)]

    def _ids(self) -> Iterator[Coded]:
        if self.persons is not None:
            with ExitStack() as stack:
                more = _rows(stack, self.path, self.persons)
                yield from (_coded(more(rows)) for rows in self._counts())

    def _batches(self) -> Iterator[Examples]:
        with ExitStack() as stack:
            opened = partial(_rows, stack, self.path)
            x = opened(self.inputs)
            y = None if self.labels is None else opened(self.labels)
            persons = None if self.persons is None else opened(self.persons)
            kept = {name: opened(array) for name, array in self.kept}
            for rows in self._counts():
                yield Examples(
                    x(rows),
                    None if y is None else _coded(y(rows)),
                    None if persons is None else _coded(persons(rows)),
                    {name: _cells(more(rows)) for name, more in kept.items()},
                )


def open_npz(path: Path, columns: Columns, *, labelled: bool) -> NpzSource:
    """Opens an archive: features are in the array x and labels in y, unless the columns name others.

    What an array declares is compared with the size of its file; every row is a row, with labels or not.
    """
    del labelled
    if len(columns.inputs) > 1:
        raise errors.InvalidValue(f"Expected one array of inputs in {path.name}, such as --features x.")
    inputs, label = (*columns.inputs, "x")[0], columns.label or "y"
    try:
        with errors.silenced(), zipfile.ZipFile(path) as archive:  # numpy warns of headers of Python 2
            there = [name.removesuffix(".npy") for name in archive.namelist()]
            if columns.label is None and "y" not in there:
                label = ""
            refuse_missing(path, [name for name in (inputs, label, columns.person, *columns.keep) if name], there)
            x = _declared(path, archive, inputs, "biufU", "numbers or texts")
            y = _declared(path, archive, label, "biufU", "labels: texts or numbers") if label else None
            persons = _declared(path, archive, columns.person, "biufUSM", "ids") if columns.person else None
            kept = tuple((name, _declared(path, archive, name, "biufUSM", "ids")) for name in columns.keep)
    except errors.ReticentError:
        raise
    except Exception:  # of zipfile, zlib and numpy there are a dozen kinds
        raise errors.InvalidValue(_unreadable(path)) from None
    if x.kind.kind == "U" and len(x.shape) != 1:  # of numbers that are texts, one row would decide whether all are
        raise errors.InvalidValue(f"Expected texts with one dimension, got {len(x.shape)}.")
    for called, array in (("labels", y), ("persons", persons)):
        if array is not None and len(array.shape) != 1:
            raise errors.InvalidValue(f"Expected {called} with one dimension, got {len(array.shape)}.")
        if array is not None and array.shape != x.shape[:1]:
            raise errors.InvalidValue(f"Expected as many {called} as inputs.")
    for name, array in kept:
        if array.shape != x.shape[:1]:
            raise errors.InvalidValue(f"Expected one value for each row in array {name!r} of {path.name}.")
    return NpzSource(path, x, y, persons, kept)


def _declared(path: Path, archive: zipfile.ZipFile, name: str, kinds: str, expected: str) -> _Array:
    """Returns what a member declares, and refuses it by that."""
    stored = f"{name}.npy" if f"{name}.npy" in archive.namelist() else name
    info = archive.getinfo(stored)
    with archive.open(info) as file:
        shape, fortran, kind = _HEADERS[npy.read_magic(file)](file)
        array = _Array(stored, shape, kind, fortran and len(shape) > 1, file.tell())
    size = info.file_size - array.header
    if kind.hasobject or not kind.itemsize or not shape or size != math.prod(shape) * kind.itemsize:
        raise ValueError("no plain array")
    if info.file_size > info.compress_size * _METHODS[info.compress_type] + _RATIO:
        raise ValueError("declares more than it can hold")
    if kind.kind not in kinds:
        refuse_type(path, name, kind, expected)
    refuse_too_large(path, size if array.fortran else max(array.row, 0 if array.row else shape[0] * _ROW))
    return array


def _rows(stack: ExitStack, path: Path, array: _Array) -> Callable[[int], npt.NDArray[Any]]:
    """Returns a function that reads so many more rows of an array, from the first one on."""
    if array.fortran:
        with zipfile.ZipFile(path) as archive, archive.open(array.member) as file:
            whole = npy.read_array(file, allow_pickle=False)
        places = iter(range(len(whole)))
        return lambda rows: whole[list(islice(places, rows))]
    member = stack.enter_context(stack.enter_context(zipfile.ZipFile(path)).open(array.member))
    member.read(array.header)
    return partial(_read, member, array)


def _read(file: IO[bytes], array: _Array, rows: int) -> npt.NDArray[Any]:
    content = bytearray(file.read(rows * array.row))
    if len(content) != rows * array.row:
        raise ValueError("ends too early")
    return np.frombuffer(content, array.kind).reshape(rows, *array.shape[1:])


def _coded(array: npt.NDArray[Any]) -> Coded:
    """Returns labels or ids as codes; dates stay numpy's: as numbers, missing ones would be one person."""
    found = Coded.at_once(array)
    if found is None:
        found = Coded.of(list(array) if array.dtype.kind == "M" else _cells(array))
    return found


def _cells(array: npt.NDArray[Any]) -> list[object]:
    """Returns cells as Python objects, None where a text is none."""
    try:
        return list(array.tolist())
    except Exception:  # of letters beyond Unicode: it must be found out which
        return [_cell(array, place) for place in range(len(array))]


def _cell(array: npt.NDArray[Any], place: int) -> object:
    try:
        return array[place].item()
    except Exception:
        return None


def _unreadable(path: Path) -> str:
    return f"{path.name} is not a readable NPZ file of plain arrays."
