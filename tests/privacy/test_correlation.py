import itertools
import math

import numpy as np
import pytest

from reticent import errors
from reticent.privacy.correlation import LOOK_ONE, ONE, Correlation, default_eighths

EIGHTHS = range(5)


def matrix(c: Correlation) -> np.ndarray:
    """C in 256ths, row by row: slow and obvious."""
    whole = np.zeros((c.horizon, c.horizon), np.int64)
    for t in range(c.horizon):
        for s in range(t + 1):
            whole[t, s] = c.coefficients[t - s]
    return whole


def test_table_of_gamma_and_information(golden):
    for row in golden["memory"]:
        eighths = row["eighths"]
        short, long = Correlation(eighths, 12), Correlation(eighths, 120)
        assert [round(Correlation(eighths, h).gamma() ** 2, 2) for h in (12, 60, 120)] == row["squares"]
        assert [round(short.information(t), 2) for t in (1, 3, 6, 12)] == row["after_1_3_6_12_of_12"]
        assert [float(f"{long.information(t):.3g}") for t in (12, 60, 120)] == row["after_12_60_120_of_120"]
    assert [row["eighths"] for row in golden["memory"]] == [1, 2, 3, 4]


def test_a_quarter_needs_no_declared_horizon():
    assert Correlation(2, 1200).gamma() ** 2 <= 1.18


@pytest.mark.parametrize("eighths", EIGHTHS)
@pytest.mark.parametrize("horizon", [1, 2, 120, 1200])
def test_coefficients_never_grow(eighths, horizon):
    found = Correlation(eighths, horizon).coefficients
    assert len(found) == horizon
    assert found[0] == ONE
    assert (np.diff(found) <= 0).all()
    assert (found >= 0).all()
    exact = [1.0]
    for k in range(1, horizon):
        exact.append(exact[-1] * (k - 1 + eighths / 8) / k)
    assert np.abs(found - ONE * np.array(exact)).max() <= 0.5


@pytest.mark.parametrize("eighths", EIGHTHS)
@pytest.mark.parametrize("horizon", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_no_tasks_move_more_than_the_first(eighths, horizon, n):
    columns = matrix(Correlation(eighths, horizon)).T
    worst = max(
        sum(int(square) for square in sum(chosen) ** 2)
        for size in range(1, min(n, horizon) + 1)
        for chosen in itertools.combinations(columns, size)
    )
    gamma = Correlation(eighths, horizon).gamma(n)
    assert gamma**2 * ONE**2 >= worst
    if horizon >= max(n, 2 * n - 2):  # then one epoch is the worst, and gamma is its norm
        assert gamma == pytest.approx(math.sqrt(worst) / ONE, rel=1e-15)


@pytest.mark.parametrize("eighths", EIGHTHS)
@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 6, 120])
def test_gamma_covers_every_split(eighths, horizon):
    gamma = {n: Correlation(eighths, horizon).gamma(n) for n in range(1, 9)}
    for p, q in itertools.combinations_with_replacement(range(1, 5), 2):
        assert gamma[p + q] ** 2 >= (gamma[p] ** 2 + gamma[q] ** 2) * (1 - 1e-14)
    # the norm for one epoch alone is not superadditive where it is short: two epochs of one place, persons in both
    assert Correlation(eighths, 1).gamma(2) ** 2 == pytest.approx(2)


@pytest.mark.parametrize("eighths", EIGHTHS)
@pytest.mark.parametrize("place", [1, 2, 3, 12, 120])
def test_looks_invert_the_matrix(eighths, place):
    c = Correlation(eighths, 120)
    whole = matrix(c)[:place, :place]
    for look, wanted in ((c.inverse_prefix(place), np.ones(place)), (c.inverse_row(place), np.eye(place)[-1])):
        added = [sum(w * int(x) for w, x in zip(look.weights, whole[:, s], strict=True)) for s in range(place)]
        assert look.most == max(added)
        assert np.abs(np.array(added) / (LOOK_ONE * ONE) - wanted).max() < 1e-4
        assert look.deviation == pytest.approx(math.sqrt(sum(w * w for w in look.weights)) / LOOK_ONE, rel=1e-15)
        assert look.rounding == sum(map(abs, look.weights)) / 2


def test_first_looks_are_one():
    """Prefix and increment of the first task are the same statistic: 2H - 1 looks, not 2H."""
    assert Correlation().inverse_prefix(1) == Correlation().inverse_row(1)
    assert Correlation().inverse_prefix(2) != Correlation().inverse_row(2)


def test_independent_noise_is_the_identity():
    assert Correlation(0, 5).coefficients.tolist() == [256, 0, 0, 0, 0]
    assert Correlation(0, 5).gamma(3) ** 2 == pytest.approx(3)
    assert Correlation(0, 5).information(4) == pytest.approx(1)


def test_a_person_in_all_tasks_gains_nothing():
    """THEORY section 10: for n = T correlated noise gains exactly nothing."""
    for eighths in EIGHTHS:
        c = Correlation(eighths, 12)
        assert c.information(12) * 12 * c.gamma() ** 2 == pytest.approx(c.gamma(12) ** 2)


@pytest.mark.parametrize(("eighths", "horizon"), [(-1, 12), (5, 12), (2, 0), (2, 1201), (0.5, 12), (2, True)])
def test_matrices_out_of_range_are_refused(eighths, horizon):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        Correlation(eighths, horizon)


def test_exponents_follow_public_facts():
    assert [default_eighths(n) for n in (1, 2, 4, 5, 60)] == [2, 1, 1, 0, 0]
    assert [default_eighths(1, recurring) for recurring in (True, False, None)] == [3, 2, 2]
    assert default_eighths(2, recurring=True) == 1
