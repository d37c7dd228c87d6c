"""Whole classifiers: many games in one stream are independent, and are the games that one canary plays alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp, norm

import reticent as rt
from reticent.lab.attack import games, stream_games, whole_games
from reticent.lab.attack.stream_games import (
    ALONE,
    KNOWN,
    MAYBE,
    SPARSE,
    SPARSE_BESIDE,
    SPARSE_KNOWN,
    SUBTRACTED,
    SURE,
    Streamed,
    World,
)

ALPHA = 1e-6
PUBLIC = rt.PublicLabels(["first", "second"])
REMAPPED = rt.PublicLabels(["first"], rt.Taxonomy({"child": "first"}))
BUDGET = rt.Budget(epsilon=4.0, delta=1e-5)
TWICE = rt.Budget(epsilon=4.0, delta=1e-5, tasks_per_person=2, examples_per_person=2)


def worlds(learner: rt.Cosine, policy: Any, budget: rt.Budget) -> dict[str, World]:
    event = whole_games.spent(learner, policy, budget)
    return {world.game: world for world in stream_games.worlds(policy, event, keep_all=learner.keep_all)}


@pytest.mark.parametrize(
    ("learner", "policy", "budget", "names"),
    [
        (rt.Cosine(), PUBLIC, BUDGET, {KNOWN, SPARSE, SPARSE_KNOWN}),
        (rt.Cosine.paper(), REMAPPED, TWICE, {KNOWN}),
        (rt.Cosine(), rt.ReleasedLabels(), BUDGET, {KNOWN, ALONE, MAYBE, SURE, SPARSE_BESIDE}),
        (rt.Cosine.paper(), rt.ReleasedLabels.paper(), BUDGET, {KNOWN, ALONE, MAYBE, SURE}),
    ],
)
def test_streams_are_consistent(learner, policy, budget, names):
    found = worlds(learner, policy, budget)
    assert set(found) == names
    results = [one for world in found.values() for one in stream_games.play(learner, policy, budget, world, trials=500)]
    assert {one.verdict for one in results} == {games.CONSISTENT}, results
    assert max(one.accuracy for one in results) > 0.57, results  # the attack is not trivial: 0.65 to 0.69


def test_games_of_one_stream_are_independent():
    """What one label's game sees is not correlated with its neighbour's, with what is left of the noise elsewhere."""
    scores = []
    for _ in range(20):
        stream = Streamed(rt.Cosine(), PUBLIC, BUDGET, World(game=KNOWN))
        found = stream.scores()[KNOWN]
        side = np.where(stream.joined, found - found[stream.joined].mean(), found - found[~stream.joined].mean())
        scores.append(side / side.std())
    rows = np.array(scores)
    product = float(np.mean(rows[:, ::2] * rows[:, 1::2])) * np.sqrt(rows.size / 2)
    shared = float(np.sum(rows.mean(axis=1) ** 2)) * rows.shape[1]  # 20 stream means, each of deviation 1
    assert abs(product) < norm.isf(ALPHA / 2)
    assert shared < 75  # chi-squared with at most 20 degrees of freedom: beyond 68 with chance 1e-6 or so


def test_one_canary_alone_plays_the_same_game():
    many = [Streamed(rt.Cosine(), PUBLIC, BUDGET, World(game=KNOWN)) for _ in range(2)]
    for present in (True, False):
        together = np.concatenate([s.scores()[KNOWN][s.joined == present] for s in many])
        alone = []
        for _ in range(40):
            stream = Streamed(rt.Cosine(), PUBLIC, BUDGET, World(game=KNOWN, labels=2))
            alone += stream.scores()[KNOWN][stream.joined == present].tolist()
        assert ks_2samp(together, alone).pvalue > ALPHA


def reused() -> Any:
    """A source whose second task has the noise of the first, as after a machine is restored from a snapshot."""
    from reticent.gate.noise import NoiseSource

    class Restored(NoiseSource):
        def rounded_gaussian(self, sigma: float, shape: Any) -> Any:
            return NoiseSource.seeded(7).rounded_gaussian(sigma, shape)

    return Restored(seed=None)


def test_noise_of_two_tasks_is_subtracted():
    present, absent = [], []
    for noise in (None, reused()):
        stream = Streamed(rt.Cosine(), PUBLIC, BUDGET, World(game=KNOWN), noise=noise)
        scores = stream.scores()[SUBTRACTED]
        present.append(scores[stream.joined])
        absent.append(scores[~stream.joined])
        spent = stream.spent
    verdicts = [games.judge("", p, a, event=spent, delta=1e-5).verdict for p, a in zip(present, absent, strict=True)]
    assert verdicts == [games.CONSISTENT, games.VIOLATED]


def test_blocks_kept_because_of_examples_are_detected(monkeypatch):
    """Of many labels beside released ones: which ones are published must not follow from the exact sums."""
    from reticent.gate.sparse_joint import SparseJoint

    class ByExactSums(SparseJoint):
        def __call__(self, value: Any, *, rng: Any) -> Any:
            told = np.union1d(self.known.kept_before, value.rows)
            return SparseJoint(self.event, replace(self.known, kept_before=told))(value, rng=rng)

    policy, world = rt.ReleasedLabels(), World(game=SPARSE_BESIDE, labels=4_000)
    for twin, verdict in ((SparseJoint, games.CONSISTENT), (ByExactSums, games.VIOLATED)):
        monkeypatch.setattr("reticent.sensitive.learners.cosine.SparseJoint", twin)
        (found,) = stream_games.play(rt.Cosine(), policy, rt.Budget(epsilon=1.0, delta=1e-5), world, trials=2_000)
        assert found.verdict == verdict, found
