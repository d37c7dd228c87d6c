"""The loop that adds unit rows leaves out what is too long on the grid, and all that it cannot be sure of."""

import numpy as np
import pytest

from reticent.gate import kernel


def added(rows: list[list[float]], scale: float, room: float) -> tuple[list[list[int]], list[bool]]:
    recent, sums = np.zeros((1, len(rows[0])), np.int32), np.zeros((1, len(rows[0])), np.int64)
    counts, kept = np.zeros(1, np.int64), np.zeros(len(rows), np.bool_)
    order, targets = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    kernel.add_unit_rows(recent, sums, counts, np.array(rows), order, targets, kept, scale, room)
    assert counts.tolist() == [sum(kept)]
    return (sums + recent).tolist(), kept.tolist()


@pytest.mark.parametrize(("room", "kept"), [(99.0, False), (100.0, True), (101.0, True), (35.0, False), (63.0, False)])
def test_rows_longer_than_the_room_are_left_out(room, kept):
    """(3, 4) at scale 10 is (6, 8) on the grid, of squared length 100."""
    assert added([[3.0, 4.0]], 10.0, room) == ([[6, 8] if kept else [0, 0]], [kept])


def test_rows_without_a_length_are_left_out_and_the_others_added():
    rows = [[0.0, 0.0], [3.0, 4.0], [np.nan, 1.0], [np.inf, 1.0], [1e-101, 0.0], [1e101, 0.0], [-4.0, 3.0]]
    found, kept = added(rows, 10.0, 100.0)
    assert kept == [False, True, False, False, False, False, True]
    assert found == [[6 - 8, 8 + 6]]


def test_rows_of_extreme_length_wait_for_a_second_look():
    """At the edges themselves, and to the bit: squares above 1e-200 and below 1e200 are added at once."""
    for edge, inside in ((1e-100, 1e-100 * (1 + 1e-15)), (1e100, 1e100 * (1 - 1e-15))):
        assert edge * edge in (1e-200, 1e200)
        assert added([[edge], [inside]], 10.0, 100.0)[1] == [False, True]
    assert added([[1.2e100], [0.9e100]], 10.0, 100.0)[1] == [False, True]


def test_steps_are_cut_towards_zero():
    found, kept = added([[1.0, -1.0]], 10.0, 98.0)  # 7.07 each: 7 and -7, of squared length 98
    assert (found, kept) == ([[7, -7]], [True])
    assert added([[1.0, -1.0]], 10.0, 97.0)[1] == [False]


def test_recent_sums_are_moved_before_they_overflow():
    """Each entry at its largest: what 32 bits hold is moved when the count is a multiple of what they can hold."""
    rows = 2 * kernel.RECENT + 3
    recent, sums = np.zeros((2, 1), np.int32), np.zeros((2, 1), np.int64)
    counts, kept = np.zeros(2, np.int64), np.zeros(rows, np.bool_)
    targets = np.ones(rows, np.int64)
    kernel.add_unit_rows(
        recent, sums, counts, np.full((rows, 1), -5.0), np.arange(rows), targets, kept, 2.0**20, 2.0**40
    )
    assert kept.all()
    assert counts.tolist() == [0, rows]
    assert recent.tolist() == [[0], [-3 * 2**20]]
    assert sums.tolist() == [[0], [-2 * kernel.RECENT * 2**20]]
    assert kernel.RECENT * 2**20 < 2**31 <= (kernel.RECENT + 1) * 2**20
