import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binomtest

from reticent.gate.noise import NoiseSource
from reticent.lab.attack import memory_law
from reticent.lab.attack.memory_moves import Remembering
from reticent.privacy import accounting, epoch_costs, gaussian
from reticent.privacy.events import Remembered
from tests.conftest import ALPHA

OFTEN = 400  # examples that make a label known in any task


def gathering(tasks: int, *, eighths: int = 2, count_weight: float = 0.2, deviations: float = 2.5) -> Remembered:
    return Remembered(
        noise_multiplier=2.0,
        epoch=1,
        eighths=eighths,
        horizon=tasks,
        count_weight=count_weight,
        deviations=deviations,
    )


@pytest.mark.parametrize(("tasks", "eighths", "weight"), [(2, 2, 0.2), (2, 4, 0.01), (3, 4, 0.01)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_pending_labels_cost_at_most_their_claim(tasks, eighths, weight, epsilon):
    """One example before, between and after the tasks in which its label occurs, or where it occurs nowhere else."""
    event = gathering(tasks, eighths=eighths, count_weight=weight)
    claimed = gaussian.delta(1 / event.noise_multiplier, epsilon) + epoch_costs.chance(event)
    assert accounting.delta(event, epsilon) == pytest.approx(claimed, rel=1e-9)
    for counts in itertools.product((0, 5, OFTEN), repeat=tasks):
        for s in range(tasks):
            assert max(memory_law.divergences(event, counts, s, epsilon)) <= claimed


def test_the_maximum_is_too_little_for_pending_labels():
    """An example before all others of its label: it may show early, and later it moves the rows all the same."""
    event = gathering(3, eighths=4, count_weight=0.01, deviations=3.0)
    noise, exposed = gaussian.delta(0.5, 0.5), epoch_costs.chance(event)
    found = max(memory_law.divergences(event, (0, 0, OFTEN), 0, 0.5))
    assert max(noise, exposed) * 1.03 < found <= noise + exposed
    alone = max(memory_law.divergences(event, (0, 0, 0), 0, 3.0))  # many looks at one example: the union is needed
    assert 3 * exposed / 5 < alone <= exposed


def test_labels_become_known_by_their_law():
    """The real code, many labels at once, each a draw of its own."""
    event, labels = gathering(3, eighths=4), [f"label {i}" for i in range(1_500)]
    for counts in ((1, 0, 0), (6, 0, 6), (0, 12, 0)):
        published = Remembering(event)([dict.fromkeys(labels, n) for n in counts], NoiseSource.from_os())
        first = {label: t for t, label, _ in sorted(published, key=lambda place: -place[0])}
        for t, chance in enumerate(memory_law.crossings(event, counts), start=1):
            times = sum(first.get(label, 4) == t for label in labels)
            assert binomtest(times, len(labels), chance).pvalue >= ALPHA / 12
        # and not by the law of one example more in every task
        wrong = memory_law.crossings(event, tuple(n + 4 for n in counts))
        seen = [sum(first.get(label, 4) == t for label in labels) for t in (1, 2, 3, 4)]
        assert any(binomtest(n, len(labels), p).pvalue < ALPHA for n, p in zip(seen, wrong, strict=True))


def test_laws_by_integration_are_those_of_one_look():
    """In one task there is one look, and a label is seen by the tail of one Gaussian."""
    event = gathering(1)
    for n in (1, 5, 30):
        c = math.sqrt(event.count_weight)
        expected = float(ndtr((c * n - c) / event.noise - event.deviations))
        assert memory_law.crossings(event, (n,))[0] == pytest.approx(expected, rel=1e-12)
    assert memory_law.crossings(event, (0,)) == (0.0, 1.0)


def rounded(sigma: float, reach: int, shift: int) -> np.ndarray:
    """The chance of each whole number to be the sum of the shift and rounded noise."""
    edges = np.arange(-reach, reach + 2) - 0.5 - shift
    tails = ndtr(-np.abs(edges) / sigma)
    law: np.ndarray = np.where(edges[:-1] > 0, tails[:-1] - tails[1:], np.diff(ndtr(edges / sigma)))
    return law


@pytest.mark.parametrize(("n", "moves"), [(1, [(256, 64), (0, 256)]), (2, [(256, 320)])])
def test_two_rows_on_a_small_grid(n, moves):
    """All pairs of whole numbers that two rows may be, in 256ths: hockey-stick sums in both directions."""
    event = Remembered(noise_multiplier=1.0, epoch=1, eighths=2, horizon=2, tasks_per_person=n)
    assert event.correlation.coefficients.tolist() == [256, 64]
    sigma, reach, epsilon = event.noise * 256, 1_900 + 500 * n, 0.7
    claimed = gaussian.delta(1.0, epsilon)
    found = []
    for one, other in moves:
        for sign in (1, -1):
            before = [rounded(sigma, reach, 0) for _ in range(2)]
            after = [rounded(sigma, reach, sign * move) for move in (one, other)]
            total = 0.0
            for p, q in zip(before[0], after[0], strict=True):
                total += float(np.maximum(p * before[1] - math.exp(epsilon) * q * after[1], 0).sum())
            found.append(total)
    assert max(found) <= claimed
    assert max(found) > claimed * 0.999


def test_noise_on_the_coarse_grid_gives_a_task_away():
    """Rows of 256ths with noise in whole units: what the first task adds to the second row is seen for certain."""
    event = Remembered(noise_multiplier=1.0, epoch=1, eighths=2, horizon=2)
    offsets = {int(event.correlation.coefficients[1] * n) % 256 for n in (0, 1)}
    assert len(offsets) == 2  # the two laws have no value in common
