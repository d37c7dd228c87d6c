"""Folders of images: one subfolder per label."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from reticent import errors
from reticent.numerics.coded import Coded
from reticent.readers.examples import Columns, Examples
from reticent.readers.sources import Source

FILE = "file"  # the column of names that predictions of a folder have
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
_BATCH = 4096  # paths at a time


@dataclass(frozen=True)
class FolderSource:
    """Paths of images, in the order of their names; the label is the name of the folder they are in.

    Args:
        path: The folder.
        labelled: Whether subfolders are labels; else names of files are carried along, and they need no subfolder.
        only: Names of the subfolders that are read; None for all.
    """

    path: Path
    labelled: bool
    only: tuple[str, ...] | None = None
    has_persons: bool = False
    numeric: bool = False
    names: tuple[str, ...] = ()
    width: int | None = None
    size: int = 0

    @property
    def has_labels(self) -> bool:
        """Whether examples have labels."""
        return self.labelled

    def ids(self) -> Iterator[Coded]:
        """A folder does not say whose images they are."""
        return iter(())

    def __iter__(self) -> Iterator[Examples]:
        """Reads the examples in batches: paths, not pixels."""
        files = self._files()
        batch = list(islice(files, _BATCH))
        while True:
            yield self._examples(batch)
            batch = list(islice(files, _BATCH))
            if not batch:
                return

    def parts(self) -> list[Source]:
        """Returns the subfolders; where there is none with an image, the folder."""
        folders = self._folders()
        if self.only is not None or not any(_images(folder) for folder in folders):
            return [self]
        return [replace(self, only=(folder.name,)) for folder in folders]

    def _examples(self, files: list[Path]) -> Examples:
        if self.labelled:
            return Examples(files, Coded.of([file.parent.name for file in files]), None)
        return Examples(files, None, None, {FILE: [file.relative_to(self.path).as_posix() for file in files]})

    def _files(self) -> Iterator[Path]:
        inside = False
        for folder in self._folders():
            for name in _images(folder):
                yield folder / name
                inside = True
        if not self.labelled and not inside and self.only is None:
            yield from (self.path / name for name in _images(self.path))

    def _folders(self) -> list[Path]:
        if self.only is not None:
            return [self.path / name for name in self.only]
        with os.scandir(self.path) as entries:  # else each image of a folder and its link had two labels
            return [self.path / name for name in sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))]


def open_folder(path: Path, columns: Columns, *, labelled: bool) -> FolderSource:
    """Opens a folder of images; columns are none that it has."""
    if columns.person is not None:
        raise errors.InvalidValue(
            "A folder of images does not say whose they are. List them in a .csv file: --image and --person."
        )
    if columns.keep:
        raise errors.InvalidValue("A folder of images has no columns to keep; its predictions name the files.")
    if labelled and not any(entry.is_dir() for entry in path.iterdir()):
        raise errors.InvalidValue(f"Expected one folder of images for each label in {path.name}, got no folder.")
    return FolderSource(path, labelled)


def _images(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(
            entry.name for entry in entries if os.path.splitext(entry.name)[1].lower() in _IMAGES and entry.is_file()
        )
