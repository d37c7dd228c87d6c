"""Public text files, such as lists of labels: read whole, as UTF-8, up to a size; refused with a sentence."""

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path

from reticent import errors

LARGEST = 1 << 28  # bytes


def read_public_text(path: str | os.PathLike[str]) -> str:
    """Returns a public text file without its byte order mark; line ends become plain ones.

    Args:
        path: A regular file; a pipe would wait for a writer.
    """
    file = Path(path)
    if not file.is_file():
        raise errors.InvalidValue(f"No file at {file}.")
    try:
        if file.stat().st_size > LARGEST:
            raise errors.InvalidValue(f"Expected {file} to have at most {LARGEST >> 20} MiB.")
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise errors.InvalidValue(f"{file} is not UTF-8. Save it as UTF-8.") from None
    except OSError as error:
        raise errors.InvalidValue(f"Cannot read {file}: {error.strerror}.") from error


def read_pairs(path: str | os.PathLike[str], first: str, second: str) -> Iterator[tuple[int, str, str]]:
    """Yields the line and the cells of two columns of a public CSV file; empty lines are left out.

    Args:
        path: The file.
        first: The name of a column.
        second: The name of another one.
    """
    reader = csv.reader(io.StringIO(read_public_text(path)))
    try:
        header = next(reader, [])
        if sorted(name for name in header if name in (first, second)) != sorted((first, second)):
            raise errors.InvalidValue(f"Expected the columns {first} and {second} in {path}.")
        places = header.index(first), header.index(second)
        for row in filter(None, reader):
            if len(row) != len(header):
                raise errors.InvalidValue(f"Expected {len(header)} cells in line {reader.line_num} of {path}.")
            yield reader.line_num, row[places[0]], row[places[1]]
    except csv.Error:
        raise errors.InvalidValue(f"Line {reader.line_num} of {path} does not parse as CSV.") from None


def clean(path: str | os.PathLike[str], line: int, text: str) -> str:
    """Returns a public label as a file has it; refuses what would never equal a label in the data.

    Args:
        path: The file.
        line: Where in it.
        text: The label.
    """
    if text != text.strip() or not text.isprintable():
        raise errors.InvalidValue(
            f"Line {line} of {path} has blanks around a label or a character that cannot be seen; labels are compared "
            "exactly. Remove it there, and in the data."
        )
    return text
