"""Public text files, such as lists of labels: read whole, as UTF-8, up to a size; refused with a sentence."""

import os
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
