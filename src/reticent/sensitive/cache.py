"""Features kept between runs, in a folder of their owner. What it holds is as sensitive as the data."""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from reticent import errors

FILE_NAME = "features.sqlite"
_SIDE_FILES = ("", "-wal", "-shm", "-journal")


def key(digest: str, content: bytes) -> bytes:
    """Returns the name under which the features of an input are kept: it says which encoder and which input.

    >>> key("encoder", b"a text") == key("encoder", b"another")
    False
    """
    return hashlib.sha256(digest.encode() + b"\0" + content).digest()


class Cache:
    """Rows of features by key, in one SQLite file. SENSITIVE: features tell nearly as much as the inputs.

    Guarantees:
      - The folder and its files can be read by their owner alone (0700, 0600).  test_cache_is_private_and_wiped
      - A wiped cache leaves no file of its own behind, and touches no other.    test_cache_is_private_and_wiped
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE_NAME
        with self._sentence("opened"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
            os.close(os.open(self.file, os.O_CREAT | os.O_RDWR, 0o600))
            self.file.chmod(0o600)  # SQLite gives its side files the same mode
            self._database = sqlite3.connect(self.file, timeout=60)
            self._database.execute("CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, value BLOB NOT NULL)")

    def get(self, keys: Sequence[bytes | None], width: int) -> list[npt.NDArray[np.float32] | None]:
        """Returns the row of each key, None where there is none."""
        found: list[npt.NDArray[np.float32] | None] = []
        with self._sentence("read"):
            for name in keys:
                row = None if name is None else self._one(name)
                found.append(np.frombuffer(row, dtype="<f4") if row is not None and len(row) == 4 * width else None)
        return found

    def put(self, rows: Iterable[tuple[bytes, npt.NDArray[np.float32]]]) -> None:
        """Keeps rows: all of them, or none if the process is killed."""
        with self._sentence("written"), self._database:
            statement = "INSERT OR REPLACE INTO features VALUES (?, ?)"
            self._database.executemany(statement, ((name, row.astype("<f4").tobytes()) for name, row in rows))

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def _one(self, name: bytes) -> bytes | None:
        row = self._database.execute("SELECT value FROM features WHERE key = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    @contextlib.contextmanager
    def _sentence(self, verb: str) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise errors.ReticentError(f"The cache {self.file} cannot be {verb}. Wipe it, or name another.") from error


def wipe(folder: Path) -> None:
    """Deletes the cache in a folder, and the folder if nothing else is in it. A disk may keep old blocks."""
    for suffix in _SIDE_FILES:
        (folder / (FILE_NAME + suffix)).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
