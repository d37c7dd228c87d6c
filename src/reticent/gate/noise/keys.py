"""Keys of noise that is drawn again: one for each task, and from it one for each epoch, label and part.

Nothing but memory between tasks uses them: it publishes rows of a label in retrospect, with the noise they always had.
"""

import hashlib
import hmac
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from reticent.labels import Label

COUNT, SUMS = b"count", b"sums"
Words = npt.NDArray[np.uint64]


def derived(key: bytes, epoch: int, label: Label, part: bytes) -> bytes:
    """Returns the key of a task's noise on one label: HMAC-SHA256 of an encoding that no other triple has.

    Guarantees:
      - Other epochs, labels, types of labels or parts have other encodings.     test_encodings_of_labels_are_injective

    >>> derived(bytes(32), 1, "E10", COUNT) == derived(bytes(32), 1, "E10", SUMS)
    False
    """
    return hmac.digest(key, encoded(("reticent noise", epoch, label, part.decode())), hashlib.sha256)


def hashed(labels: Iterable[Label]) -> Words:
    """Returns SHA-256 of each label's encoding as four words: what `words` needs of it, the same for all tasks."""
    found = b"".join(hashlib.sha256(encoded(label)).digest() for label in labels)
    return np.frombuffer(found, dtype="<u8").reshape(-1, 4).astype(np.uint64)


def words(key: bytes, epoch: int, hashes: Words, part: bytes) -> Words:
    """Returns one uniform 64-bit word of a task for each label, many at once: for noise of a single number.

    CBC-MAC with AES-256 of the 32 bytes of a label's hash, all of one length, under a key of its own for each task,
    epoch and part: a pseudorandom function. Its first eight bytes are the word.

    Guarantees:
      - A word depends on the key, the epoch, the label and the part alone, and is that of the standard.
                                                                             test_words_are_those_of_the_standard

    >>> words(bytes(32), 1, hashed(["E10", "E11"]), COUNT).shape
    (2,)
    """
    secret = hmac.digest(key, encoded(("reticent noise", epoch, part.decode())), hashlib.sha256)
    # one block after the other, each by itself: chaining is done here, for all labels at once
    blocks = Cipher(algorithms.AES(secret), modes.ECB()).encryptor()  # noqa: S305
    first = np.frombuffer(blocks.update(hashes[:, :2].astype("<u8").tobytes()), dtype="<u8").reshape(-1, 2)
    last = np.frombuffer(blocks.update((first ^ hashes[:, 2:]).astype("<u8").tobytes()), dtype="<u8").reshape(-1, 2)
    return last[:, 0].astype(np.uint64)


def encoded(label: Label) -> bytes:
    """Returns a canonical label as bytes, each part after its type and length: equal bytes are equal labels."""
    if isinstance(label, tuple):
        kind, body = b"t", b"".join(map(encoded, label))
    elif isinstance(label, str):
        kind, body = b"s", label.encode()
    elif isinstance(label, int):
        kind, body = b"i", b"%d" % label
    elif isinstance(label, float):
        kind, body = b"f", label.hex().encode()
    else:
        raise TypeError(f"Expected a canonical label, got {type(label).__name__}.")
    return b"%s%d:%s" % (kind, len(body), body)
