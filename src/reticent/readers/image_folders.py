"""Folders of images: one subfolder per label."""

from pathlib import Path

from reticent import errors
from reticent.readers.examples import Examples

FILE = "file"  # the column of names that predictions of a folder have
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def read_folder(path: Path, *, labelled: bool) -> Examples:
    """Returns paths of images; the label is the name of the folder they are in. Unlabelled ones need no subfolder.

    Args:
        path: The folder.
        labelled: Whether subfolders are labels; else names of files are carried along.
    """
    if labelled and not any(entry.is_dir() for entry in path.iterdir()):
        raise errors.InvalidValue(f"Expected one folder of images for each label in {path.name}, got no folder.")
    files = sorted(f for f in path.glob("*/*") if _is_image(f) and not f.parent.is_symlink())
    if labelled:
        return Examples(files, [f.parent.name for f in files], None)
    loose = sorted(f for f in path.glob("*") if _is_image(f))
    found = files or loose
    return Examples(found, None, None, {FILE: [f.relative_to(path).as_posix() for f in found]})


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in _IMAGES and path.is_file()
