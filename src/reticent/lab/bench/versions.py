"""The version of each kind of result: what is stored counts as long as its version is the present one of its kind.

Raise a version when the numbers of its kind change, and only then: golden runs (`tests/golden`) show which do.
"""

from reticent.numerics.own_objects import is_own

ATTACK, DROP, STREAMS = "attack", "drop", "streams"
_OWN = "module:object"  # learners of users: what they run in
VERSIONS = {
    "cosine": 1,
    "cosine-paper": 1,
    "peft": 1,
    "peft-paper": 1,
    "peft-paid": 2,
    "naive": 1,
    "naive-paper": 1,
    "desai": 1,
    "desai-paper": 1,
    "noncl": 1,
    "noncl-paper": 1,
    _OWN: 1,
    ATTACK: 1,
    DROP: 1,
    STREAMS: 1,
}


def version_of(kind: str) -> int:
    """Returns the present version of a learner, as specs name it, or of another kind; 0 of one that is not there.

    >>> version_of("cosine") >= 1, version_of("my_module:Mine") >= 1, version_of("gone")
    (True, True, 0)
    """
    return VERSIONS.get(_OWN if is_own(kind) else kind, 0)
