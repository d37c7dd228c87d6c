"""Objects of the user's own code, named as module:object on the command line or in a spec."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from reticent import errors


def is_own(name: str) -> bool:
    """Returns whether a name is module:object.

    >>> is_own("own_learner:NamesFirst"), is_own("cosine")
    (True, False)
    """
    module, _, attribute = name.partition(":")
    return bool(module and attribute)


def own_object(name: str, kind: str, is_one: Callable[[Any], bool]) -> Any:
    """Imports module:object, from the path or the current folder. This runs the module's code: the user must name it.

    Args:
        name: Such as "own_learner:NamesFirst"; what is not of the kind itself is called to get one.
        kind: What is expected there, for the refusal.
        is_one: Returns whether an object is of the kind.

    Example:
        >>> own_object("math:pi", "a number", lambda found: isinstance(found, float))
        3.141592653589793
        >>> own_object("string:digits", "a number", lambda found: isinstance(found, float))
        Traceback (most recent call last):
        reticent.errors.InvalidValue: Expected a number at string:digits, got str.
    """
    module, _, attribute = name.partition(":")
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)  # a command that was installed does not look there; the module may import more, later
    try:
        found = getattr(importlib.import_module(module), attribute)
        found = found if is_one(found) or not callable(found) else found()
    except Exception as error:  # whatever the user's code raises
        raise errors.InvalidValue(f"Expected {kind} at {name}: {type(error).__name__}: {error}.") from error
    if not is_one(found):
        raise errors.InvalidValue(f"Expected {kind} at {name}, got {type(found).__name__}.")
    return found
