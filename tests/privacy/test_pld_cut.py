"""A composed loss adds its error to delta, and is never more than 1."""

import math
from typing import Any

import pytest

from reticent.privacy.pld import Loss


class Told:
    """Says what a distribution would."""

    def __init__(self, delta: float, epsilon: float) -> None:
        self._delta, self._epsilon, self.asked = delta, epsilon, list[float]()

    def get_delta_for_epsilon(self, epsilon: float) -> float:
        return self._delta

    def get_epsilon_for_delta(self, delta: float) -> float:
        self.asked.append(delta)
        return self._epsilon


def loss(delta: float, error: float, epsilon: float = 1.0) -> Any:
    return Loss(Told(delta, epsilon), error)


@pytest.mark.parametrize(
    ("delta", "error", "expected"),
    [(0.4, 0.3, 0.7), (0.9, 0.3, 1.0), (0.0, 1.0, 1.0), (0.0, 1.5, 1.0), (0.0, 0.0, 0.0)],
)
def test_errors_add_to_delta_up_to_one(delta, error, expected):
    assert loss(delta, error).delta(1.0) == pytest.approx(expected)


def test_errors_are_taken_from_delta_before_epsilon_is_asked():
    found = loss(0.0, 0.25)
    assert found.epsilon(0.75) == 1.0
    assert found.distribution.asked == [0.5]
    assert found.epsilon(0.2) == math.inf
    assert loss(0.0, 0.25, math.nan).epsilon(0.75) == math.inf
