"""The scales of DP-SGD's whole numbers fit together, and into float64 and int64."""

from reticent.gate import grid, step


def test_scales_of_a_step_fit_together():
    assert step.TERM_SCALE == 2.0**40
    assert step.TERM_SCALE / grid.STEP_SCALE == 2.0**step._SPARE  # a sum is shifted by so many bits to the grid
    assert step._EXACT_ROWS * step.TERM_SCALE == 2.0**53  # as many rows of products as float64 adds up exactly
    assert (1 - 2.0**-20) * step.TERM_SCALE**2 < step._MOST_SQUARED < step.TERM_SCALE**2
