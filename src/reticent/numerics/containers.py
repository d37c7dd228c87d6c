"""What other libraries hold arrays in: torch tensors, scipy's sparse matrices, columns of Hugging Face data sets.

Refusals are read from the container, its type and its width, never from its rows or their number.
"""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors

MOST_COLUMNS = 1 << 16
"""A sparse matrix is made dense before it is used, so it may not be wider than this."""


def opened(values: Any) -> Any:
    """Returns tensors, sparse matrices and whatever converts itself as arrays, and everything else as it is.

    Guarantees:
      - A container that cannot be used is refused with a sentence.           test_containers_are_refused_by_type
      - A conversion that fails tells nothing about rows or their number.     test_failing_conversions_tell_nothing
      - A sparse matrix, a tensor and an array of the same numbers are the same.   test_containers_hold_the_same_numbers
      - A hidden cell of a masked array is missing, wherever it is.                test_hidden_cells_are_missing

    Example:
        >>> from scipy.sparse import csr_array
        >>> opened(csr_array([[0.0, 1.0]])).tolist(), opened(["a text"])
        ([[0.0, 1.0]], ['a text'])
    """
    if _is_tensor(values):
        values = _converted(_array, _dense_tensor(values))
    elif (sparse := sys.modules.get("scipy.sparse")) is not None and sparse.issparse(values):
        values = _converted(lambda matrix: matrix.toarray(), _narrow_matrix(values))
    elif hasattr(values, "column_names") and hasattr(values, "features"):
        raise errors.InvalidValue('Expected a column of a data set, such as dataset["text"]; got a whole data set.')
    elif hasattr(values, "__array__") and not hasattr(values, "__len__"):
        values = _converted(np.asarray, values)
    if isinstance(values, np.ndarray) and values.ndim > 1 and values.dtype.kind == "c":
        raise errors.InvalidValue("Complex data not supported. Expected real numbers.")
    if isinstance(values, np.ma.MaskedArray) and values.ndim > 1 and values.dtype.kind in "biuf":
        kind = values.dtype if values.dtype.kind == "f" else np.float64  # of one type, whether or not a cell is hidden
        values = np.ma.filled(values.astype(kind), np.nan)
    return values  # a masked column has None in its list


def plain(cell: object) -> object:
    """Returns a cell of a column; a tensor that holds one value as that value.

    >>> plain("a text")
    'a text'
    """
    return cell.item() if _is_tensor(cell) and cell.ndim == 0 else cell  # type: ignore[attr-defined]


def _is_tensor(values: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def _converted(convert: Callable[[Any], Any], values: Any) -> npt.NDArray[Any]:
    """Returns what a conversion makes; where it fails, refuses without its words, which may tell sizes or cells."""
    with contextlib.suppress(Exception):
        found: npt.NDArray[Any] = convert(values)
        return found
    raise errors.InvalidValue(
        "These inputs could not be made an array: their type cannot, or this machine has too little memory. Pass a "
        "NumPy array."
    )


def _dense_tensor(tensor: Any) -> Any:
    if tensor.layout is not sys.modules["torch"].strided or tensor.is_quantized or tensor.device.type == "meta":
        raise errors.InvalidValue("Expected a dense tensor that holds its values: use tensor.to_dense().")
    return tensor


def _array(tensor: Any) -> Any:
    whole = tensor.detach().cpu()
    if whole.is_floating_point() and whole.element_size() < 4:  # numpy does not know all of these types
        whole = whole.float()
    return whole.resolve_conj().resolve_neg().numpy()


def _narrow_matrix(matrix: Any) -> Any:
    if matrix.ndim != 2 or matrix.shape[1] > MOST_COLUMNS:
        raise errors.InvalidValue(
            f"Expected a sparse matrix of at most {MOST_COLUMNS:,} columns, because it is made dense. Use fewer, such "
            "as HashingVectorizer(n_features=4096)."
        )
    return matrix
