"""Which reader a file goes to, by the ending of its name."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.numerics.coded import Coded
from reticent.readers.csv_files import STANDARD_INPUT, open_csv
from reticent.readers.examples import Columns, Examples
from reticent.readers.image_folders import open_folder
from reticent.readers.limits import refuse_too_large
from reticent.readers.npz_files import open_npz
from reticent.readers.parquet_files import open_parquet, refuse_other_schemas
from reticent.readers.sources import Shards, Source, joined

_FORMATS: dict[str, Callable[..., Source]] = {".csv": open_csv, ".parquet": open_parquet, ".npz": open_npz}
_SHARDS = (".csv", ".parquet")


def open_source(path: str | Path | Sequence[Path], columns: Columns, *, labelled: bool = True) -> Source:
    r"""Opens a file by its ending, a folder of shards, or a folder with one subfolder of images per label.

    The header or schema is checked; no row is read until the source is iterated.

    Args:
        path: The file or folder; several .csv or .parquet files of one schema; "-" is CSV from standard input.
        columns: Which columns are what.
        labelled: Whether lines that do not parse are left out; else each is an example without a value.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "march.csv").write_text("note,code\nchest pain,I20\n")
        ...     source = open_source(Path(folder, "march.csv"), Columns(text="note", label="code"))
        ...     [(batch.inputs, batch.labels.cells()) for batch in source]
        [(['chest pain'], ['I20'])]
    """
    if not isinstance(columns, Columns):
        raise errors.InvalidValue(f"Expected columns to be rt.Columns(...), got {type(columns).__name__}.")
    path = Path(path) if isinstance(path, str) else path
    if not isinstance(path, Path | list | tuple) or path in ([], ()):
        raise errors.InvalidValue(f"Expected a path, or a list of some, got {type(path).__name__}.")
    if not isinstance(path, Path):
        return _shards(Path(path[0]).parent, list(path), columns, labelled)
    if path != STANDARD_INPUT:
        path = path.absolute()  # a worker that reads it may be in another folder
    if path.is_dir():
        files = _files(path) if columns.inputs else []
        if files:
            return _shards(path, files, columns, labelled)
        if columns.inputs:
            raise errors.InvalidValue(
                f"No .csv or .parquet file in {path.name}; subfolders are not searched. For a folder of images name no "
                "column."
            )
        return open_folder(path, columns, labelled=labelled)
    if path != STANDARD_INPUT and not path.is_file():
        raise errors.InvalidValue(f"No file at {path}.")
    opener = open_csv if path == STANDARD_INPUT else _FORMATS.get(path.suffix.lower())
    if opener is None:
        raise errors.InvalidValue(
            f"Expected a .csv, .parquet or .npz file, a folder of .csv or .parquet files, or a folder of images, got "
            f"{path.name}."
        )
    return opener(path, columns, labelled=labelled)


def read(path: Path | Sequence[Path], columns: Columns, *, labelled: bool = True) -> Examples:
    """Reads all of what `open_source` opens into memory; refuses what declares more than half of it.

    Args:
        path: As there.
        columns: Which columns are what.
        labelled: As there.
    """
    return collected(open_source(path, columns, labelled=labelled))


def collected(source: Source) -> Examples:
    """Reads all of a source into memory; refuses one that declares more than half of it."""
    refuse_too_large(source.path, source.size)
    found = joined(list(source))
    labels = None if found.labels is None else _Cells(found.labels, numeric=source.numeric)
    persons = None if found.persons is None else _Cells(found.persons)
    return Examples(found.inputs, labels, persons, found.kept)


class _Cells(list[object]):
    """Cells of a column, with what its schema declares: whether they are numbers."""

    def __init__(self, column: Any, *, numeric: bool = False) -> None:
        super().__init__(Coded.of(column).cells())
        self.type = "double" if numeric else None


def _files(folder: Path) -> list[Path]:
    """Returns shards of a table in a folder: what other programs hide or mark there is none.

    Refuses what is named like a shard and is no file, such as a dead link: left out, a part of the data would
    silently be missing from what is paid for.
    """
    found = (entry for entry in folder.iterdir() if entry.suffix.lower() in _SHARDS)
    shards = sorted(entry for entry in found if not entry.name.startswith((".", "_")))
    for shard in shards:
        if not shard.is_file():
            raise errors.InvalidValue(
                f"Expected a file at {shard.name} in {folder.name}, got a folder or a dead link. Nothing was read."
            )
    return shards


def _shards(folder: Path, files: Sequence[Path], columns: Columns, labelled: bool) -> Source:
    endings = {file.suffix.lower() for file in files}
    if len(endings) > 1 or not endings <= set(_SHARDS):
        raise errors.InvalidValue(f"Expected files of one format in {folder.name}: .csv or .parquet.")
    opened = [open_source(file, columns, labelled=labelled) for file in files]
    if endings == {".parquet"}:
        refuse_other_schemas(opened)
    return Shards(folder, tuple(opened))
