import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.gate.noise import keys
from reticent.labels import canonical

LABELS = st.recursive(
    st.one_of(st.text(max_size=4), st.integers(-20, 20), st.floats(allow_nan=False)),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
).map(canonical)


@given(LABELS, LABELS)
def test_encodings_of_labels_are_injective(one, other):
    if one is not None and other is not None:
        assert (keys.encoded(one) == keys.encoded(other)) == (one == other)


def test_keys_differ_by_everything_they_are_derived_from():
    close = ["1", 1, ("1",), (1,), ("1", "2"), ("12",), (("1",), "2"), 1.5, "1.5", "", ()]
    found = {
        keys.derived(key, epoch, label, part)
        for key, epoch, label, part in itertools.product(
            (bytes(32), b"1" * 32), (1, 11), close, (keys.COUNT, keys.SUMS)
        )
    }
    assert len(found) == 2 * 2 * len(close) * 2


def test_what_cannot_be_a_label_has_no_key():
    with pytest.raises(TypeError, match="canonical label"):
        keys.encoded(None)
