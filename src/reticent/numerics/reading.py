"""Files that somebody else may have written: read once, whole, and never more than was agreed to."""

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from reticent import errors

MEGABYTE = 1 << 20
_PLAIN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a FIFO does not keep us waiting
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_regular(file: Path, *, most: int, link: bool = False, first: int | None = None) -> bytes:
    """Reads a regular file; refuses a folder, device, FIFO or link, and what is larger than `most` bytes.

    Guarantees:
      - It neither waits nor allocates for what it refuses.             test_only_regular_files_of_limited_size_are_read
      - It allocates what the file holds, however much is allowed.      test_a_short_file_takes_little_memory

    Args:
        file: What to read.
        most: Bytes.
        link: Whether a link is followed, as for a file that the user has named.
        first: How many bytes to read from its beginning; all of it by default.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Path(folder, "large").write_bytes(bytes(100))
        ...     read_regular(Path(folder, "large"), most=10)
        Traceback (most recent call last):
        reticent.errors.InvalidValue: Expected at most 10 bytes in large.
    """
    if not link and file.is_symlink():  # said first: what opening one gives differs between systems
        raise errors.InvalidValue(f"Expected a file and not a link: {file}.")
    descriptor = os.open(file, _PLAIN | (0 if link else _NO_LINK))
    with open(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise errors.InvalidValue(f"Expected a regular file: {file}.")
        if found.st_size > most:
            raise errors.InvalidValue(f"Expected at most {most:,} bytes in {file.name}.")
        content = stream.read(found.st_size + 1 if first is None else min(first, found.st_size))
    if len(content) > found.st_size:
        raise errors.InvalidValue(f"{file.name} has grown while it was read. Try again.")
    return content


def read_inside(folder: Path, name: str, *, most: int, first: int | None = None) -> bytes:
    """Reads a file of a folder as `read_regular` does; no folder on the way may be a link."""
    parts = Path(name).parts
    for depth in range(1, len(parts)):
        if folder.joinpath(*parts[:depth]).is_symlink():
            raise errors.InvalidValue(f"Expected a folder and not a link: {folder.joinpath(*parts[:depth])}.")
    return read_regular(folder / name, most=most, first=first)


def json_of(text: bytes | str) -> Any:
    """Returns what a JSON text holds; refuses, with a ValueError, what our writers never write.

    That is: the same key twice, NaN, numbers of thousands of digits, nesting beyond Python's limit, and text that UTF-8
    cannot hold.

    >>> json_of('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> json_of('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: Expected each key once.
    """
    raw = text.encode() if isinstance(text, str) else text
    try:
        value = json.loads(raw.decode(), object_pairs_hook=_once, parse_constant=_constant)
        if _SURROGATE.search(raw):  # half a character
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("Expected less nesting.") from None
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("Expected each key once.")
    return made


def _constant(name: str) -> float:
    if name == "NaN":
        raise ValueError("Expected numbers.")
    return float(name)  # infinity may be a label
