"""How long runs take: means of similar ones, at a cost that does not grow with the number of results."""

import time

import pytest

from reticent.lab.bench.estimates import Estimates, duration
from reticent.lab.bench.one_run import failed
from reticent.lab.bench.run import Run
from tests.lab.tiny import a_run, by_digest, done


def test_estimate_is_the_mean_of_similar_runs():
    estimates = Estimates(
        by_digest([done(a_run(seed=0), 0.5, seconds={"learn": 1.0, "evaluate": 2.0, "processor": 3.0})])
    )
    assert estimates.seconds([a_run(seed=9)]) == pytest.approx(3)
    estimates.add(done(a_run(seed=1), 0.5, seconds={"learn": 6.0, "evaluate": 1.0, "processor": 7.0}))
    estimates.add(done(a_run(seed=2), 0.5, status="failed"))
    estimates.add(done(a_run(learner="peft"), 0.5, seconds={"learn": 100.0, "evaluate": 0.0, "processor": 100.0}))
    assert estimates.seconds([a_run(seed=8), a_run(seed=9)]) == pytest.approx(2 * 5)


def test_estimating_costs_the_same_after_many_runs():
    """The runner asks after every run, for every run that waits."""
    queue = [a_run(seed=seed) for seed in range(300)]

    def cost(runs: int) -> float:
        estimates = Estimates(by_digest([done(a_run(seed=seed), 0.5) for seed in range(runs)]))
        taken = []
        for _ in range(5):
            started = time.process_time()
            estimates.seconds(queue)
            taken.append(time.process_time() - started)
        return min(taken)

    assert cost(300) < 5 * cost(1)  # computing the mean again for each run: about 20


def test_durations_are_rounded_for_people():
    assert [duration(s) for s in (0, 59.4, 61, 3_599, 3_600, 36_000)] == [
        "0 s",
        "59 s",
        "1 min",
        "60 min",
        "1.0 h",
        "10.0 h",
    ]


def test_estimates_follow_what_was_measured_here():
    run = Run(data="clinc150", learner="cosine")
    guess = Estimates().seconds([run])
    seen = Estimates(by_digest([done(run, 0.5, seconds={"learn": 80.0, "evaluate": 2.0, "processor": 42.0})]))
    assert seen.seconds([Run(data="clinc150", learner="cosine", seed=7, epsilon=8.0)]) == 42.0 != guess
    assert seen.seconds([run, run]) == 84.0
    other = Run(data="icd10cm", learner="cosine")
    assert seen.seconds([other]) == Estimates().seconds([other])
    seen.add(failed(run, "no"))
    assert seen.seconds([run]) == 42.0
    film = Run(data="clinc150", learner="peft", adapter="film")
    assert Estimates().seconds([film]) > 100 * guess


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"learner": "cosine", "labels": "public-1000x"}, 1.0),
        ({"learner": "cosine-paper", "labels": "public-1000x"}, 0.5 * 48),
        ({"learner": "peft-paper", "labels": "public-10x", "data": "icd10cm"}, 20.0 * 10 * 1.5),
        ({"learner": "peft-paper", "adapter": "film"}, 1_400.0 * 6),
        ({"learner": "desai", "adapter": "film"}, 1_400.0),
        ({"learner": "mine:Own", "data": "cifar100-features"}, 15.0 * 3),
    ],
)
def test_first_estimates_come_from_the_catalogue(fields, seconds):
    assert Estimates().seconds([Run(**{"data": "clinc150", **fields})]) == pytest.approx(seconds)
