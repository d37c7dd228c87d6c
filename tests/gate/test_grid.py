import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reticent import LabelSpace, errors, selection
from reticent.gate import bounds, grid

anything = st.floats(allow_nan=True, allow_infinity=True, width=32)
matrices = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=anything)


def python_squares(rows: np.ndarray) -> list[int]:
    """Squared norms in integers of any size: nothing can wrap."""
    return [sum(int(v) ** 2 for v in row) for row in rows]


@given(matrices, st.sampled_from([0.0, 1e-6, 0.1, 0.9]))
def test_snapped_rows_never_exceed(rows, count_weight):
    snapped = grid.snap(rows, count_weight=count_weight)
    room = grid.SCALE**2 - selection.count_step(count_weight) ** 2
    assert all(square <= room for square in python_squares(snapped.values))
    assert not snapped.values[~snapped.kept].any()


@given(matrices, st.sampled_from([0.0, 0.1]))
def test_normalised_rows_are_all_kept(rows, count_weight):
    """Every finite row, of any size, survives normalisation and snapping; the others vanish."""
    unit = bounds.unit_rows(rows)
    snapped = grid.snap(unit, count_weight=count_weight)
    assert snapped.kept.tolist() == np.isfinite(rows).all(axis=1).tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 4096.0, 1.0000001, 2.0**40, 1e300])
def test_bad_rows_vanish(bad):
    rows = np.zeros((3, 4))
    rows[:, 0] = [0.5, 0.25, -0.5]
    rows[1, 2] = bad
    snapped = grid.snap(rows)
    assert snapped.kept.tolist() == [True, False, True]
    assert not snapped.values[1].any()
    assert snapped.values[0, 0] == grid.SCALE // 2


def test_a_row_a_hair_too_long_is_shrunk_and_a_longer_one_dropped():
    # 0.6^2 + 0.8^2 = 1 exactly; a little more fails the first check and passes the second
    rows = np.array([[0.6, 0.8], [0.6000005, 0.8000005], [0.61, 0.81]])
    snapped = grid.snap(rows)
    assert snapped.kept.tolist() == [True, True, False]
    assert python_squares(snapped.values)[1] <= grid.SCALE**2


def test_truncation_is_towards_zero():
    step = 1 / grid.SCALE
    snapped = grid.snap(np.array([[1.7 * step, -1.7 * step]]))
    assert snapped.values.tolist() == [[1, -1]]


def test_shapes_are_refused_by_metadata():
    with pytest.raises(errors.InvalidValue, match="shape"):
        grid.snap(np.zeros(3))
    with pytest.raises(errors.InvalidValue, match="n labels"):
        bounds.sum_by_label(np.zeros((3, 2)), ["a"], known=LabelSpace(()), count_weight=0.1)


rows_and_labels = st.integers(0, 12).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.float32, (n, 3), elements=anything),
        st.lists(
            st.sampled_from(["known", "new", "other", None, float("nan"), ("t", 1), ["unhashable"]]),
            min_size=n,
            max_size=n,
        ),
    )
)


def everything(sums: bounds.LabelSums) -> dict[object, list[int]]:
    """All coordinates that one example can touch, by block."""
    step = selection.count_step(sums.count_weight)
    blocks: dict[object, list[int]] = {("known", i): row.tolist() for i, row in enumerate(sums.known)}
    for label, count, row in zip(sums.unknown, sums.counts, sums.vectors, strict=True):
        blocks[label] = [int(count) * step, *row.tolist()]
    return blocks


@given(rows_and_labels, st.data(), st.sampled_from([0.0, 0.1, 0.7]))
def test_one_example_moves_sums_by_at_most_one_unit(drawn, data, count_weight):
    """Exact integers, any input: NaN, infinity, huge values, unhashable labels."""
    features, labels = drawn
    if not labels:
        return
    gone = data.draw(st.integers(0, len(labels) - 1))
    known = LabelSpace(("known", "absent"))
    full = everything(bounds.sum_by_label(features, labels, known=known, count_weight=count_weight))
    rest = everything(
        bounds.sum_by_label(
            np.delete(features, gone, axis=0),
            labels[:gone] + labels[gone + 1 :],
            known=known,
            count_weight=count_weight,
        )
    )
    moved = 0
    for block in full.keys() | rest.keys():
        width = len(full.get(block) or rest[block])
        before, after = rest.get(block, [0] * width), full.get(block, [0] * width)
        moved += sum((a - b) ** 2 for a, b in zip(after, before, strict=True))
    assert moved <= grid.SCALE**2


@given(rows_and_labels)
def test_sums_do_not_depend_on_the_order_of_examples(drawn):
    features, labels = drawn
    known = LabelSpace(("known",))
    forth = everything(bounds.sum_by_label(features, labels, known=known, count_weight=0.1))
    back = everything(bounds.sum_by_label(features[::-1], labels[::-1], known=known, count_weight=0.1))
    assert forth == back


def test_counts_and_sums_of_a_small_example():
    features = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0], [np.nan, 1.0]])
    sums = bounds.sum_by_label(features, ["a", "b", "b", "b"], known=LabelSpace(("a",)), count_weight=0.36)
    assert sums.known.tolist() == [[grid.SCALE, 0]]
    assert sums.unknown == ("b",)
    assert sums.counts.tolist() == [2]
    assert sums.vectors.tolist() == [[int(0.8 * grid.SCALE), int(0.8 * grid.SCALE)]]
    assert "2" not in repr(sums)
