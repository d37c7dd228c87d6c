import hashlib
import hmac
import itertools

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
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


CLOSE = ["1", 1, ("1",), (1,), ("1", "2"), ("12",), (("1",), "2"), 1.5, "1.5", "", ()]


def test_words_are_those_of_the_standard():
    """CBC with a start of zeros, one label after another: the first eight bytes of its last block."""
    key = bytes(range(32))
    for epoch, part in ((1, keys.COUNT), (12, keys.SUMS)):
        secret = hmac.digest(key, keys.encoded(("reticent noise", epoch, part.decode())), "sha256")
        found = keys.words(key, epoch, keys.hashed(CLOSE), part)
        assert found.dtype == np.uint64
        assert found.shape == (len(CLOSE),)
        for label, word in zip(CLOSE, found.tolist(), strict=True):
            chain = Cipher(algorithms.AES(secret), modes.CBC(bytes(16))).encryptor()
            last = chain.update(hashlib.sha256(keys.encoded(label)).digest())[16:]
            assert word == int.from_bytes(last[:8], "little")


def test_words_differ_by_everything_they_are_derived_from():
    hashes = keys.hashed(CLOSE)
    found = {
        word
        for key, epoch, part in itertools.product((bytes(32), b"1" * 32), (1, 11), (keys.COUNT, keys.SUMS))
        for word in keys.words(key, epoch, hashes, part).tolist()
    }
    assert len(found) == 2 * 2 * 2 * len(CLOSE)
    assert keys.words(bytes(32), 1, keys.hashed([]), keys.COUNT).shape == (0,)
    alone = keys.words(bytes(32), 1, keys.hashed(CLOSE[3:4]), keys.COUNT)
    assert alone.tolist() == keys.words(bytes(32), 1, hashes, keys.COUNT)[3:4].tolist()
