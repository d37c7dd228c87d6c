"""A linear head on features: per-example gradients in closed form, from exact products."""

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate.outer_products import Directions, OuterProducts, Shorts
from reticent.gate.step import Block, Floats, Ints, Parameters
from reticent.released.heads import BIAS, WEIGHT

_LARGEST = 2.0**15  # norm of a row of whole numbers, each of which then fits in 16 bits
_SHORTER = 2.0**-3  # and of one whose products are exact in float32: 2^12
_PIECE = 1024  # rows in memory at a time


# --- exact products

Snapped = tuple[Shorts, Floats]
"""Rows as whole numbers, and what 1 is in each."""


def snapped(rows: npt.NDArray[np.floating]) -> Snapped:
    """Returns rows as whole numbers of 16 bits times a unit of each row, NaN where the row is not finite.

    The norm of a row is below 2^15, and below 2^12 after `_shortened`, with what rounding to whole numbers adds: at
    most half a unit for each column.

    >>> values, units = snapped(np.array([[1.5, -0.25], [0.0, 0.0]]))
    >>> values.dtype, (values * units[:, None]).round(4).tolist()
    (dtype('int16'), [[1.5, -0.25], [0.0, 0.0]])
    """
    from reticent.gate import step_kernel

    longest = max(1.0, _LARGEST - 1 - (0.5 + 0.5 / _SHORTER) * math.sqrt(rows.shape[1]))
    kind = np.float32 if rows.dtype == np.float32 else np.float64
    values, units = np.empty(rows.shape, np.int16), np.empty(len(rows))
    step_kernel.snap_rows(np.require(rows, kind, ("C", "A")), longest, values, units)
    return values, units


def _shortened(values: Shorts) -> npt.NDArray[np.float32]:
    """Returns rows as fewer whole numbers, an eighth of what they were."""
    from reticent.gate import step_kernel

    shorter = np.empty(values.shape, np.float32)
    step_kernel.eighths(values, shorter)
    return shorter


def _whole_product(values: Shorts, others: Shorts) -> npt.NDArray[np.float32]:
    """Returns rows of values times rows of others, both shortened.

    Matrix products of floats depend, in their last bits, on how many rows there are and on a row's position. Then one
    example more changes what the others contribute, and the sensitivity is not the clipping norm. Here factors are
    whole numbers in rows of norm 2^12 at most. Every partial sum of a product is then a whole number of at most 2^24
    (Cauchy and Schwarz, for any part of the columns): exact in float32 in any order, so a row's product is a function
    of that row.
    """
    product: npt.NDArray[np.float32] = _shortened(values) @ _shortened(others).T
    return product


# --- the head


class Head:
    """The head at one point of training: from features and labels to gradients of the head and of the features."""

    def __init__(self, parameters: Parameters) -> None:
        self._weight, self._bias = parameters[WEIGHT], parameters[BIAS].astype(np.float64)
        self._by_class = snapped(self._weight)

    @cached_property
    def _by_feature(self) -> Snapped:
        return snapped(self._weight.T)

    def errors(self, features: Snapped, labels: Ints) -> Floats:
        """Returns p - onehot of a block, NaN where it is not finite; rows beyond the labels fill it up."""
        from reticent.gate import step_kernel

        (values, units), (others, their_units) = features, self._by_class
        products = _whole_product(values, others)
        found = np.empty(products.shape)
        step_kernel.softmax_errors(products, units / _SHORTER**2, their_units, self._bias, labels, found)
        return found

    def back(self, error: Floats) -> Floats:
        """Returns the loss's gradient at the features, of errors as `errors` returned them.

        Limits:
          - An error is rounded to whole multiples of about 2^-12 of its norm. Beyond some thousand labels the small
            probabilities of labels that an example does not have are coarse: equal ones are a fifth too large among
            5,000 labels and 0 among 10,000, and so is what these labels contribute to an adapter's gradient
            (`benchmarks/adapter_gradients.py`). The head's own gradient does not use it, and privacy does not depend
            on it.
        """
        (values, units), (others, their_units) = snapped(error), self._by_feature
        with np.errstate(all="ignore"):
            return _whole_product(values, others) * (units / _SHORTER**2)[:, None] * their_units


def head_gradients(error: Floats, features: Snapped, wanted: int) -> OuterProducts:
    """Returns the head's gradients of the first examples of a block."""
    return OuterProducts(WEIGHT, BIAS, error[:wanted], Directions.of(features[0][:wanted]), features[1][:wanted])


class HeadGradients:
    """A linear head on features, without autograd: the gradient of an example is (p - onehot) (v, 1)^T.

    Features are rounded to whole multiples of about 2^-15 of their norm, and once more with the weights, to 2^-12, for
    the logits: products are then exact in float32, at twice the speed of float64 (`_product`).

    Guarantees:
      - Gradients are those of single examples by autograd, up to that rounding.    test_head_sums_single_examples
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
        values, self._units = np.empty(features.shape, np.int16), np.empty(len(features))
        for start in range(0, len(features), _PIECE):
            part = slice(start, start + _PIECE)
            values[part], self._units[part] = snapped(features[part])
        self._directions = Directions.of(values)

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
            features, units = self._directions.taken(part), self._units[part]
            error = head.errors((features.values, units), self._labels[part])
            yield Block({}, OuterProducts(WEIGHT, BIAS, error, features, units))


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
