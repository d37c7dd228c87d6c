"""Learners: what a task releases. A learner is a frozen value in a file of its own; see `learner.Learner`.

To add one: its file here, and its name in `KINDS`. The command line, manifests and audits find it there; the benchmark
has a catalogue of its own.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from reticent import errors
from reticent.numerics.own_objects import is_own, own_object
from reticent.sensitive.learners.cosine import Cosine
from reticent.sensitive.learners.learner import Learner
from reticent.sensitive.learners.peft import PeftEnsemble

__all__ = ["KINDS", "Cosine", "Learner", "PeftEnsemble", "from_json", "named", "names"]

KINDS: Mapping[str, type[Cosine | PeftEnsemble]] = {"cosine": Cosine, "peft": PeftEnsemble}
_PAPER = "-paper"


def names() -> tuple[str, ...]:
    """Returns the names of all learners, each also in the paper's mode.

    >>> names()
    ('cosine', 'cosine-paper', 'peft', 'peft-paper')
    """
    return tuple(name for kind in KINDS for name in (kind, kind + _PAPER))


def named(name: str, *, task_size: int | None = None) -> Learner:
    """Returns a learner by its name, or the user's own as module:object.

    Args:
        name: One of `names()`, or "module:object": a learner, or a class or function that returns one.
        task_size: About how many examples a task has, for learners that ask.

    Example:
        >>> named("cosine-paper") == Cosine.paper(), named("peft", task_size=300).task_size
        (True, 300)
    """
    if is_own(name):
        own: Learner = own_object(name, "a learner", lambda it: hasattr(it, "learn_task") and not isinstance(it, type))
        return own
    if name not in names():
        raise errors.InvalidValue(f"Expected a learner out of {', '.join(names())}, module:object, got {name}.")
    kind = KINDS[name.removesuffix(_PAPER)]
    asks = task_size is not None and any(field.name == "task_size" for field in fields(kind))
    settings: dict[str, Any] = {"task_size": task_size} if asks else {}
    return kind.paper(**settings) if name.endswith(_PAPER) else kind(**settings)


def from_json(value: dict[str, Any]) -> Learner:
    """Returns the learner that a manifest describes.

    >>> from_json(Cosine.paper().to_json()) == Cosine.paper()
    True
    """
    if value["kind"] not in KINDS:
        raise errors.InvalidValue(errors.OWN_LEARNER)
    try:
        return KINDS[value["kind"]].from_json(value)
    except (LookupError, TypeError, AttributeError) as error:
        raise errors.InvalidValue("The learner that is stored with this model cannot be read. Name it anew.") from error
