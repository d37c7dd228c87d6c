"""The seal of a vault: a file beside it with a random text that the vault knows, another one at every commit.

Where one of the two was put back from a backup, they do not fit, even if each was written into its own file; where both
were, the time does not, which the file system notes by itself when a file is written.
"""

import contextlib
import secrets
from pathlib import Path
from typing import NamedTuple

from reticent import errors
from reticent.numerics.files import write_whole
from reticent.numerics.reading import read_regular

SEAL = "seal"
_LONGEST = 1 << 10


class Seal(NamedTuple):
    """What a seal says, and when it was written, in nanoseconds, by the file system: nobody can set that time."""

    text: str
    written: int


def new_text() -> str:
    """Returns what another seal will say."""
    return secrets.token_hex(16)


def write(folder: Path, text: str) -> Seal:
    """Writes the seal of a folder, durably, in place of the one before."""
    write_whole(folder / SEAL, text)
    return Seal(text, (folder / SEAL).stat().st_ctime_ns)


def read(folder: Path) -> Seal | None:
    """Returns the seal of a folder; None where there is none."""
    with contextlib.suppress(FileNotFoundError, errors.InvalidValue):
        text = read_regular(folder / SEAL, most=_LONGEST).decode()
        return Seal(text, (folder / SEAL).stat().st_ctime_ns)
    return None
