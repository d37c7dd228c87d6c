"""Batch: some examples of a task, after what one person contributes was bounded."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.numerics.coded import Coded
from reticent.numerics.rows import take


@dataclass(frozen=True, eq=False)
class Batch:
    """Sensitive: inputs and labels of some examples, of a bounded size.

    Args:
        whole: Inputs, of which some may not count. Only `inputs` may be learned from.
        rows: The places of those that count, ascending; None where all do.
        labels: One for each that counts.
    """

    whole: Any
    rows: npt.NDArray[np.int64] | None
    labels: Coded

    def __repr__(self) -> str:
        return "Batch(<sensitive>)"

    @property
    def inputs(self) -> Any:
        """The inputs that count: an array of features, or a list."""
        return self.whole if self.rows is None else take(self.whole, self.rows)

    def alone(self) -> "Batch":
        """Returns a batch of nothing but the examples that count, to be sent."""
        return self if self.rows is None else Batch(self.inputs, None, self.labels)
