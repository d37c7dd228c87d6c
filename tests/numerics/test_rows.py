import warnings
from collections.abc import Callable

import numpy as np
import pytest

from reticent.gate import grid, label_sums
from reticent.labels import LabelSpace
from reticent.numerics.rows import norms, scaled, squared_norms, take, unit_or_zero, unit_rows

WIDTHS = [1, 7, 64, 129, 384, 8_192, 8_193, 20_480]
SCALINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "norms": norms,
    "squared": squared_norms,
    "unit": unit_rows,
    "unit or zero": unit_or_zero,
    "scaled": lambda rows: scaled(rows, 10.0),
}


def rows_of(width: int) -> np.ndarray:
    draw = np.random.default_rng(0)
    return draw.normal(size=(7, width)) * 10.0 ** draw.uniform(-3, 3, size=(7, width))


def assert_same_bits(of, rows: np.ndarray) -> None:
    """Alone, among others, at any place, of any layout."""
    together = of(rows)
    for layout in (np.asfortranarray(rows), rows[::1], np.repeat(rows, 2, axis=0)[::2]):
        assert of(layout).tobytes() == together.tobytes()
    for size in range(1, len(rows)):
        for start in range(len(rows) - size + 1):
            assert of(rows[start : start + size]).tobytes() == together[start : start + size].tobytes()


@pytest.mark.parametrize("width", WIDTHS)
def test_norms_do_not_depend_on_other_rows(width):
    rows = rows_of(width)
    np.testing.assert_allclose(squared_norms(rows), np.sum(rows * rows, axis=1), rtol=1e-12)
    np.testing.assert_allclose(norms(rows), np.linalg.norm(rows, axis=1), rtol=1e-12)
    assert_same_bits(squared_norms, rows)
    assert_same_bits(norms, rows.astype(np.float32))
    assert squared_norms(rows[:, None]).tobytes() == squared_norms(rows).tobytes()


@pytest.mark.parametrize("kind", ["unit", "unit or zero", "scaled"])
@pytest.mark.parametrize("width", [1, 7, 384, 8_193])
def test_scaled_rows_do_not_depend_on_other_rows(kind, width):
    rows = rows_of(width)
    np.testing.assert_allclose(norms(SCALINGS[kind](rows)), 10.0 if kind == "scaled" else 1.0, rtol=1e-6)
    assert_same_bits(SCALINGS[kind], rows)
    assert_same_bits(SCALINGS[kind], rows.astype(np.float32))


@pytest.mark.parametrize("kind", SCALINGS)
def test_extreme_rows_are_scaled_silently(kind):
    sizes = [0.0, 1.0, np.nan, np.inf, 1e-320, 1e-200, 1e200, 1e308]
    rows = np.array([[size, size / 2, 0.0] for size in sizes])
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        found = SCALINGS[kind](rows)
    assert not np.any(found[0])
    assert np.isfinite(found[1]).all()
    if kind == "unit":  # every finite row has norm 1
        np.testing.assert_allclose(norms(found[[1, 4, 5, 6, 7]]), 1.0)
        assert np.isnan(found[[2, 3], 0]).all()
    if kind == "unit or zero":  # rows whose norm is out of range count as rows without a direction
        assert np.flatnonzero(found.any(axis=1)).tolist() == [1]


def test_rows_without_a_length_are_unchanged():
    rows = rows_of(7)
    assert scaled(rows, None) is rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_frames_do_not_depend_on_other_rows(dtype):
    """A frame's array lies column by column, but one with a single row lies both ways."""
    known, draw = LabelSpace(("a",)), np.random.default_rng(1)
    for _ in range(100):
        rows = draw.normal(size=(2, 40)).astype(dtype)
        alone = [label_sums.sum_by_label(row[None], ["a"], known=known, count_weight=0.0).known for row in rows]
        both = label_sums.sum_by_label(np.asfortranarray(rows), ["a", "a"], known=known, count_weight=0.0).known
        assert (both == alone[0] + alone[1]).all()
        assert np.square(alone[0]).sum() <= grid.SCALE**2


def test_rows_are_taken_from_lists_as_from_arrays():
    names = [f"row {i}" for i in range(5)]
    for rows in (np.array([3, 0, 3, -1]), np.array([True, False, True, False, True]), np.zeros(0, np.int64), [4, 1]):
        taken = take(names, rows)
        assert isinstance(taken, list)
        assert taken == take(np.array(names), rows).tolist()
    for inputs in (names, np.array(names)):
        with pytest.raises(IndexError):  # never a shorter mask that silently leaves rows out
            take(inputs, np.array([True, False]))
