"""A linear head on features: per-example gradients in closed form, from exact products."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate.step import Block, Floats, Ints, OuterProducts, Parameters
from reticent.numerics.rows import norms
from reticent.released.heads import BIAS, WEIGHT

_LEAST_EXPONENT = 900  # smaller features are zero; 2^900 is a float
_PIECE = 1024  # rows in memory at a time


# --- exact products

Snapped = tuple[Floats, Floats]
"""Rows as whole numbers, and the power of two that each is a multiple of."""


def snapped(rows: npt.NDArray[np.floating]) -> Snapped:
    """Returns rows as whole numbers times a power of two of each row: short enough for exact products.

    >>> snapped(np.array([[1.5, -0.25]]))[0] * snapped(np.array([[1.5, -0.25]]))[1]
    array([[ 1.5 , -0.25]])
    """
    bits = _bits(rows.shape[1])
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max(axis=1, initial=0.0).astype(np.float64)
        exponent = np.maximum(np.frexp(largest)[1], -_LEAST_EXPONENT)
        return np.rint(rows * np.ldexp(1.0, bits - exponent)[:, None]), np.ldexp(1.0, exponent - bits)


def _bits(width: int) -> int:
    """How many bits two numbers may have so that a sum of `width` products is exact in float64; all fit in float32."""
    return min(24, (53 - width.bit_length()) // 2)


def _product(left: Snapped, right: Snapped) -> Floats:
    """Returns rows of left times rows of right.

    Matrix products of floats depend, in their last bits, on how many rows there are and on a row's position. Then one
    example more changes what the others contribute, and the sensitivity is not the clipping norm. Here all partial sums
    are whole numbers below 2^53, exact in any order, so a row's product is a function of that row.
    """
    (values, units), (others, their_units) = left, right
    product = values @ others.T
    product *= units[:, None]
    product *= their_units
    return product


# --- the head


class Head:
    """The head at one point of training: from features and labels to gradients of the head and of the features."""

    def __init__(self, parameters: Parameters) -> None:
        self._weight, self._bias = (parameters[name].astype(np.float64) for name in (WEIGHT, BIAS))
        self._by_class = snapped(self._weight)

    @cached_property
    def _by_feature(self) -> Snapped:
        return snapped(self._weight.T)

    def errors(self, features: Snapped, labels: Ints) -> Floats:
        """Returns p - onehot of a block; rows beyond the labels fill it up."""
        with np.errstate(all="ignore"):
            p = _product(features, self._by_class)
            p += self._bias
            p -= p.max(axis=1, keepdims=True)
            np.exp(p, out=p)
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(labels)), labels] -= 1
        return p

    def back(self, error: Floats) -> Floats:
        """Returns the loss's gradient at the features, of errors as `errors` returned them."""
        return _product(snapped(error), self._by_feature)


def head_gradients(error: Floats, features: Snapped, wanted: int, of_values: Floats | None = None) -> OuterProducts:
    """Returns the head's gradients of the first examples of a block; `of_values` are norms computed before."""
    values, units, mine = features[0][:wanted], features[1][:wanted], error[:wanted]
    return OuterProducts(WEIGHT, BIAS, mine, values, units, norms(values) if of_values is None else of_values)


class HeadGradients:
    """A linear head on features, without autograd: the gradient of an example is (p - onehot) (v, 1)^T.

    Guarantees:
      - Gradients are those of single examples by autograd.             test_head_sums_single_examples
      - An example's gradient is the same, to the bit, whatever else is in the batch.  test_head_blocks_change_nothing
      - Features that are not finite and labels outside 0..classes-1 contribute nothing, silently.
                                                                        test_unusable_examples_contribute_nothing

    Args:
        features: Shape (n, K), float32.
        labels: Shape (n,), whole numbers; -1 for what cannot be used.
        classes: Number of classes, public.
    """

    def __init__(self, features: npt.NDArray[np.float32], labels: Ints, classes: int) -> None:
        if features.ndim != 2 or features.dtype.kind != "f" or labels.shape != features.shape[:1]:
            raise errors.InvalidValue("Expected features of shape (n, K) and n labels.")
        self._labels, self._usable = labels, np.isfinite(features).all(axis=1) & inside(labels, classes)
        self._start = zeros(features.shape[1], classes)
        self._values, self._units = np.empty(features.shape, np.float32), np.empty(len(features))
        self._lengths = np.empty(len(features))
        for start in range(0, len(features), _PIECE):
            part = slice(start, start + _PIECE)
            values, self._units[part] = snapped(features[part])
            with np.errstate(all="ignore"):  # of rows that are not usable
                self._values[part], self._lengths[part] = values, norms(values)

    def __repr__(self) -> str:
        return "HeadGradients(<sensitive>)"

    @property
    def start(self) -> dict[str, npt.NDArray[np.float32]]:
        """Zeros."""
        return self._start

    @property
    def size(self) -> int:
        """How many examples there are."""
        return len(self._labels)

    def blocks(self, parameters: Parameters, rows: Ints) -> Iterator[Block]:
        """Yields gradients, some examples at a time."""
        head = Head(parameters)
        rows = rows[self._usable[rows]]
        for start in range(0, len(rows), _PIECE):
            part = rows[start : start + _PIECE]
            features = self._values[part].astype(np.float64), self._units[part]
            error = head.errors(features, self._labels[part])
            yield Block({}, head_gradients(error, features, len(part), self._lengths[part]))


def zeros(width: int, classes: int) -> dict[str, npt.NDArray[np.float32]]:
    """Returns the zeros that a head starts from.

    >>> {name: value.shape for name, value in zeros(384, 10).items()}
    {'head.weight': (10, 384), 'head.bias': (10,)}
    """
    classes = errors.whole("classes", classes, at_least=0)
    return {WEIGHT: np.zeros((classes, width), np.float32), BIAS: np.zeros(classes, np.float32)}


def inside(labels: Ints, classes: int) -> npt.NDArray[np.bool_]:
    """Returns which labels are rows of the head."""
    return np.asarray((labels >= 0) & (labels < classes), dtype=np.bool_)
