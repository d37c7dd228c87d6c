import mpmath
import numpy as np
import pytest

from reticent.privacy import events, selection


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 8.0, 20.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-9, 1e-5, 0.1])
def test_optimal_solves_the_recursion(epsilon, delta):
    """An independent oracle: Theorem 1 step by step, in exact arithmetic."""
    event = events.OptimalSelection(epsilon=epsilon, delta=delta)
    last = min(2 * selection.OptimalLaw(event).turn + 3, 3000)
    claimed = selection.law(event).release_probability(np.arange(last + 1))
    with mpmath.workprec(400):
        up, slip, probability = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(delta), mpmath.mpf(0)
        for size in range(last + 1):
            assert claimed[size] == pytest.approx(float(probability), rel=1e-9, abs=1e-18)
            probability = min(up * probability + slip, 1 - (1 - probability - slip) / up, 1)
