"""How long runs take: means of similar ones, at a cost that does not grow with the number of results."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reticent.lab.bench import run_rows
from reticent.lab.bench.estimates import Estimates, duration, processor
from reticent.lab.bench.one_run import failed
from reticent.lab.bench.passes import TUNED
from reticent.lab.bench.run import Run
from tests.lab.tiny import a_run, by_digest, done

ROWS = Path(__file__).parents[3] / "docs" / "results" / "runs.parquet"


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
    assert [duration(s) for s in (0, 59.4, 61, 3_599, 3_600, 36_000, 36e6)] == [
        "0 s",
        "59 s",
        "1 min",
        "60 min",
        "1.0 h",
        "10.0 h",
        "10,000 h",
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
        ({"learner": "peft-paper", "labels": "public-10x", "data": "icd10cm"}, (8.0 * 10 + 8.0) * 1.5),
        ({"learner": "peft-paper", "epsilon": None}, 8.0 * 4 + 8.0),
        ({"learner": "peft-paper", "adapter": "film"}, 8.0 + 175 * (40 + 20 * 40 * 0.7 / 10)),
        ({"learner": "peft-paper", "adapter": "film", "labels": "public-1000x"}, 8_000.0 + 175 * 96),
        ({"learner": "desai", "adapter": "film"}, 6.0 + 175 * 8),
        ({"learner": "mine:Own", "data": "cifar100-features"}, 15.0 * 3),
    ],
)
def test_first_estimates_come_from_the_catalogue(fields, seconds):
    assert Estimates().seconds([Run(**{"data": "clinc150", **fields})]) == pytest.approx(seconds)


def test_tuning_is_counted_once_for_all_runs_that_share_it():
    film: dict[str, Any] = {"data": "clinc150", "adapter": "film"}
    runs = [Run(learner=name, **film) for name in ("peft-paper", "naive-paper", "desai-paper")]
    train, tune = 175 * (40 + 40 + 54) + 8 + 8 + 12, 175 * 56
    assert Estimates().seconds(runs) == pytest.approx(train + tune)
    assert Estimates().seconds([*runs, replace(runs[0], seed=1)]) == pytest.approx(train + 175 * 40 + 8 + 2 * tune)
    assert Estimates().seconds([Run(learner="peft", **film)] * 2) == pytest.approx(2 * (175 * 8 + 4))


def test_tuning_is_not_counted_where_a_run_here_has_its_settings():
    oracle, base, naive = (
        Run(data="clinc150", learner=learner, labels=labels)
        for learner, labels in (("peft-paper", "oracle"), ("peft-paper", "base"), ("naive-paper", "base"))
    )
    ended = Estimates(by_digest([done(oracle, 0.5, seconds={"learn": 1.0, "evaluate": 1.0, "processor": 10.0})]))
    assert ended.seconds([base, naive]) == pytest.approx(8 + 8)
    later = [replace(run, seed=1) for run in (naive, base, oracle)]
    assert ended.seconds(later[:2]) == pytest.approx(8 + 8 + 8)
    assert ended.seconds(later) == pytest.approx(8 + 8 + 10)  # the mean of runs like the oracle has it


def _in_one_go(run: dict[str, Any]) -> bool:
    """Whether a row has all the time of its run: seeds 1 and 2 of tuned FiLM were stopped, and have the last hour's."""
    return bool(run["adapter"] == "last_layer" or run["seed"] == 0)


def test_estimates_of_tuned_runs_are_what_the_committed_ones_took():
    """Within a quarter, in all, and a half for FiLM; before tuning was counted once, FiLM was half of what it took."""
    results = run_rows.read(ROWS)
    tuned = [result for result in results.values() if result["run"]["learner"] in TUNED]
    for adapter, most in (("last_layer", 1.25), ("film", 1.5)):
        mine = [result for result in tuned if result["run"]["adapter"] == adapter and _in_one_go(result["run"])]
        if not mine:
            pytest.skip("no rows of this code")
        taken = sum(processor(result) for result in mine)
        assert 1 / most < Estimates().seconds(Run(**result["run"]) for result in mine) / taken < most
