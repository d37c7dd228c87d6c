"""The paper's generic construction: any private test of a label's own examples selects labels."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reticent.privacy import events
from reticent.privacy.selection.laws import COIN_BITS, Floats


@dataclass(frozen=True)
class BinaryTestLaw:
    """The paper's generic construction: a label is kept iff an epsilon-DP test of its own examples passes.

    delta is the largest chance that the test passes a single example. (The paper adds a term 1/(1-p) - e^epsilon, which
    is not needed: P(S) - e^epsilon P'(S) <= 1 - e^epsilon (1 - p) <= p.)

    Args:
        epsilon: What the test satisfies between any two sizes from 1 on; `check_mechanism` verifies it.
        test: From a number of examples to the probability that the test passes.

    Guarantees (one label per example, add or remove one example):
      - (epsilon, test(1))-DP if the test is epsilon-DP.       test_any_private_test_selects_labels
      - A label absent from the data is never released.
    Reference: the paper, Theorem "label release mechanism".

    Example:
        >>> import math
        >>> BinaryTestLaw(1.0, lambda n: 1e-5 if n == 1 else min(0.5, 1e-5 * math.e ** (n - 1))).event.delta
        1e-05
    """

    epsilon: float
    test: Callable[[int], float]

    @property
    def event(self) -> events.BinaryTest:
        """(epsilon, the chance of a single example)."""
        return events.BinaryTest(epsilon=self.epsilon, delta=self.test(1))

    @cached_property
    def threshold(self) -> float:
        """The smallest class that passes more often than not, or 10,000 where none up to there does."""
        return float(next((n for n in range(1, 10_000) if self.test(n) > 0.5), 10_000))

    def release_probability(self, sizes: npt.ArrayLike) -> Floats:
        """Returns the probability of release for each class size."""
        counts = np.asarray(sizes)
        passed = [self.test(int(n)) if n > 0 else 0.0 for n in counts.ravel()]
        return np.array(passed, dtype=np.float64).reshape(counts.shape)

    def coin(self, size: int) -> int:
        """Returns the probability of release times 2^256."""
        return int(Fraction(self.test(size)) * (1 << COIN_BITS)) if size > 0 else 0
