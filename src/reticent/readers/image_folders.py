"""Folders of images: one subfolder per label."""

from pathlib import Path

from reticent import errors
from reticent.readers.examples import Examples

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def read_folder(path: Path, *, labelled: bool) -> Examples:
    """Returns paths of images; the label is the name of the folder they are in. Unlabelled ones need no subfolder."""
    if labelled and not any(entry.is_dir() for entry in path.iterdir()):
        raise errors.InvalidValue(f"Expected one folder of images for each label in {path.name}, got no folder.")
    files = sorted(f for f in path.glob("*/*") if _is_image(f) and not f.parent.is_symlink())
    if labelled:
        return Examples(files, [f.parent.name for f in files], None)
    loose = sorted(f for f in path.glob("*") if _is_image(f))
    return Examples(files or loose, None, None)


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in _IMAGES and path.is_file()
