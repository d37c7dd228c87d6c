"""Gradients of a linear head, one error vector times one feature vector for each example, never multiplied out.

They are clipped, truncated to whole numbers and added up as one product of matrices, which is exact.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate import grid

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int16]
Mask = npt.NDArray[np.bool_]

_AT_ONCE = 1 << 10  # rows whose squares are in memory at a time
_EXACT_ROWS = 1 << 13  # products of at most 2^40, added up below 2^53
_ONE_FOR_EACH = "Expected one error vector, one feature vector, one unit and one scale for each example."


@dataclass(frozen=True)
class Directions:
    """Sensitive: feature vectors as whole numbers, with their squared norms; made by `of` alone.

    Args:
        values: Shape (n, width).
        squares: Shape (n,), exact.
    """

    values: Shorts
    squares: Floats

    def __repr__(self) -> str:
        return "Directions(<sensitive>)"

    @classmethod
    def of(cls, values: Shorts) -> "Directions":
        """Returns rows of whole numbers of 16 bits with their squared norms: nobody else's say counts.

        >>> Directions.of(np.array([[3, 4], [-32768, 0]], np.int16)).squares.tolist() == [25.0, 2.0**30]
        True
        """
        if values.dtype != np.int16:
            raise errors.InvalidValue("Expected whole numbers of 16 bits: their products with others are whole.")
        squares = np.empty(len(values))
        for start in range(0, len(values), _AT_ONCE):
            wide = values[start : start + _AT_ONCE].astype(np.int64)
            squares[start : start + _AT_ONCE] = np.einsum("ij,ij->i", wide, wide)
        return cls(values, squares)

    def taken(self, rows: Ints | slice) -> "Directions":
        """Returns some of the rows."""
        return Directions(self.values[rows], self.squares[rows])


@dataclass(frozen=True)
class OuterProducts:
    """Sensitive: gradients of a linear head, one error vector times one feature vector for each example.

    Args:
        weight: Name of the head's weights, whose gradient is errors^T features.
        bias: Name of its bias, whose gradient is the errors.
        errors: Shape (n, classes).
        features: Directions of the features.
        units: What 1 is in each row of the directions.
    """

    weight: str
    bias: str
    errors: Floats
    features: Directions
    units: Floats

    def __post_init__(self) -> None:
        for name in ("errors", "units"):  # as the compiled loops take them
            object.__setattr__(self, name, np.require(getattr(self, name), np.float64, ("C", "A")))
        n = len(self.errors)
        shapes = self.features.values.shape[:1], self.features.squares.shape, self.units.shape
        if self.errors.ndim != 2 or shapes != ((n,), (n,), (n,)):
            raise errors.InvalidValue(_ONE_FOR_EACH)

    def __repr__(self) -> str:
        return "OuterProducts(<sensitive>)"

    def norms(self) -> dict[str, Floats]:
        """Returns the norm of each example's gradient, by parameter."""
        from reticent.gate import step_kernel

        of_errors = np.empty(len(self.errors))
        step_kernel.squared_lengths(self.errors, of_errors)
        with np.errstate(all="ignore"):
            np.sqrt(of_errors, out=of_errors)
            return {self.weight: of_errors * np.sqrt(self.features.squares) * self.units, self.bias: of_errors}

    def factors(self, scales: Floats) -> "Factors":
        """Returns the gradients times their scales, as whole numbers."""
        from reticent.gate import step_kernel

        if scales.shape != self.units.shape:
            raise errors.InvalidValue(_ONE_FOR_EACH)
        left, squares = np.empty(self.errors.shape), np.empty(len(scales))
        with np.errstate(all="ignore"):
            on_bias = scales * grid.TERM_SCALE
            on_weight = on_bias * self.units
        step_kernel.whole_factors(self.errors, on_weight, on_bias, self.features.squares, left, squares)
        return Factors(self, left, on_bias, squares)


@dataclass(frozen=True)
class Factors:
    """Sensitive: outer products of whole numbers, left times the features of each example, and their bias.

    Args:
        of: What was scaled.
        left: Shape (n, classes), whole numbers.
        on_bias: What errors are multiplied with for the bias, before they are truncated.
        squares: The squared norm of each example's part, weights and bias together.
    """

    of: OuterProducts
    left: Floats
    on_bias: Floats
    squares: Floats

    def __repr__(self) -> str:
        return "Factors(<sensitive>)"

    def add(self, weight: Ints, bias: Ints, kept: Mask) -> None:
        """Adds the examples that are kept: products of whole numbers are exact, in any order, below 2^53."""
        from reticent.gate import step_kernel

        (n, classes), width = self.left.shape, self.of.features.values.shape[1]
        if (weight.shape, bias.shape, kept.shape) != ((classes, width), (classes,), (n,)):  # loops do not check
            raise errors.InvalidValue("Expected the gradients of a head to have the shapes of its parameters.")
        step_kernel.keep(self.of.errors, self.on_bias, kept, self.left, bias)
        for start in range(0, len(kept), _EXACT_ROWS):
            part = slice(start, start + _EXACT_ROWS)
            product = self.left[part].T @ self.of.features.values[part].astype(np.float64)
            step_kernel.add_whole(weight.reshape(-1), product.reshape(-1))
