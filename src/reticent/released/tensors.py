"""The inside of a release file: a header of a limited size, then arrays of plain numbers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from reticent import errors
from reticent.numerics.reading import MEGABYTE, json_of

_LONGEST_HEADER = 8 * MEGABYTE
HEADER_BYTES = 8 + _LONGEST_HEADER  # with its length before it
_MOST_ARRAYS = 10_000
_ABOUT = "__metadata__"
NAMES = "labels"  # the array with the names of the labels
_KINDS = frozenset({"F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL"})
_DTYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)) | {
    "float16",
    "float32",
    "float64",
    "bool",
}
_MOST_PARAMETERS, _LONGEST_NAME = _MOST_ARRAYS - 1, 300  # with their shapes they fit into the longest header


class Header(NamedTuple):
    """What a header says of the release, and the names of the arrays."""

    about: dict[str, str]
    names: frozenset[str]


def header_of(blob: bytes) -> Header:
    """Returns the header, of a file or of its first HEADER_BYTES; refuses, with a ValueError, what no release has."""
    length = int.from_bytes(blob[:8], "little")
    if len(blob) < 8 or length > min(_LONGEST_HEADER, len(blob) - 8):
        raise ValueError("Expected a shorter header.")
    header: Any = json_of(blob[8 : 8 + length])
    about: Any = header.pop(_ABOUT)
    if len(header) > _MOST_ARRAYS or not all(array["dtype"] in _KINDS for array in header.values()):
        raise ValueError("Expected arrays of numbers.")
    if not all(isinstance(value, str) for value in about.values()):
        raise ValueError("Expected texts.")
    return Header(about, frozenset(header))


def refuse_unstorable(arrays: Mapping[str, Any]) -> None:
    """Refuses arrays that no release file holds, or under a name that the file needs, in one sentence for all."""
    good = len(arrays) <= _MOST_PARAMETERS and all(
        isinstance(name, str)
        and name.isprintable()  # so UTF-8 can hold it
        and len(name.encode()) <= _LONGEST_NAME
        and name not in (NAMES, _ABOUT)
        and isinstance(array, np.ndarray)
        and array.dtype.name in _DTYPES
        for name, array in arrays.items()
    )
    if not good:
        raise errors.InvalidValue(
            f"Expected at most {_MOST_PARAMETERS:,} arrays of plain numbers, with printable names of at most "
            f"{_LONGEST_NAME} bytes other than {NAMES!r} and {_ABOUT!r}."
        )


def arrays_of(blob: bytes) -> dict[str, npt.NDArray[Any]]:
    """Returns the arrays; call `header_of` first. The library checks shapes and places against the file's length."""
    try:
        return dict(safetensors.numpy.load(blob))
    except safetensors.SafetensorError as error:
        raise ValueError("Expected arrays that fill the file.") from error
