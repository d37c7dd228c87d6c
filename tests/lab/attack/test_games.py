"""From games to bounds: never above the truth, near it with many games, and in words that fit."""

from dataclasses import replace

import numpy as np
import pytest

from reticent.lab.attack import games
from reticent.privacy import events

DELTA = 1e-5


def responses(truth: float, trials: int, seen: float = 1.0, unseen: float = 0.0) -> np.ndarray:
    """Randomised response: the right answer with this probability, in games with the canary and without."""
    right = np.random.default_rng().uniform(size=(2, trials)) < truth
    return np.where(right, [[seen], [unseen]], [[unseen], [seen]])


def test_bounds_stay_below_the_truth():
    """Gaussians, and randomised response: often, and with few games, where luck is largest."""
    draw = np.random.default_rng()
    gaussian, response = events.Gaussian(noise_multiplier=1.0), events.OptimalSelection(epsilon=1.0, delta=DELTA)
    for trials in (8, 40, 400):
        for _ in range(8):
            noise = draw.normal(size=(2, trials))
            assert games.judge("", noise[0] + 1, noise[1], event=gaussian, delta=DELTA).verdict == games.CONSISTENT
            truth = responses(np.e / (1 + np.e), trials)
            assert games.judge("", *truth, event=response, delta=DELTA).verdict == games.CONSISTENT


def test_bounds_come_close_to_the_truth():
    noise = np.random.default_rng().normal(size=(2, 200_000))
    found = games.judge("", noise[0] + 1, noise[1], event=events.Gaussian(noise_multiplier=1.0), delta=DELTA)
    assert 0.92 * found.claimed < found.epsilon_lower_bound  # 0.979 on average, with a deviation of 0.007
    truth = responses(np.e / (1 + np.e), 200_000, seen=1.0, unseen=-np.inf)
    response = games.judge("", *truth, event=events.OptimalSelection(epsilon=1.0, delta=DELTA), delta=DELTA)
    assert response.epsilon_lower_bound > 0.9
    assert {found.verdict, response.verdict} == {games.CONSISTENT}


def test_bounds_exceed_the_claim_of_a_broken_twin():
    """Sensitivity off by the square root of two; a coin that is too often right; a label exposed too often."""
    noise = np.random.default_rng().normal(size=(2, 40_000))
    gaussian = events.Gaussian(noise_multiplier=1.0)
    assert games.judge("", noise[0] + 2**0.5, noise[1], event=gaussian, delta=DELTA).verdict == games.VIOLATED
    response = events.OptimalSelection(epsilon=1.0, delta=DELTA)
    assert games.judge("", *responses(0.8, 20_000), event=response, delta=DELTA).verdict == games.VIOLATED
    exposed = np.random.default_rng().uniform(size=40_000) < 0.03
    rare = events.OptimalSelection(epsilon=1.0, delta=0.01)
    found = games.judge("", exposed.astype(float), np.zeros(40_000), event=rare, delta=0.01)
    assert found.verdict == games.VIOLATED


def test_as_many_games_count_on_both_sides():
    draw = np.random.default_rng()
    event = events.Gaussian(noise_multiplier=1.0)
    found = games.judge("", draw.normal(size=40) + 1, draw.normal(size=4_000), event=event, delta=DELTA)
    assert found.trials == 40
    assert found.verdict == games.CONSISTENT


def test_the_family_of_an_event_keeps_its_shape():
    counts = events.LabelCounts(noise_multiplier=10.0, threshold=45.0)
    steps = events.DpSgd(noise_multiplier=4.0, rate=0.1, steps=10)
    noise = games.gaussians(events.LabelledTraining(counts=counts, training=steps))
    assert noise is not None
    half = events.Gaussian(noise_multiplier=5.0), replace(steps, noise_multiplier=2.0)
    assert noise(0.5) == events.compose(*half)
    chosen = events.OptimalSelection(epsilon=1.0, delta=DELTA)
    assert games.gaussians(chosen) is None
    beside = games.gaussians(events.compose(chosen, half[0]))
    assert beside is not None
    assert beside(2.0) == events.compose(chosen, events.Gaussian(noise_multiplier=10.0))


def result(**fields: object) -> games.Result:
    usual = {"game": "", "trials": 8, "claimed": 1.0, "delta": DELTA, "accuracy": 0.5}
    return games.Result(**{**usual, "epsilon_lower_bound": 0.0, "refuted": False, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "weak: a lower bound of 0.000 excludes nothing"),
        ({"epsilon_lower_bound": 0.1}, "weak: the attack measures 0.10 of the claim"),
        ({"epsilon_lower_bound": 0.5}, "fair: the attack measures 0.50 of the claim"),
        ({"epsilon_lower_bound": 0.875}, "strong: the attack measures 0.87 of the claim"),
        ({"epsilon_lower_bound": 1.1}, "suspicious: above the claim, as one game in 1,000 is by chance; play more"),
        ({"epsilon_lower_bound": 2.0, "refuted": True}, "proof of a fault: chance explains it once in a million"),
        ({"epsilon_lower_bound": 0.996, "kind": games.Kind.EXACT}, "exact: the computed law has 0.99 of the claim"),
        (
            {"epsilon_lower_bound": 2.0, "kind": games.Kind.EXACT, "refuted": True},
            "proof of a fault: more is lost than is claimed",
        ),
    ],
)
def test_evidence_is_stated_in_words(fields, words):
    assert result(**fields).evidence == words
    assert result(**fields).json()["evidence"] == words
