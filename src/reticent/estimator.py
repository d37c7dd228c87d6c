"""What scikit-learn asks of a classifier's arguments and answers, each as a small function."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors

_BOUNDED = "how much one example counts is what privacy bounds"
_REFUSED = {
    "classes": "the label policy says which labels there are",
    "class_weight": _BOUNDED,
    "sample_weight": _BOUNDED,
}
_FIXED = ("budget", "labels", "path", "memory")


def refuse_changes(now: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
    """Refuses new values of what cannot change once a model has been made.

    Args:
        now: The parameters of a classifier, by name; empty before it is made.
        changes: Those to be set.
    """
    refuse_others(name for name in changes if name in _REFUSED)
    for name, value in changes.items():
        if "__" in name:
            raise errors.InvalidValue("Expected whole values, such as budget=Budget(...); they have no parameters.")
        if now and name in _FIXED and value != now[name]:
            raise errors.InvalidValue(
                f"Expected the {name} that the model was made with; it cannot change. A new model has a budget of its "
                "own, and what one person loses adds up."
            )


def typed(labels: npt.NDArray[np.object_]) -> npt.NDArray[Any]:
    """Returns labels as an array of numbers or of truth values where all are such, as scikit-learn's metrics need."""
    kinds = set(map(type, labels))
    if kinds == {int} and all(abs(label) < 1 << 63 for label in labels):
        return labels.astype(np.int64)
    return labels.astype(kinds.pop()) if kinds in ({float}, {bool}) else labels


def refuse_others(others: Iterable[str], y: object = ()) -> None:
    """Refuses arguments that scikit-learn's classifiers have and this one cannot, and any that nobody knows.

    Args:
        others: Their names.
        y: The labels, where they are needed.

    Example:
        >>> refuse_others({"sample_weight": [0.5]})
        Traceback (most recent call last):
        reticent.errors.InvalidValue: Expected no sample_weight: how much one example counts is what privacy bounds.
    """
    for name in others:
        if name not in _REFUSED:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
        raise errors.InvalidValue(f"Expected no {name}: {_REFUSED[name]}.")
    if y is None:
        raise errors.InvalidValue("fit requires y to be passed, but the target y is None.")


def is_source(X: object, y: object, persons: object) -> bool:
    """Returns whether X is a source, read batch by batch; refuses one with other labels or persons than its own."""
    if not (hasattr(X, "has_persons") and hasattr(X, "parts")):
        return False
    if y is not None or persons is not None:
        raise errors.InvalidValue("Expected a source alone: it names the columns of its labels and persons itself.")
    return True


def task_of(X: Any, y: Any, persons: Any, **said: Any) -> Any:
    """Returns a task of examples in memory, or of a source that is read after the spend."""
    from reticent.sensitive.task import Task

    return Task.streamed(X, **said) if is_source(X, y, persons) else Task(X, y, persons, **said)


def one_of(persons: Any, units: Any) -> Any:
    """Returns persons, or what was given under the old name."""
    if persons is not None and units is not None:
        raise errors.InvalidValue("Expected persons, or its old name units; not both.")
    return units if persons is None else persons
