import dataclasses
import importlib.util

import numpy as np
import pytest

from reticent import Budget, errors
from reticent.gate.mechanisms import SelectLabels
from reticent.gate.noise import NoiseSource
from reticent.lab.attack import label_attack
from reticent.privacy import accounting, confidence, events, selection
from reticent.testing.mechanism_checks import most_revealing_size

BUDGET = Budget(epsilon=1.0, delta=1e-5)


@pytest.fixture(scope="module")
def results():
    return label_attack.attack_labels(BUDGET, trials=20_000, trainings=60)


def test_labels_from_the_data_always_lose(results):
    naive = [r for r in results if not r.remedy]
    assert {"DP weights, labels from the data", "scikit-learn LogisticRegression"} <= {r.target for r in naive}
    for result in naive:
        assert result.accuracy == 1.0
        assert result.broken


def test_diffprivlib_loses_too(results):
    if importlib.util.find_spec("diffprivlib") is None:
        pytest.skip("diffprivlib is not installed")
    assert {"diffprivlib GaussianNB (DP)", "diffprivlib LogisticRegression (DP)"} <= {r.target for r in results}


def test_every_remedy_stays_within_the_bound(results):
    remedies = [r for r in results if r.remedy]
    names = {"joint-gaussian", "optimal", "truncated-geometric", "laplace", "public labels"}
    assert {r.target for r in remedies} == names
    assert {r.game for r in remedies} == {label_attack.ALONE, label_attack.WORST}
    for result in remedies:
        assert not result.broken, result
        assert result.bound == pytest.approx((np.e + 1e-5) / (1 + np.e))


def test_the_attack_is_as_strong_as_theory_says(results):
    """The attack is not weak: the measured accuracy is the best possible one for what is published."""
    seen = {(r.target, r.game): r for r in results if r.remedy}
    for kind in (events.OptimalSelection, events.TruncatedGeometric, events.LaplaceThreshold):
        event = kind(epsilon=1.0, delta=1e-5)
        size = most_revealing_size(event)
        before, after = selection.law(event).release_probability([size, size + 1])
        name = {
            events.OptimalSelection: "optimal",
            events.TruncatedGeometric: "truncated-geometric",
            events.LaplaceThreshold: "laplace",
        }[kind]
        low, high = seen[name, label_attack.WORST].interval
        assert low <= 0.5 + (after - before) / 2 <= high
    from scipy.stats import norm

    best = float(norm.cdf(0.5 / accounting.gaussian_sigma(BUDGET)))
    for name in ("joint-gaussian", "public labels"):
        low, high = seen[name, label_attack.WORST].interval
        assert low <= best + 1e-3
        assert high >= best - 1e-3


def test_the_game_catches_a_broken_remedy():
    """Half the noise: the same game exceeds the bound."""
    honest = SelectLabels(events.OptimalSelection(epsilon=1.0, delta=1e-5))
    broken = SelectLabels(dataclasses.replace(honest.event, epsilon=2.0))
    joined = np.random.default_rng().integers(2, size=20_000).astype(bool)
    size = most_revealing_size(broken.event)
    seen = label_attack._labels_seen(broken(label_attack._counts(size, joined), rng=NoiseSource.from_os()), 20_000)
    assert label_attack._result("twin", label_attack.WORST, BUDGET, seen == joined).broken


def test_curve_grows_with_epsilon():
    curve = label_attack.accuracy_curve(1e-5, trials=4_000, trainings=30)
    assert {r.epsilon for r in curve} == set(label_attack.CURVE)
    optimal = [r.accuracy for r in curve if r.target == "optimal"]
    assert optimal[0] < 0.6  # 0.525, with a deviation of 0.008
    assert optimal[-1] > 0.9
    assert not any(r.broken for r in curve if r.remedy)
    leak = [r for r in curve if not r.remedy]
    assert [r.epsilon for r in leak] == list(label_attack.CURVE)
    assert all(r.accuracy == 1.0 for r in leak)
    assert leak[0].broken  # 30 games of 30: at least 0.61


def test_seeded_games_are_repeated_and_others_are_new():
    played = [[r.wins for r in label_attack.attack_remedies(BUDGET, 2_000, seed=s)] for s in (3, 3, 4, None, None)]
    assert played[0] == played[1]
    assert len({tuple(wins) for wins in played}) == 4


def test_delta_zero_is_refused():
    with pytest.raises(errors.InvalidValue, match="public superset"):
        label_attack.attack_labels(Budget(epsilon=1.0, delta=0.0))


def test_lower_bounds_do_not_exceed_the_truth():
    """Randomised response at epsilon 1: the audit stays below it, and comes close."""
    rng = np.random.default_rng()
    p = np.e / (1 + np.e)
    hits, alarms = rng.binomial(200_000, p), rng.binomial(200_000, 1 - p)
    found = confidence.epsilon_lower_bound(hits, 200_000, alarms, 200_000, delta=0.0, alpha=1e-6)
    assert 0.9 < found <= 1.0
    assert confidence.epsilon_lower_bound(5, 10, 5, 10, delta=0.0, alpha=0.05) <= 0


def test_clopper_pearson_covers():
    """The chance that the truth is inside, added up exactly over all outcomes; and the limits are not too wide."""
    from scipy.stats import binom

    limits = [confidence.clopper_pearson(wins, 60, 0.05) for wins in range(61)]
    for p in (0.001, 0.02, 0.31, 0.5, 0.99):
        covered = sum(binom.pmf(wins, 60, p) for wins, (low, high) in enumerate(limits) if low <= p <= high)
        assert covered >= 0.95
    assert sum(binom.pmf(wins, 60, 0.5) for wins, (low, high) in enumerate(limits) if low <= 0.5 <= high) < 0.98
    assert confidence.clopper_pearson(0, 10, 0.1)[0] == 0.0
    assert confidence.clopper_pearson(10, 10, 0.1)[1] == 1.0
