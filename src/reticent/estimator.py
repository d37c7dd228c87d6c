"""What scikit-learn asks of a classifier's arguments and answers, each as a small function."""

import contextlib
import secrets
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.privacy.rounding import exact, rounded_up

if TYPE_CHECKING:
    from reticent.directory import Directory
    from reticent.privacy.statement import Statement

_BOUNDED = "how much one example counts is what privacy bounds"
_REFUSED = {
    "classes": "the label policy says which labels there are",
    "class_weight": _BOUNDED,
    "sample_weight": _BOUNDED,
}
_FIXED = ("budget", "labels", "path", "memory")
_SPENT: dict[str, dict[str, "Statement"]] = {}  # in this process, by family and ledger


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


def family(classifier: Any) -> str:
    """Returns a random name that a classifier has in common with its copies: of `clone`, or made before it began."""
    if classifier._family is None:
        classifier._family = secrets.token_hex(8)
        if hasattr(classifier, "_directory"):
            with contextlib.suppress(errors.LedgerError):  # a copy, or a folder without its ledger: it cannot learn
                _note(classifier._family, classifier.directory)
    return str(classifier._family)


def related(copy: Any, classifier: Any) -> Any:
    """Returns a copy of a classifier as one of its family."""
    copy._family = family(classifier)
    return copy


def warn_of_copies(classifier: Any, directory: "Directory") -> None:
    """Warns where several copies of one classifier have spent in this process: what they cost a person together.

    It depends on ledgers alone. Seeded noise does not count: nothing is claimed of it.
    """
    if classifier._family is None:
        return
    _note(classifier._family, directory)
    of_copies = [found for found in list(_SPENT[classifier._family].values()) if found.private and found.tasks]
    if len(of_copies) < 2:
        return
    budget = directory.budget
    times = sum(min(len(found.tasks), found.budget.tasks_per_person) for found in of_copies)
    spends = [replace(spend, task=f"{i} {spend.task}") for i, found in enumerate(of_copies) for spend in found.spends]
    from reticent.privacy.statement import Statement

    epsilon, delta = Statement(budget=budget, spends=spends).bound_if_in(times)
    warnings.warn(
        f"{len(of_copies)} copies of one classifier have spent in this process, each with a budget of its own. Who is "
        f"in {times} of their tasks, as these budgets allow, has lost epsilon {rounded_up(epsilon)} at delta "
        f"{exact(delta)}, not {exact(budget.epsilon)}; exact scores on private rows are not counted at all. Choose "
        "models on public data, with seeded noise: docs/sklearn.md.",
        errors.ReticentWarning,
        stacklevel=4,
    )


def _note(family: str, directory: "Directory") -> None:
    statement = directory.statement()
    _SPENT.setdefault(family, {})[statement.identity or ""] = statement
