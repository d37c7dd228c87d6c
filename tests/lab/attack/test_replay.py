"""Replays: what one person moves, over the measured noise."""

from typing import Any

import numpy as np
import pytest

from reticent.lab.attack import games
from reticent.lab.attack.replay import Silent, measured, replay
from reticent.privacy import events

SIGMA = 4.0
EVENT = events.Gaussian(noise_multiplier=SIGMA)


def released(
    noise: Any, person: bool, *, times: float = 1.0, far: float = 1.0, each: float = 1.0, reused: Any = 0
) -> Any:
    """Sums of 500 labels, of which a person moves one by one unit."""
    sums = np.ones(500)
    sums[0] += far * person
    if reused:
        drawn = np.random.default_rng(0).normal(size=500) * SIGMA * (not isinstance(noise, Silent))
    else:
        drawn = noise.rounded_gaussian(SIGMA * times * 2**20, 500) / 2**20
    return {"sums": (sums + drawn) * (each if person else 1.0), "constant": np.full(3, SIGMA)}


def played(learn: Any) -> games.Result:
    return replay("", learn, event=EVENT, claimed_mu=1 / SIGMA, delta=1e-5)


def test_replays_measure_the_claim():
    found = played(released)
    assert found.verdict == games.CONSISTENT
    assert found.tightness > 0.9


@pytest.mark.parametrize(
    "wrong",
    [
        {"times": 0.5},
        {"times": 0.9},
        {"times": 1e-6},
        {"far": 2**0.5},
        {"far": 10.0},
        {"each": 0.8},
        {"reused": True},
    ],
    ids=str,
)
def test_replays_find_what_is_wrong(wrong):
    assert played(lambda noise, person: released(noise, person, **wrong)).verdict == games.VIOLATED


def test_a_value_without_noise_is_found():
    def counted(noise, person):
        return {**released(noise, person), "count": np.array([5.0 + person])}

    assert played(counted).epsilon_lower_bound == np.inf
    assert played(lambda noise, person: {"sums": np.zeros(3 + person)}).epsilon_lower_bound == np.inf


def test_a_silent_source_is_not_private():
    silent = Silent()
    assert not silent.private
    assert not silent.rounded_gaussian(1e9, 4).any()
    assert silent.coins([0, 1 << 256]).tolist() == [False, True]
    assert measured(released, 4).mu(0.5) > 0
