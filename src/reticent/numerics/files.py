"""Files that are written whole or not at all, by one process at a time."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import filelock

from reticent import errors

LOCK = "writer.lock"
PATIENCE = 60.0  # seconds to wait for another writer


def write_whole(file: Path, content: bytes | str) -> None:
    """Writes a file in place of the one before: a kill, a full disk or a power cut leaves the old one or the new one.

    The content goes to a new file of a random name in the same folder and is synced before it gets its name; then the
    folder is synced. On failure no file stays behind.

    Args:
        file: What to write; its folder must exist.
        content: Text is written as UTF-8.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_whole(Path(folder, "note.txt"), "kept")
        ...     [(path.name, path.read_text()) for path in Path(folder).iterdir()]
        [('note.txt', 'kept')]
    """
    data = content.encode() if isinstance(content, str) else content
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, file)
        sync_folder(file.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise errors.InvalidValue(f"Cannot write {file}: {error.strerror}.") from error


def sync_folder(folder: Path) -> None:
    """Makes the names of new files durable, where a system lets folders be synced."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows syncs names with the files
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Lets one process at a time write to a folder; waits for a minute, then refuses."""
    if not folder.is_dir():  # the lock would make it
        raise errors.InvalidValue(f"No folder at {folder}.")
    lock = filelock.FileLock(folder / LOCK, timeout=PATIENCE)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise errors.LedgerError(
            f"Another process is writing to {folder}. Nothing was spent. Try again when it is done."
        ) from error
    except OSError as error:
        raise errors.LedgerError(f"{folder} cannot be written to: {error.strerror}. Check its permissions.") from error
    try:
        yield
    finally:
        lock.release()
