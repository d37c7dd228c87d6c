"""The number of runs: its distribution written out, and draws that follow it."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from reticent.gate.mechanisms import number_of_runs
from reticent.gate.noise import NoiseSource
from reticent.numerics import precision
from reticent.privacy import events, repeats
from tests.conftest import ALPHA
from tests.privacy.best_run import RUN, SHAPES, best_of


def pmf(event: events.PrivateSelection, k: int, mp: Any) -> Any:
    """Pr[K = k] as Papernot and Steinke 2022 define it, to the precision of the context."""
    eta, rest = mp.mpf(event.eta), mp.mpf(event.gamma)
    growth = mp.rf(eta + 1, k - 1) / mp.factorial(k) * (1 - rest) ** k
    # (eta)(eta + 1)...(eta + k - 1) / (gamma^-eta - 1), with the limit 1 / ln(1/gamma) of eta / (gamma^-eta - 1) at 0
    return growth * eta / mp.expm1(-eta * mp.log(rest)) if eta else growth / -mp.log(rest)


@pytest.mark.parametrize(("eta", "gamma"), SHAPES)
def test_distribution_of_the_number_of_runs(eta, gamma):
    event = events.PrivateSelection(run=RUN, eta=eta, gamma=gamma)
    with precision.bits(200) as mp:
        chances = [pmf(event, k, mp) for k in range(1, 6_000)]
        assert float(mp.fsum(chances)) == pytest.approx(1, abs=1e-12)
        mean = float(mp.fsum(k * chance for k, chance in enumerate(chances, start=1)))
        for k in (1, 2, 7, 40):
            tail = 1 - mp.fsum(chances[: k - 1])
            assert float(repeats.hazard(event, k, mp) * tail / chances[k - 1]) == pytest.approx(1, rel=1e-12)
    assert repeats.mean(eta, gamma) == pytest.approx(mean, rel=1e-9)
    assert repeats.gamma(eta, mean) == pytest.approx(gamma, rel=1e-9)
    # the generating function used above, at one point
    assert best_of(np.array([0.3, 0.7]), eta, gamma)[0] == pytest.approx(
        sum(float(chance) * 0.3**k for k, chance in enumerate(chances[:60], start=1)), rel=1e-9
    )


def follows(draws: list[int], event: events.PrivateSelection) -> bool:
    """Chi-square over 1, 2, ..., 12 and all beyond."""
    with precision.bits(128) as mp:
        expected = [float(pmf(event, k, mp)) for k in range(1, 13)]
    expected.append(1 - sum(expected))
    observed = np.bincount(np.minimum(draws, 13), minlength=14)[1:]
    return bool(chisquare(observed, np.array(expected) * len(draws)).pvalue >= ALPHA)


@pytest.mark.parametrize(("eta", "gamma"), [(0.0, 0.05), (1.0, 0.2), (-0.5, 0.02), (2.0, 0.4)])
def test_number_of_runs_follows_its_pmf(eta, gamma, rng):
    event = events.PrivateSelection(run=RUN, eta=eta, gamma=gamma)
    draws = [number_of_runs(event, rng=rng) for _ in range(4_000)]
    assert follows(draws, event)
    # mutants: one run too many, and another shape
    assert not follows([k + 1 for k in draws], event)
    other = dataclasses.replace(event, eta=eta + 1)
    assert not follows([number_of_runs(other, rng=rng) for _ in range(4_000)], event)


def test_doubtful_coins_are_decided_exactly(monkeypatch):
    """With bounds that decide nothing, every coin is settled in high precision; the numbers of runs are the same."""
    event = events.PrivateSelection(run=RUN, eta=0.0, gamma=0.1)
    fast = [number_of_runs(event, rng=NoiseSource.seeded(seed)) for seed in range(40)]
    below = NoiseSource.below

    def undecided(self, low, high, exact):
        return below(self, np.zeros_like(low), np.ones_like(high), exact)

    monkeypatch.setattr(NoiseSource, "below", undecided)
    assert [number_of_runs(event, rng=NoiseSource.seeded(seed)) for seed in range(40)] == fast
