"""Whether two containers, or two files, are the same thing: by where they lie, never by what is in them."""

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Places = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # first addresses, and those behind the last


def share_memory(one: Any, other: Any) -> bool:
    """Returns whether two containers are one object, or parts of one.

    Never by equality: whoever supplies rows as public ones would read from a refusal whether they are private ones.

    Guarantees: what lies in the same memory is noticed, a copy is not.         test_memory_is_compared_and_no_value
    Not noticed: texts of polars that are not the same object, since they are copied to be looked at. Parts of one
    column of Arrow or polars always count as the same.

    Example:
        >>> x = np.zeros((4, 2))
        >>> share_memory(x, x[1:]), share_memory(x[:2], x[2:]), share_memory(x, x.copy())
        (True, False, False)
    """
    if one is other:
        return one is not None
    held, others = list(_arrays(one)), list(_arrays(other))  # until the end: what is freed is used again at once
    (starts, ends), (low, high) = _joined(map(_places, held)), _joined(map(_places, others))
    order = np.argsort(starts)
    starts, furthest = starts[order], np.maximum.accumulate(ends[order])
    before = np.searchsorted(starts, high)  # so many begin before it ends
    return bool((furthest[before[before > 0] - 1] > low[before > 0]).any())


def share_a_file(one: Path, other: Path) -> bool:
    """Returns whether two paths are one file, or folders that have one in common; links, also hard ones, are followed.

    >>> share_a_file(Path("-"), Path("-"))
    True
    """
    return one == other or not _files(one).isdisjoint(_files(other))


def _files(path: Path) -> set[tuple[int, int]]:
    try:
        found = [file.stat() for file in ([path, *path.rglob("*")] if path.is_dir() else [path])]
    except OSError:  # missing, or not ours to read: whoever opens it says so
        return set()
    return {(status.st_dev, status.st_ino) for status in found}


def _joined(places: Iterator[Places]) -> Places:
    nowhere = np.empty(0, np.int64)
    starts, ends = zip((nowhere, nowhere), *places, strict=True)
    return np.concatenate(starts), np.concatenate(ends)


def _arrays(values: Any) -> Iterator[Any]:
    """Yields the arrays that a container is made of, without a copy where that can be; none of Python's own objects."""
    if isinstance(values, list | tuple):
        for cell in values:
            if not isinstance(cell, str | bytes | int | float | list | tuple):
                yield from _arrays(cell)
    elif isinstance(values, np.ndarray) or hasattr(values, "buffers") or _is_tensor(values):
        yield values
    elif hasattr(values, "chunks"):  # a column of pyarrow
        yield from values.chunks
    elif hasattr(values, "iloc"):  # pandas
        if values.ndim == 2:
            for i in range(values.shape[1]):
                yield from _arrays(values.iloc[:, i])
        else:
            array = values.array
            in_arrow = hasattr(array, "__arrow_array__")
            yield from _arrays(array.__arrow_array__() if in_arrow else getattr(array, "codes", values.to_numpy()))
    elif hasattr(values, "get_columns"):  # polars
        yield from _arrays(values.get_columns())
    elif hasattr(values, "to_arrow"):
        yield from _arrays(values.to_arrow())
    elif hasattr(values, "column_names"):  # a table of pyarrow
        yield from _arrays(list(values.columns))
    elif isinstance(getattr(values, "data", None), np.ndarray):  # a sparse matrix
        yield values.data


def _is_tensor(values: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def _places(array: Any) -> Places:
    if isinstance(array, np.ndarray):
        return _of_array(array.__array_interface__["data"][0], array.shape, array.strides, array.itemsize)
    if hasattr(array, "buffers") and not _is_tensor(array):  # of pyarrow
        return _pair([(buffer.address, buffer.address + buffer.size) for buffer in array.buffers() if buffer])
    if array.layout is not sys.modules["torch"].strided or array.device.type == "meta":
        return _pair([])
    size = array.element_size()
    return _of_array(array.data_ptr(), array.shape, [step * size for step in array.stride()], size)


def _of_array(address: int, shape: Sequence[int], strides: Sequence[int], size: int) -> Places:
    """Returns the places of an array: one where it is dense, else one for each step along its outermost axis."""
    if not math.prod(shape):
        return _pair([])
    extents = [(length - 1) * abs(step) for length, step in zip(shape, strides, strict=True)]
    low = address + sum((length - 1) * step for length, step in zip(shape, strides, strict=True) if step < 0)
    whole = sum(extents) + size
    if whole <= math.prod(shape) * size:
        return _pair([(low, low + whole)])
    outer = int(np.argmax(np.abs(strides)))
    starts = low + np.arange(shape[outer], dtype=np.int64) * abs(strides[outer])
    return starts, starts + whole - extents[outer]


def _pair(held: Sequence[tuple[int, int]]) -> Places:
    found = np.array(held, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
