"""Objects of the user's own code, named as module:object on the command line or in a spec."""

import importlib
import os
import sys
from typing import Any

from reticent import errors


def is_own(name: str) -> bool:
    """Tells whether a name is module:object.

    >>> is_own("own_learner:NamesFirst"), is_own("cosine")
    (True, False)
    """
    module, _, attribute = name.partition(":")
    return bool(module and attribute)


def own_object(name: str, kind: str) -> Any:
    """Imports module:object, from the current folder or the path. This runs the module's code: the user must name it.

    Args:
        name: Such as "own_learner:NamesFirst".
        kind: What is expected there, for the refusal.

    Example:
        >>> own_object("math:pi", "a number")
        3.141592653589793
        >>> own_object("mathematics:pi", "a number")
        Traceback (most recent call last):
        reticent.errors.InvalidValue: Expected a number at mathematics:pi: ModuleNotFoundError: No module named \
'mathematics'.
    """
    module, _, attribute = name.partition(":")
    sys.path.insert(0, here := os.getcwd())  # a command that was installed does not look there
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever the user's code raises
        raise errors.InvalidValue(f"Expected {kind} at {name}: {type(error).__name__}: {error}.") from error
    finally:
        sys.path.remove(here)
