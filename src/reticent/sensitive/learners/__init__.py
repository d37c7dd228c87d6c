"""Learners: what a task releases. A learner is a frozen value; see `learner.Learner` for the protocol."""

from collections.abc import Callable
from typing import Any

from reticent import errors
from reticent.sensitive.learners.cosine import Cosine
from reticent.sensitive.learners.learner import Learner
from reticent.sensitive.learners.peft import PeftEnsemble

__all__ = ["Cosine", "Learner", "PeftEnsemble", "from_json"]

_STORED: dict[str, Callable[[dict[str, Any]], Learner]] = {
    "cosine": Cosine.from_json,
    "peft": PeftEnsemble.from_json,
}


def from_json(value: dict[str, Any]) -> Learner:
    """Returns the learner that a manifest describes.

    >>> from_json(Cosine.paper().to_json()) == Cosine.paper()
    True
    """
    if value["kind"] not in _STORED:
        raise errors.InvalidValue("Expected the learner that this model was made with: load(path, learner=...).")
    return _STORED[value["kind"]](value)
