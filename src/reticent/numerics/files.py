"""Files that are written whole or not at all, by one process at a time."""

import contextlib
import os
import re
import secrets
import sys
import threading
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

import filelock

from reticent import errors

LOCK = "writer.lock"
PATIENCE = 60.0  # seconds to wait for another writer
_UMASK = threading.Lock()
_DRAFT = re.compile(r"\..+\.[0-9a-f]{16}(-journal|-wal|-shm)?")


def write_whole(file: Path, content: bytes | str, *, guarded: bool = False) -> None:
    """Writes a file in place of the one before: a kill, a full disk or a power cut leaves the old one or the new one.

    The content goes to a new file of a random name in the same folder and is synced before it gets its name; then the
    folder is synced. On failure no file stays behind; after a kill a draft does, until `remove_drafts`.

    Args:
        file: What to write; its folder must exist.
        content: Text is written as UTF-8.
        guarded: Whether the draft is for its owner alone, and its name durable before its first byte: where anybody can
            have read a part of the content, a draft is there, or the file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_whole(Path(folder, "note.txt"), "kept")
        ...     [(path.name, path.read_text()) for path in Path(folder).iterdir()]
        [('note.txt', 'kept')]
    """
    data = content.encode() if isinstance(content, str) else content
    draft = draft_of(file)
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if guarded else 0o666), "wb") as stream:
            if guarded:
                sync_folder(file.parent)
            stream.write(data)
            stream.flush()
            sync(stream.fileno())
        os.replace(draft, file)
        if guarded:
            with contextlib.suppress(PermissionError):  # of a file system without modes
                file.chmod(0o666 & ~_umask())
        sync_folder(file.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise errors.StorageError(f"Cannot write {file}: {error.strerror}.") from error


def _umask() -> int:
    """What new files do not permit; no call only reads it. A file that another thread makes meanwhile permits less."""
    with _UMASK:
        found = os.umask(0o077)
        os.umask(found)
    return found


def draft_of(file: Path) -> Path:
    """Returns a new name beside a file, to write it under."""
    return file.with_name(f".{file.name}.{secrets.token_hex(8)}")


def remove_drafts(folder: Path) -> None:
    """Removes drafts that killed processes have left; for whoever alone may write to the folder."""
    remove(folder / name for name in names_in(folder) if is_draft(name))


def is_draft(name: str) -> bool:
    """Returns whether a file of this name is a draft, or what SQLite keeps beside one."""
    return _DRAFT.fullmatch(name) is not None


def names_in(folder: Path, *, but: AbstractSet[str] = frozenset()) -> list[str]:
    """Returns the names in a folder, none where there is no folder; `glob` takes one that it may not read for empty.

    Args:
        folder: Where to look.
        but: Names that are left out, such as a thousand known ones.
    """
    try:
        return sorted(set(os.listdir(folder)) - but)
    except FileNotFoundError:
        return []


def remove(files: Iterable[Path]) -> None:
    """Removes files, durably."""
    for file in files:
        try:
            file.unlink(missing_ok=True)
            sync_folder(file.parent)
        except OSError as error:
            raise errors.StorageError(f"Cannot remove {file}: {error.strerror}.") from error


def sync_folder(folder: Path) -> None:
    """Makes the names of new files durable, where a system lets folders be synced."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows syncs names with the files
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def sync(descriptor: int) -> None:
    """Makes what was written durable. On macOS fsync leaves it in the cache of the drive, so that is emptied too.

    Guarantees:
      - macOS is asked for its own, stronger call; a file system without it gets fsync.
                                                                          test_macos_empties_the_cache_of_the_drive
    """
    if sys.platform == "darwin":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


@contextlib.contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Lets one process at a time write to a folder; waits for a minute, then refuses."""
    try:
        if not folder.is_dir():  # the lock would make it
            raise errors.InvalidValue(f"No folder at {folder}.")
        lock = filelock.FileLock(folder / LOCK, timeout=PATIENCE)
        lock.acquire()
    except filelock.Timeout as error:
        raise errors.LedgerError(
            f"Another process is writing to {folder}. Nothing was spent. Try again when it is done."
        ) from error
    except OSError as error:
        raise errors.StorageError(
            f"{folder} cannot be written to: {error.strerror}. Nothing was spent. Check its permissions."
        ) from error
    holder = os.getpid()
    try:
        yield
    finally:
        if holder == os.getpid():  # a forked child would give up the lock of its parent
            with contextlib.suppress(OSError):  # what was written is written; the lock ends with its file's descriptor
                lock.release()
