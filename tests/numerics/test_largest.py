import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from reticent.numerics.largest import largest

FEW_VALUES = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.0, np.inf, -np.inf, np.nan])
SHAPES = st.tuples(st.integers(0, 5), st.integers(1, 400))


def sorted_whole(scores: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


@given(
    scores=SHAPES.flatmap(lambda shape: arrays.arrays(np.float32, shape, elements=FEW_VALUES | st.floats(width=32))),
    k=st.integers(1, 60),
)
def test_the_largest_are_those_of_a_stable_sort(scores, k):
    k = min(k, scores.shape[1])
    assert largest(scores, k).tolist() == sorted_whole(scores, k).tolist()


@pytest.mark.parametrize("values", [[0.0], [0.0, 1.0], [np.nan], [-np.inf], [0.0, np.nan, -np.inf, np.inf]], ids=str)
@pytest.mark.parametrize("columns", [1, 2, 63, 64, 1000, 4097])
def test_ties_go_to_the_first_columns(values, columns):
    scores = np.random.default_rng(0).choice(np.array(values, np.float32), size=(4, columns))
    for k in {1, min(7, columns), columns}:
        assert largest(scores, k).tolist() == sorted_whole(scores, k).tolist()


def test_wide_rows_of_distinct_scores_are_not_sorted_whole(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(50, 20_000)).astype(np.float32)
    expected, sizes, lexsort = sorted_whole(scores, 10).tolist(), [], np.lexsort

    def counted(keys: tuple[np.ndarray, ...]) -> np.ndarray:
        sizes.append(len(keys[0]))
        return lexsort(keys)

    monkeypatch.setattr(np, "lexsort", counted)
    monkeypatch.setattr(np, "argsort", lambda *_, **__: pytest.fail("sorted"))
    assert largest(scores, 10).tolist() == expected
    assert sum(sizes) < 50 * 10 * 64
