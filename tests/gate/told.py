"""A noise source that says what the test tells it, and notes what it was asked for: exact tests of what uses noise."""

from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.gate.noise import NoiseSource


class Told(NoiseSource):
    """Answers with given integers, in order.

    Args:
        *answers: What `rounded_gaussian` returns, one for each call: an array, or a number for all entries.
    """

    def __init__(self, *answers: npt.ArrayLike) -> None:
        super().__init__(seed=0)
        self._answers = list(answers)
        self.asked: list[tuple[float, Any]] = []

    def rounded_gaussian(self, sigma: float, shape: int | tuple[int, ...]) -> npt.NDArray[np.int64]:
        self.asked.append((sigma, shape))
        return np.array(np.broadcast_to(np.asarray(self._answers.pop(0), dtype=np.int64), shape))


class Words(NoiseSource):
    """Draws given 64-bit words, in order; it ends where they end.

    Args:
        *words: What is drawn.
    """

    def __init__(self, *words: int) -> None:
        super().__init__(seed=0)
        self._given = list(words)
        self.drawn = 0

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        taken, self._given = self._given[:n], self._given[n:]
        if len(taken) < n:
            raise EOFError("no more words")
        self.drawn += n
        return np.array(taken, dtype=np.uint64)
