"""One run with many canaries: the bound of Steinke, Nasr and Jagielski."""

from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.lab.attack import games, training_games
from reticent.lab.attack.single_run import epsilon_of_guesses, one_run, p_value
from reticent.privacy import events
from reticent.sensitive.learners import PeftEnsemble

EVENT = events.OptimalSelection(epsilon=1.0, delta=1e-9)


def response(epsilon: float) -> Any:
    """Tells each coin truthfully with the most probability that epsilon allows."""

    def train(there):
        right = np.random.default_rng().uniform(size=len(there)) < np.exp(epsilon) / (1 + np.exp(epsilon))
        return np.where(right == there, 1.0, 0.0) + np.random.default_rng().uniform(0, 1e-3, len(there))

    return train


def test_one_run_stays_below_the_truth():
    for canaries in (20, 200):
        for _ in range(10):
            found = one_run("", response(1.0), canaries, event=EVENT, delta=1e-9)
            assert found.verdict == games.CONSISTENT
    assert one_run("", response(1.0), 20_000, event=EVENT, delta=1e-9).tightness > 0.8


def test_one_run_finds_missing_noise():
    found = one_run("", lambda there: there.astype(float), 1_000, event=EVENT, delta=1e-9)
    assert found.verdict == games.VIOLATED
    assert found.epsilon_lower_bound > 3
    assert one_run("", response(2.0), 2_000, event=EVENT, delta=1e-9).verdict == games.VIOLATED


def test_p_values_are_those_of_the_theorem():
    """At delta 0 a binomial tail; more delta, more guesses of the same share, and less epsilon only raise them."""
    assert p_value(100, 100, 60, 0.0, 0.0) == pytest.approx(0.0284, abs=1e-4)
    assert p_value(100, 100, 60, 0.0, 1e-3) > p_value(100, 100, 60, 0.0, 0.0)
    assert p_value(100, 100, 90, 1.0, 0.0) > p_value(100, 100, 90, 0.5, 0.0)
    assert p_value(1_000, 100, 90, 1.0, 1e-5) > p_value(100, 100, 90, 1.0, 1e-5)
    assert epsilon_of_guesses(100, 100, 50, 1e-5, 1e-3) == 0.0
    assert epsilon_of_guesses(1_000, 1_000, 990, 1e-5, 1e-3) == pytest.approx(3.4, abs=0.4)


def heads(learner: PeftEnsemble, noise: Any) -> Any:
    """Trains a real learner on canaries, with a noise source of its own."""
    from reticent.gate.gate import Gate
    from reticent.gate.ledger import Ledger
    from reticent.labels import LabelSpace
    from reticent.sensitive.task import Task

    policy = rt.PublicLabels(["first", "second"])

    def learned(features, labels):
        with Ledger.create(None, rt.Budget(epsilon=1.0, delta=1e-5)) as ledger:
            task = Task(features, labels, name="audit")
            known = LabelSpace(("first", "second"))
            return learner.learn_task(task, policy, known=known, encoder=None, gate=Gate(ledger, noise)).parameters

    return learned


def test_one_run_of_real_training():
    from reticent.gate.noise import NoiseSource
    from reticent.lab.attack.replay import Silent

    learner = PeftEnsemble(task_size=200, epochs=2, rate=1.0)
    claimed = events.Gaussian(noise_multiplier=3.730632)
    sides = []
    for noise in (NoiseSource.from_os(), Silent()):
        sides.append(training_games.play_one_run("", heads(learner, noise), claimed=claimed, delta=1e-5, canaries=400))
    assert [side.verdict for side in sides] == [games.CONSISTENT, games.VIOLATED]
