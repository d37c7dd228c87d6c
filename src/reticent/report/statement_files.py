"""The privacy statement as two files: for people and for programs."""

import json
from pathlib import Path

from reticent import errors
from reticent.numerics.files import write_whole
from reticent.privacy.statement import Statement

TEXT, JSON = "privacy_statement.txt", "privacy_statement.json"


def write(folder: Path, statement: Statement) -> None:
    """Writes both files into a folder, which is made where it is missing; files of an earlier statement are replaced.

    Guarantees: both state the same numbers, and the JSON follows its schema.   test_statement_files_state_the_same
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.InvalidValue(f"Cannot make {folder}: {error.strerror}.") from error
    write_whole(folder / TEXT, f"{statement.text()}\n")
    write_whole(folder / JSON, f"{json.dumps(statement.json(), indent=2)}\n")
