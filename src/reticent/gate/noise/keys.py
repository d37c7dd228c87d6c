"""Keys of noise that is drawn again: one for each task, and from it one for each epoch, label and part.

Nothing but memory between tasks uses them: it publishes rows of a label in retrospect, with the noise they always had.
"""

import hashlib
import hmac

from reticent.labels import Label

COUNT, SUMS = b"count", b"sums"


def derived(key: bytes, epoch: int, label: Label, part: bytes) -> bytes:
    """Returns the key of a task's noise on one label: HMAC-SHA256 of an encoding that no other triple has.

    Guarantees:
      - Other epochs, labels, types of labels or parts have other encodings.     test_encodings_of_labels_are_injective

    >>> derived(bytes(32), 1, "E10", COUNT) == derived(bytes(32), 1, "E10", SUMS)
    False
    """
    return hmac.digest(key, encoded(("reticent noise", epoch, label, part.decode())), hashlib.sha256)


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
