"""Limits that are checked before anything is allocated, by what a file declares of itself."""

import os
from pathlib import Path

from reticent import errors

LONGEST_CELL = 1 << 20  # bytes of one text; a longer one is taken for missing
LONGEST_LINE = 1 << 24  # characters of one line of a CSV file; a longer one does not parse
_ELSE = 1 << 34  # bytes of memory, where the system does not say


def refuse_too_large(path: Path, size: int) -> None:
    """Refuses a file whose content would fill more than half of the machine's memory; the message names no size.

    Args:
        path: The file.
        size: Bytes that it declares.
    """
    if size > _memory() // 2:
        raise errors.InvalidValue(
            f"{path.name} would take more than half of this machine's memory. Use a larger machine or a smaller file."
        )


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _ELSE
