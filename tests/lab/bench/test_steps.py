"""Estimates from measured steps: what a run through an encoder takes is computed, not guessed."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent import encoders
from reticent.encoders import Speed
from reticent.lab.bench import runner, steps
from reticent.lab.bench.estimates import Estimates
from reticent.lab.bench.folder import Folder
from reticent.lab.bench.run import Run
from reticent.lab.data.datasets import Data
from tests.lab.tiny import Given

torch = pytest.importorskip("torch", reason="needs reticent[torch]")


ENCODER = encoders.wrap(torch.nn.LayerNorm(4), width=4, name="small", probe=np.arange(4.0, dtype=np.float32))


def a_place(folder: Path) -> Given:
    data = Data(
        "toy", [np.ones(4)] * 30, np.array(["a", "b"] * 15), [np.ones(4)] * 6, np.array(["a", "b"] * 3), "small"
    )
    return Given(folder, folder, data, speed=Speed())


def test_a_step_is_measured():
    step = steps.measured(ENCODER)
    assert 0 < step.forward < 1
    assert 0 < step.gradient < 1
    assert 0 < step.update < 1e-4


def test_a_large_head_takes_longer(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "encoder_of", lambda data, speed: ENCODER)
    monkeypatch.setattr(steps, "measured", lambda _: steps.Step(forward=0.0, gradient=0.0, update=1e-3))
    runs = [Run(data="toy", learner="peft-paper", adapter="film", tasks=2, labels=n) for n in ("base", "public-10x")]
    found = [each.seconds for each in steps.expected(runs, a_place(tmp_path))]
    of_a_task = 40 * math.sqrt(10 / 10)  # a trial has 10 of the 15 examples of a task, and batches of 10 at least
    assert found == pytest.approx([2 * of_a_task * labels * 5 * 1e-3 for labels in (2, 20)])


def test_batches_are_in_the_middle_of_those_that_are_tried():
    step = steps.Step(forward=0.0, gradient=0.0, update=1.0)
    paper, ours = (Run(data="toy", learner=name, adapter="film") for name in ("peft-paper", "peft"))
    assert step.seconds(paper, learned=0, tested=0, tuned_on=5_000, head=1) == pytest.approx(400 * math.sqrt(350))
    assert step.seconds(ours, learned=0, tested=0, head=1) == 10 * 8 * 5


def test_runs_through_an_encoder_are_expected_by_their_step(tmp_path, monkeypatch):
    asked: list[Speed] = []

    def encoder_of(data, speed):
        asked.append(speed)
        return ENCODER

    monkeypatch.setattr(steps, "encoder_of", encoder_of)
    measurements: list[object] = []

    def measured(encoder):
        measurements.append(encoder)
        return steps.Step(forward=0.5, gradient=2.0)

    monkeypatch.setattr(steps, "measured", measured)
    film, head = (Run(data="toy", learner="peft", adapter=adapter, tasks=2) for adapter in ("film", "last_layer"))
    paper = Run(data="toy", learner="peft-paper", adapter="film", tasks=2)
    found = list(steps.expected([film, head, paper], a_place(tmp_path)))
    assert [(each.run, each.seconds, each.tuning) for each in found] == [
        (film, 30 * 8 * 2.0 + 6 * 2 * 0.5, 0.0),
        (paper, 30 * 40 * 2.0 + 6 * 2 * 0.5, pytest.approx(20 * 40 * 0.7 * 15 * 2.0)),
    ]
    assert set(asked) == {Speed()}
    assert len(measurements) == 1  # one step for each encoder
    estimates = Estimates()
    assert not estimates.knows(film)
    estimates.expect(film, 7.0)
    assert estimates.seconds([film, replace(film, seed=3)]) == 14.0
    estimates.expect(paper, 5.0, tuning=100.0)
    assert estimates.seconds([paper, replace(paper, ratio=10.0), replace(paper, seed=3)]) == 215.0


def test_what_cannot_be_measured_is_left_to_its_worker(tmp_path, monkeypatch):
    def broken(data, speed):
        raise OSError("no connection")

    monkeypatch.setattr(steps, "encoder_of", broken)
    assert list(steps.expected([Run(data="toy", learner="peft", adapter="film")], a_place(tmp_path))) == []


def test_what_to_expect_is_one_line_for_each_kind(tmp_path, monkeypatch):
    film: dict[str, Any] = {"data": "toy", "adapter": "film"}
    runs = [
        *(
            Run(learner="peft-paper", labels=labels, seed=seed, **film)
            for labels in ("base", "public-10x")
            for seed in (0, 1)
        ),
        Run(learner="peft", **film),
    ]
    measured: list[Run] = []

    def expected(asked, _):
        measured.extend(asked)
        step = steps.Step(forward=0.01, gradient=0.02)
        for run in asked:
            tuned = run.learner == "peft-paper"
            yield steps.Expected(run, 600.0 if run.labels == "base" else 7_200.0, 1_800.0 if tuned else 0.0, step)

    monkeypatch.setattr(steps, "expected", expected)
    said: list[str] = []
    with Folder(tmp_path / "new") as folder:
        progress = runner._Progress(folder, a_place(tmp_path), 1, said.append, commands={}, until=None)
        progress.say_what_to_expect(runs)
    assert len(measured) == 3  # not one for each seed
    step = "measured here: 10.0 ms to encode an example, 20.0 ms to train with it"
    tuned = "about 10 min to 2.0 h a run and 30 min to tune, once for each budget and seed"
    assert said == [f"toy peft-paper film: {tuned}; {step}", f"toy peft film: about 10 min a run; {step}"]
    assert progress._left.seconds(runs) == 2 * 600 + 2 * 7_200 + 600 + 2 * 1_800
