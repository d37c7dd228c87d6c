import numpy as np
import pytest

from reticent.gate import grid, label_sums
from reticent.labels import LabelSpace
from reticent.numerics import rows as norms


@pytest.mark.parametrize("width", [1, 7, 64, 129, 384, 8_192, 8_193, 20_480])
def test_norms_do_not_depend_on_company(width):
    """Alone, among others, at any place, of any layout: the same bits."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(7, width)) * 10.0 ** draw.uniform(-3, 3, size=(7, width))
    together = norms.squared(rows)
    np.testing.assert_allclose(together, np.sum(rows * rows, axis=1), rtol=1e-12)
    for layout in (np.asfortranarray(rows), rows[::1], np.repeat(rows, 2, axis=0)[::2]):
        assert norms.squared(layout).tobytes() == together.tobytes()
    for size in range(1, 7):
        for start in range(7 - size + 1):
            assert norms.squared(rows[start : start + size]).tobytes() == together[start : start + size].tobytes()
    assert norms.squared(rows[:, None]).tobytes() == together.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_frames_do_not_depend_on_company(dtype):
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
        taken = norms.take(names, rows)
        assert isinstance(taken, list)
        assert taken == norms.take(np.array(names), rows).tolist()
    for inputs in (names, np.array(names)):
        with pytest.raises(IndexError):  # never a shorter mask that silently leaves rows out
            norms.take(inputs, np.array([True, False]))
