"""NPZ: arrays that numpy stored, never pickled objects."""

import zipfile
from pathlib import Path

import numpy as np

from reticent import errors
from reticent.readers.examples import Columns, Examples, refuse_missing


def read_npz(path: Path, columns: Columns) -> Examples:
    """Returns features from the array x and labels from y, unless the columns name others."""
    names = {"x": columns.features[0] if columns.features else "x", "y": columns.label or "y"}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            refuse_missing(path, [names["x"], *([columns.person] if columns.person else [])], stored.files)
            labels = stored[names["y"]] if names["y"] in stored.files else None
            persons = stored[columns.person] if columns.person else None
            return Examples(stored[names["x"]], labels, persons)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, errors.ReticentError):
            raise
        raise errors.InvalidValue(f"{path.name} is not a readable NPZ file of plain arrays.") from None
