"""Recorder: the gradients of single examples, which an adapter records in a backward pass."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Recorder:
    """Collects per-example gradients in a backward pass. SENSITIVE.

    Args:
        rows: How many examples the batch has.
        gradients: By name, shape (rows, ...); a layer that is used twice adds up.

    Example:
        >>> Recorder(16)
        Recorder(rows=16)
    """

    rows: int
    gradients: dict[str, Any] = field(default_factory=dict, repr=False)

    def add(self, name: str, values: Any) -> None:
        """Adds a layer's part."""
        self.gradients[name] = self.gradients[name] + values if name in self.gradients else values
