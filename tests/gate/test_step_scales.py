"""The scales of DP-SGD's whole numbers fit together, and into float64 and int64."""

from reticent.gate import grid, outer_products, step


def test_scales_of_a_step_fit_together():
    assert grid.TERM_SCALE == 2.0**40
    assert grid.TERM_SCALE / grid.STEP_SCALE == 2.0**step._SPARE  # a sum is shifted by so many bits to the grid
    assert outer_products._EXACT_ROWS * grid.TERM_SCALE == 2.0**53  # rows that float64 adds up exactly
    assert (1 - 2.0**-20) * grid.TERM_SCALE**2 < step._MOST_SQUARED < grid.TERM_SCALE**2
    assert step._ROUNDING == 2.0**-20  # 2^31 roundings of a square, by 2^-53 each, are a quarter of it
