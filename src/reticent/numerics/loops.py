"""How loops are compiled. Importing this imports numba, which only learning needs."""

from collections.abc import Callable
from typing import Any

import numba
from numba import types


def given(kind: Any, dimensions: int) -> Any:
    """Returns the type of an array that a loop only reads: one that may not be written to will do."""
    return types.Array(kind, dimensions, "C", readonly=True)


def compiled(*signatures: Any, fastmath: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles a loop when its module is imported: the gate does so before it spends, so it cannot fail afterwards.

    Guarantees:
      - Nothing compiled is kept on disk or read from it: numba would unpickle what it finds in its cache, so anyone
        who can write there could run code.                             test_compiled_loops_never_touch_the_disk
      - A division by zero is infinite or NaN, never an exception: a row must not be able to raise one.
                                                                        test_divisions_by_zero_raise_nothing

    Args:
        *signatures: What the loop returns and takes.
        fastmath: What the compiler may assume, by LLVM's names; never anything about NaN or infinity.
    """
    loop: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.njit(
        list(signatures), nogil=True, fastmath=set(fastmath), error_model="numpy"
    )
    return loop
