"""High-precision arithmetic that threads cannot disturb: mpmath's own context is one global setting."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

_local = threading.local()


@contextlib.contextmanager
def bits(n: int) -> Iterator[Any]:
    """Yields an mpmath context of this thread that works with n bits; take plain numbers out of it.

    >>> with bits(200) as mp:
    ...     float(mp.ncdf(0))
    0.5
    """
    context = _context()
    before = context.prec
    context.prec = n
    try:
        yield context
    finally:
        context.prec = before


def _context() -> Any:
    if not hasattr(_local, "context"):
        import mpmath  # takes a while to import, and prediction needs none

        _local.context = mpmath.MPContext()
    return _local.context
