"""Optional packages, imported when first needed; a missing one is refused in one sentence that names its extra."""

import importlib
from typing import Any

from reticent import errors
from reticent.numerics import threads


def require(module: str, *, extra: str, what: str = "This encoder") -> Any:
    """Imports a module of an optional extra; torch, which many of them import, waits as `numerics.threads` says.

    >>> require("no_such_package", extra="reticent[torch]")
    Traceback (most recent call last):
    reticent.errors.ReticentError: This encoder needs no_such_package: pip install 'reticent[torch]'.
    """
    threads.wait_passively()
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise errors.ReticentError(f"{what} needs {package}: pip install '{extra}'.") from error
