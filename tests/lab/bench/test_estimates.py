"""How long runs take: means of similar ones, at a price that does not grow with what was run."""

import time

import pytest

from reticent.lab.bench.estimates import Estimates
from tests.lab.tiny import by_digest, cell, done


def test_a_cell_takes_the_mean_of_similar_ones():
    estimates = Estimates(by_digest([done(cell(seed=0), 0.5, seconds={"learn": 1.0, "evaluate": 2.0})]))
    assert estimates.seconds([cell(seed=9)]) == pytest.approx(3)
    estimates.add(done(cell(seed=1), 0.5, seconds={"learn": 6.0, "evaluate": 1.0}))
    estimates.add(done(cell(seed=2), 0.5, status="failed"))
    estimates.add(done(cell(learner="peft"), 0.5, seconds={"learn": 100.0, "evaluate": 0.0}))
    assert estimates.seconds([cell(seed=8), cell(seed=9)]) == pytest.approx(2 * 5)


def test_what_is_left_costs_the_same_after_many_runs():
    """The runner asks after every run, for every cell that waits."""
    queue = [cell(seed=seed) for seed in range(300)]

    def cost(runs: int) -> float:
        estimates = Estimates(by_digest([done(cell(seed=seed), 0.5) for seed in range(runs)]))
        taken = []
        for _ in range(5):
            started = time.process_time()
            estimates.seconds(queue)
            taken.append(time.process_time() - started)
        return min(taken)

    assert cost(300) < 5 * cost(1)  # a mean anew for each cell: about 20
