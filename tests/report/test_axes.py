import pytest

from reticent.report import axes


def test_axes_cover_their_values():
    for low, high in ((0.0, 1.0), (61.2, 88.7), (5.0, 5.0), (-3.0, 1000.0), (0.0, 1e-6)):
        axis = axes.linear("y", [low, high])
        assert axis.low <= low <= high <= axis.high
        assert 2 <= len(axis.ticks) <= 12
    for sizes in ([1], [3, 40], [1, 100_000]):
        axis = axes.powers("x", sizes)
        assert 10**axis.low <= min(sizes) * 1.0001
        assert 10**axis.high >= max(sizes) * 0.9999
        assert axis.ticks


def test_every_axis_has_a_name():
    with pytest.raises(ValueError, match="a name for the axis"):
        axes.percent("")


def test_no_privacy_stands_to_the_right_of_the_largest_epsilon():
    place, axis = axes.logarithmic("epsilon", [0.5, 8.0, None])
    assert axis.low < place(0.5) < place(8.0) < place(None) < axis.high
