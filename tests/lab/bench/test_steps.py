"""Estimates from measured steps: what a run through an encoder takes is computed, not guessed."""

from pathlib import Path

import numpy as np
import pytest

from reticent import encoders
from reticent.encoders import Speed
from reticent.lab.bench import steps
from reticent.lab.bench.estimates import Estimates
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
    found = [seconds for _, seconds, _ in steps.expected(runs, a_place(tmp_path))]
    assert found == pytest.approx([2 * 400 * labels * 5 * 1e-3 for labels in (2, 20)])


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
    assert [(run, seconds) for run, seconds, _ in found] == [
        (film, 30 * 8 * 2.0 + 6 * 2 * 0.5),
        (paper, 30 * 120 * 2.0 + 6 * 2 * 0.5),
    ]
    assert set(asked) == {Speed()}
    assert len(measurements) == 1  # one step for each encoder
    estimates = Estimates()
    assert not estimates.knows(film)
    estimates.expect(film, 7.0)
    assert estimates.seconds([film, Run(**{**vars(film), "seed": 3})]) == 14.0


def test_what_cannot_be_measured_is_left_to_its_worker(tmp_path, monkeypatch):
    def broken(data, speed):
        raise OSError("no connection")

    monkeypatch.setattr(steps, "encoder_of", broken)
    assert list(steps.expected([Run(data="toy", learner="peft", adapter="film")], a_place(tmp_path))) == []
