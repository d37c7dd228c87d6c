"""Whole lines of a file of bytes, in blocks of bounded size. A line ends at a line feed or a carriage return."""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import BinaryIO

from reticent.readers.limits import LONGEST_LINE

MARK = b"\xef\xbb\xbf"  # of UTF-8, before the first line
_BLOCK = 1 << 22  # bytes read at a time
_END = re.compile(rb"[\r\n]")


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """Reads a file from where it stands."""
    return iter(partial(file.read, _BLOCK), b"")


def blocks(content: Iterable[bytes], start: int, stop: int | None) -> Iterator[bytes | None]:
    """Yields blocks of the lines that begin in a range of bytes, and None in place of each line that is too long.

    Args:
        content: Of the file, from one byte before the range: a line begins where the byte before it ends one.
        start: Where the range begins.
        stop: Where it ends; None for the end of the file.
    """
    place, rest, skipping = start - 1, b"", True
    for chunk in content:
        end = None
        if stop is not None and place + len(chunk) >= stop:
            end = _END.search(chunk, max(0, stop - 1 - place))
        last = end is not None
        lines = chunk[: end.end()] if end else chunk
        place += len(chunk)
        if skipping:
            end = _END.search(lines)
            lines, skipping = lines[end.end() if end else len(lines) :], end is None
        whole = max(lines.rfind(b"\n"), lines.rfind(b"\r")) + 1
        if whole:
            yield rest + lines[:whole]
            rest = b""
        rest += lines[whole:]
        if len(rest) > LONGEST_LINE:
            yield None
            rest, skipping = b"", True
        if last:
            return
    if rest:
        yield rest


def first_line(file: BinaryIO) -> tuple[bytes, int, bytes]:
    """Returns the first line that is not blank, the place of the one after it, and all that was read.

    A line that is too long is b"".
    """
    content, start = b"", 0
    for chunk in chunks(file):
        content += chunk
        while (end := _END.search(content, start)) is not None:
            line = content[start : end.start()].removeprefix(b"" if start else MARK)
            start = end.end()
            if not is_blank(line):
                return line, start, content
        if len(content) - start > LONGEST_LINE:
            return b"", start, content
    line = content[start:].removeprefix(b"" if start else MARK)
    return line, len(content) + 1, content


def is_blank(line: bytes) -> bool:
    r"""Returns whether a line is no row: nothing but blanks.

    >>> is_blank(b" \t"), is_blank(b",")
    (True, False)
    """
    return not line.decode("utf-8", "surrogateescape").strip()
