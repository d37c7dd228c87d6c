"""Laws that are computed: near their claims from below, and above them where a law is wrong."""

from dataclasses import replace

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.lab.attack import audit, exact, games
from reticent.privacy import accounting, events, gaussian, selection

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
# Compositions of different mechanisms claim more than they lose, and so does private selection.
LOOSE = {"labels and sums of the paper": 0.9, "private selection": 0.5}


@pytest.fixture(scope="module")
def found() -> dict[str, games.Result]:
    return {one.game: one for one in audit.mechanisms(BUDGET, trials=40)}


def test_exact_bounds_are_near_their_claims(found):
    for one in found.values():
        assert one.verdict == games.CONSISTENT, one
        assert one.kind is not games.Kind.EXACT or one.tightness > LOOSE.get(one.game, 0.99), one


def test_every_mechanism_is_audited(found):
    """Whatever event a release can spend has a law here; what is free or infinite has none."""
    assert {row.name for row in selection.TABLE} < found.keys()
    assert {"binary test", "noisy sums", "joint Gaussian", "counts with Gaussian noise"} < found.keys()
    assert {"steps of DP-SGD", "labelled training", "private selection", "noisy accuracy"} < found.keys()
    assert {"the best of several runs", "one answer of a noisy accuracy"} < found.keys()
    with pytest.raises(errors.UnsupportedEvent):
        exact.curve(events.Exposure(chance=0.1))


def test_gaussian_bins_agree_with_the_closed_form():
    for mu in (0.01, 0.27, 2.0):
        for epsilon in (0.0, 0.5, 3.0):
            low, high = exact.gaussian(mu)(epsilon), gaussian.delta(mu, epsilon)
            assert low <= high * (1 + 1e-9)
            assert low > 0.99 * high or high < 1e-12


class OffByOne:
    """A law that releases a class as if it had one example more."""

    def __init__(self, law: selection.CountLaw) -> None:
        self.event, self.threshold = law.event, law.threshold - 1
        self._law = law

    def coin(self, size: int) -> int:
        return self._law.coin(size + 1) if size else 0

    def release_probability(self, sizes: object) -> np.ndarray:
        return np.where(np.asarray(sizes) > 0, self._law.release_probability(np.asarray(sizes) + 1), 0.0)


def test_exact_bounds_catch_wrong_laws():
    for row in selection.TABLE:
        event = row.event(epsilon=1.0, delta=1e-5)
        lost = exact.labels_of(OffByOne(selection.law(event)))
        assert exact.of_curve(row.name, lost, event.delta, claimed=event.epsilon).verdict == games.VIOLATED
    one = events.Gaussian(noise_multiplier=4.0)
    for wrong in (replace(one, noise_multiplier=4.0 / 2**0.5), events.compose(one, one)):
        assert exact.exact("", wrong, 1e-5, claimed=one).verdict == games.VIOLATED


def test_a_forgotten_split_of_delta_is_found():
    """Labels and sums that each take the whole delta lose more than the budget, if only a little epsilon."""
    budget = BUDGET
    chosen, sums = rt.ReleasedLabels.paper().selection_and_sums(budget)
    whole = (
        replace(chosen, delta=budget.delta),
        events.Gaussian(noise_multiplier=accounting.gaussian_sigma(replace(budget, epsilon=0.9))),
    )
    assert accounting.delta(events.compose(*whole), budget.epsilon) > budget.delta
    assert accounting.delta(events.compose(chosen, sums), budget.epsilon) <= budget.delta
