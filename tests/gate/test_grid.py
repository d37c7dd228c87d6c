import tracemalloc
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reticent import LabelSpace, errors
from reticent.gate import grid, label_sums
from reticent.numerics.rows import unit_rows
from reticent.privacy import selection

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
    """Every finite row, of any size, survives normalisation and snapping; the others become zero."""
    unit = unit_rows(rows)
    snapped = grid.snap(unit, count_weight=count_weight)
    assert snapped.kept.tolist() == np.isfinite(rows).all(axis=1).tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 4096.0, 1.0000001, 2.0**40, 1e300])
def test_unusable_rows_become_zero(bad):
    rows = np.zeros((3, 4))
    rows[:, 0] = [0.5, 0.25, -0.5]
    rows[1, 2] = bad
    snapped = grid.snap(rows)
    assert snapped.kept.tolist() == [True, False, True]
    assert not snapped.values[1].any()
    assert snapped.values[0, 0] == grid.SCALE // 2


def test_rows_slightly_too_long_are_shrunk_and_longer_ones_dropped():
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
        label_sums.sum_by_label(np.zeros((3, 2)), ["a"], known=LabelSpace(()), count_weight=0.1)


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


def all_vectors(sums: label_sums.LabelSums) -> np.ndarray:
    return sums.vectors[np.arange(len(sums.unknown))]


def everything(sums: label_sums.LabelSums) -> dict[object, list[int]]:
    """All coordinates that one example can touch, by block."""
    step = selection.count_step(sums.count_weight)
    blocks: dict[object, list[int]] = {("known", i): row.tolist() for i, row in enumerate(sums.known)}
    for label, count, row in zip(sums.unknown, sums.counts, all_vectors(sums), strict=True):
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
    full = everything(label_sums.sum_by_label(features, labels, known=known, count_weight=count_weight))
    rest = everything(
        label_sums.sum_by_label(
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
    forth = everything(label_sums.sum_by_label(features, labels, known=known, count_weight=0.1))
    back = everything(label_sums.sum_by_label(features[::-1], labels[::-1], known=known, count_weight=0.1))
    assert forth == back


def test_counts_and_sums_of_a_small_example():
    features = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0], [np.nan, 1.0]])
    sums = label_sums.sum_by_label(features, ["a", "b", "b", "b"], known=LabelSpace(("a",)), count_weight=0.36)
    assert sums.known.tolist() == [[grid.SCALE, 0]]
    assert sums.unknown == ("b",)
    assert sums.counts.tolist() == [2]
    assert all_vectors(sums).tolist() == [[int(0.8 * grid.SCALE), int(0.8 * grid.SCALE)]]
    assert "2" not in repr(sums)


def test_sums_of_some_labels_are_those_of_all():
    draw = np.random.default_rng(0)
    features, labels = draw.normal(size=(300, 5)), draw.integers(0, 40, size=300).tolist()
    features[::7] = np.nan
    sums = label_sums.sum_by_label(features, labels, known=LabelSpace(tuple(range(10))), count_weight=0.1)
    whole = all_vectors(sums)
    for wanted in ([], [0], [29], [7, 3, 21], draw.permutation(30).tolist()):
        np.testing.assert_array_equal(sums.vectors[np.array(wanted, np.int64)], whole[wanted])


def test_unreleased_labels_need_no_vectors():
    """The attack: arrays of one row for each label in the data fail, or not, by how many labels there are."""
    peaks = []
    for several in (False, True):
        features = np.ones((400, 20_000), np.float32)
        labels = [f"new {i if several else 0}" for i in range(400)]
        label_sums.sum_by_label(features[:1], labels[:1], known=LabelSpace(("a",)), count_weight=0.1)
        tracemalloc.start()
        sums = label_sums.sum_by_label(features, labels, known=LabelSpace(("a",)), count_weight=0.1)
        assert len(sums.vectors[np.array([0])]) == 1
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_an_equal_object_of_another_type_decides_nothing():
    # Decimal(1) == 1 and hash alike, but a Decimal is no label: it must neither become the label 1 nor change it
    features = np.tile([0.6, 0.8], (3, 1))
    known = LabelSpace((1,))
    for invalid in (Decimal(1), Fraction(1), complex(1), [1], None):
        before = label_sums.sum_by_label(features[:2], [1, 1.0], known=known, count_weight=0.1)
        for labels in ([invalid, 1, 1.0], [1, invalid, True], [1, 1, invalid]):
            after = label_sums.sum_by_label(features, labels, known=known, count_weight=0.1)
            np.testing.assert_array_equal(after.known, before.known)
            assert after.unknown == ()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("count_weight", [0.0, 0.3])
def test_the_kernel_sums_what_the_grid_snaps(dtype, count_weight):
    # the compiled loop against the slow obvious way, row by row, with rows that need a second look
    rng = np.random.default_rng(5)
    rows = (rng.normal(size=(60, 7)) * 50).astype(dtype)
    rows[3] = 0
    if np.issubdtype(dtype, np.floating):
        rows[4, 1], rows[5, 2], rows[6] = np.nan, np.inf, np.finfo(dtype).max
        rows[7] = 0
        rows[7, 0] = np.finfo(dtype).tiny
        rows[8] = 0
        rows[8, 2] = 1  # exactly one unit: slightly too long beside a count
    labels = ["a", "b", "new"] * 20
    sums = label_sums.sum_by_label(rows, labels, known=LabelSpace(("a", "b")), count_weight=count_weight)
    for place, label in enumerate(["a", "b", "new"]):
        mine = [i for i, name in enumerate(labels) if name == label]
        weight = count_weight if label == "new" else 0.0
        slow = [grid.snap(unit_rows(rows[i : i + 1].astype(np.float64)), count_weight=weight) for i in mine]
        total = sum(row.values[0] for row in slow)
        if label != "new":
            difference = np.abs(sums.known[place] - total)
        elif count_weight:
            assert sums.counts.tolist() == [sum(bool(row.kept[0]) for row in slow)]
            difference = np.abs(all_vectors(sums)[0] - total)
        else:
            assert sums.unknown == ()
            continue
        assert difference.max() <= len(mine)  # one multiplication instead of two: at most a step in each row


# --- at the edges of the grid


def test_scale_and_room_are_exact():
    assert grid.scale_and_room(0.0) == (2.0**20, 2.0**40)
    step = int(0.1**0.5 * 2**20)
    assert grid.scale_and_room(0.1) == (0.9**0.5 * 2**20, float(2**40 - step**2))


def test_rows_of_exactly_the_unit_are_kept_as_they_are():
    snapped = grid.snap(np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0.5, 0.5], [0, 0, 0, -1.0]]))
    assert snapped.values.tolist() == [[2**20, 0, 0, 0], [2**19] * 4, [0, 0, 0, -(2**20)]]
    assert snapped.kept.all()


def test_only_rows_that_are_too_long_after_truncation_shrink():
    """In float64 the first is longer than 1, on the grid it is not; the second is, and is shrunk before truncation."""
    first, second = np.nextafter([0.6, 0.8], 1), np.array([0.6, 0.8]) * (1 + 4.2e-6)
    snapped = grid.snap(np.array([first, second]))
    assert snapped.values.tolist() == [[629145, 838860], [629145, 838861]]
    assert snapped.kept.all()
    half = grid.snap(np.full((1, 4), 0.5 * (1 + 4e-6)))  # shrunk to exactly the unit
    assert half.values.tolist() == [[2**19] * 4]


def test_one_entry_beyond_the_unit_drops_its_row():
    rows = np.array([[1.000001, 0.0], [0.0, -1.000001], [1.0, 3 / 2**20]])
    snapped = grid.snap(rows)
    assert snapped.kept.tolist() == [False, False, True]
    assert snapped.values.tolist() == [[0, 0], [0, 0], [2**20 - 4, 2]]


def test_rows_of_low_precision_are_scaled_in_float64():
    rows = unit_rows(np.random.default_rng(1).normal(size=(50, 7))).astype(np.float32) * np.float32(0.9)
    wide = grid.snap(rows.astype(np.float64), count_weight=0.1)
    assert grid.snap(rows, count_weight=0.1).values.tolist() == wide.values.tolist()


def test_columns_are_limited_and_rows_are_not():
    assert grid.snap(np.zeros((0, 1 << 22))).values.shape == (0, 1 << 22)
    assert grid.snap(np.zeros(((1 << 22) + 1, 0))).kept.all()
    with pytest.raises(errors.InvalidValue, match="K at most 4194304"):
        grid.snap(np.zeros((0, (1 << 22) + 1)))


def test_a_label_without_a_usable_row_is_not_found():
    features = np.array([[np.nan, 1.0], [3.0, 4.0], [0.0, np.inf]])
    sums = label_sums.sum_by_label(features, ["lost", "found", "lost"], known=LabelSpace(("k",)), count_weight=0.1)
    assert sums.unknown == ("found",)
    assert sums.counts.tolist() == [1]
    vectors = sums.vectors[np.array([0])]
    assert vectors.tolist() == [[int(0.6 * 0.9**0.5 * 2**20), int(0.8 * 0.9**0.5 * 2**20)]]
    assert {sums.known.dtype, vectors.dtype, sums.counts.dtype} == {np.dtype(np.int64)}


def test_few_rows_among_many_labels_are_counted_alike():
    features = np.array([[3.0, 4.0], [np.nan, 0.0], [0.0, 2.0]])
    sums = label_sums.sum_by_label(features, [3, 1, 3], known=LabelSpace(tuple(range(5))), count_weight=0.0)
    assert sums.known.tolist() == [[0, 0], [0, 0], [0, 0], [629145, 838860 + 2**20], [0, 0]]


def test_rows_of_extreme_length_are_scaled_like_others():
    """Their squares leave the range of float64: they are normalised and snapped by themselves, and counted."""
    features = np.array([[3.0, 4.0], [3e-150, 4e-150], [3e150, 4e150]])
    sums = label_sums.sum_by_label(features, ["a", "b", "c"], known=LabelSpace(()), count_weight=0.3)
    assert sums.unknown == ("a", "b", "c")
    assert sums.counts.tolist() == [1, 1, 1]
    expected = [int(0.6 * 0.7**0.5 * 2**20), int(0.8 * 0.7**0.5 * 2**20)]
    assert sums.vectors[np.arange(3)].tolist() == [expected] * 3
