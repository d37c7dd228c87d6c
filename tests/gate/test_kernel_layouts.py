"""Compiled loops read rows that lie whole in memory, in one order; arrays that may not be written to will do."""

import numpy as np
import pytest
from numba import types

from reticent.gate import kernel, step_kernel
from reticent.gate.label_sums import sum_by_label
from reticent.gate.noise import normal
from reticent.labels import LabelSpace

SCALE, ROOM = float(1 << 20), float(1 << 40)


def arguments() -> dict[str, np.ndarray]:
    return {
        "recent": np.zeros((4, 6), np.int32),
        "sums": np.zeros((4, 6), np.int64),
        "counts": np.zeros(4, np.int64),
        "features": np.arange(24.0).reshape(4, 6),
        "rows": np.arange(4),
        "targets": np.arange(4),
        "kept": np.zeros(4, dtype=np.bool_),
    }


@pytest.mark.parametrize("name", list(arguments()))
def test_arrays_with_gaps_are_refused(name):
    """Another layout would be compiled anew, and add up squares in another order."""
    given = arguments()
    kernel.add_unit_rows(*given.values(), SCALE, ROOM)
    assert given["kept"].all()
    given = arguments()
    whole = given[name]
    given[name] = np.repeat(whole, 2, axis=-1)[..., ::2]
    assert given[name].shape == whole.shape
    with pytest.raises(TypeError):
        kernel.add_unit_rows(*given.values(), SCALE, ROOM)


@pytest.mark.parametrize("place", [4, 5])
def test_words_with_gaps_are_refused(place):
    polynomials, bound = normal.pieces()
    words = np.arange(1 << 40, (1 << 40) + 8)
    given = [words, 1000.0, polynomials, 0.4 - 1000.0 * bound, np.empty(8, np.int64), np.empty(8, np.int64)]
    normal.round_words(*given)
    given[place] = np.empty(16, np.int64)[::2]
    with pytest.raises(TypeError):
        normal.round_words(*given)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_that_may_not_be_written_to_are_read(dtype):
    """Features mapped from a file, for example."""
    features = np.arange(1, 25, dtype=dtype).reshape(4, 6)
    known = LabelSpace(("a", "b"))
    expected = sum_by_label(features, ["a", "b", "a", "b"], known=known, count_weight=0.0).known
    features.setflags(write=False)
    found = sum_by_label(features, ["a", "b", "a", "b"], known=known, count_weight=0.0).known
    assert found.tolist() == expected.tolist()
    assert np.abs(found).sum() > 0


@pytest.mark.parametrize("module", [kernel, step_kernel, normal])
def test_loops_take_arrays_that_lie_whole_in_memory_alone(module):
    """Also those that they write to: what a loop adds up first may hang on the layout."""
    signatures = [known for loop in vars(module).values() for known in getattr(loop, "nopython_signatures", ())]
    arrays = [kind for known in signatures for kind in known.args if isinstance(kind, types.Array)]
    assert len(arrays) >= 5
    assert {array.layout for array in arrays} == {"C"}
    named = (kernel.WORDS, kernel.FLAGS, step_kernel._NUMBERS, step_kernel._TABLE)
    assert {array.layout for array in named} == {"C"}
