"""What memory buys is planned as the mechanism behaves."""

import math

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.privacy import accounting, memory_plan
from reticent.privacy.correlation import ONE

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
MEMORY = rt.Memory(vault="vault/", horizon=12)
ALPHA = 1e-6


def test_noise_follows_from_the_information_of_the_rows():
    """Against generalised least squares, and the table of THEORY section 10."""
    plan = memory_plan.memory_plan(BUDGET, MEMORY, tasks=12)
    event = accounting.remembered(BUDGET, epoch=1, horizon=12)
    for row in plan.classes:
        t = row.times
        matrix = np.array(
            [[event.correlation.coefficients[i - j] / ONE if i >= j else 0 for j in range(t)] for i in range(t)]
        )
        shape = matrix @ np.ones(t) / t  # of the sum over all tasks
        assert row.with_memory == pytest.approx(event.noise / math.sqrt(shape @ shape))
        assert row.without_memory == pytest.approx(accounting.gaussian_sigma(BUDGET) * math.sqrt(t))
    gains = [(row.without_memory / row.with_memory) ** 2 for row in plan.classes]
    assert [row.times for row in plan.classes] == [1, 3, 6, 12]
    assert gains == pytest.approx([0.88, 1.33, 1.81, 2.52], abs=0.01)


def simulated(size: int, place: int, streams: int) -> int:
    """How many of so many streams know a label after this place: real looks at real-valued noise."""
    event = accounting.remembered(BUDGET, epoch=1, horizon=12, count_weight=0.2)
    matrix, count = event.correlation, math.sqrt(event.count_weight)
    rng = np.random.default_rng()
    noisy = np.cumsum(matrix.coefficients[:place])[None, :] / ONE * size * count
    noisy = noisy + event.noise * rng.normal(size=(streams, place))
    known = np.zeros(streams, dtype=bool)
    for t in range(1, place + 1):
        for look in (matrix.inverse_prefix(t), matrix.inverse_row(t)):
            weights = np.array(look.weights) / 2**20
            known |= noisy[:, :t] @ weights > count + event.deviations * event.noise * look.deviation
    return int(known.sum())


@pytest.mark.parametrize(("size", "place"), [(12, 6), (12, 8), (30, 2), (45, 1)])
def test_labels_become_known_as_planned(size, place):
    from scipy.stats import binom

    event = accounting.remembered(BUDGET, epoch=1, horizon=12, count_weight=0.2)
    chance, streams = memory_plan.known_by(event, size, place), 4_000
    assert 0.05 < chance < 0.999
    known = simulated(size, place, streams)
    assert binom.cdf(known, streams, chance) > ALPHA  # a lower bound
    assert binom.cdf(known, streams, min(1.0, chance + 0.15)) < ALPHA or chance > 0.85  # and not a loose one


def test_a_twin_with_less_noise_promises_too_much():
    from scipy.stats import binom

    event = accounting.remembered(BUDGET, epoch=1, horizon=12, count_weight=0.2)
    less = accounting.remembered(rt.Budget(epsilon=2.0, delta=1e-5), epoch=1, horizon=12, count_weight=0.2)
    promised = memory_plan.known_by(less, 12, 5)
    assert promised > memory_plan.known_by(event, 12, 5)
    assert binom.cdf(simulated(12, 5, 4_000), 4_000, promised) < ALPHA


def test_memory_knows_labels_sooner():
    plan = memory_plan.memory_plan(BUDGET, rt.Memory(vault="vault/"), tasks=60, class_sizes=[10, 20, 100])
    ten, twenty, hundred = plan.labels
    assert (ten.without_memory_50, ten.with_memory_50 is not None) == (None, True)
    assert twenty.with_memory_99 is not None
    assert twenty.without_memory_99 is None
    assert hundred.with_memory_99 == hundred.without_memory_99 == 1


def test_plans_without_a_proof_have_no_labels():
    for budget in (
        rt.Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2),
        rt.Budget(epsilon=1.0, delta=1e-5, examples_per_person=2),
        rt.Budget(epsilon=1.0, delta=1e-5, adjacency=rt.Adjacency.REPLACE_ONE),
    ):
        plan = memory_plan.memory_plan(budget, MEMORY, tasks=12)
        assert plan.labels == ()
        assert plan.classes[-1].with_memory < plan.classes[-1].without_memory
    with pytest.raises(errors.InvalidValue, match="horizon of at least 13 tasks"):
        memory_plan.memory_plan(BUDGET, MEMORY, tasks=13)
