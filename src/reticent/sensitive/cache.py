"""Features that learning computes, kept between runs. What the cache holds is as sensitive as the data."""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reticent import errors
from reticent.encoders.encoder import CACHE_FILE, Encoder, Features


def encoded_with_cache(encoder: Encoder, inputs: Any) -> Features:
    """Encodes inputs; an encoder with a cache folder finds there what it has encoded before, and keeps the rest.

    Guarantees:
      - The same bits as `encoder(inputs)`.                          test_the_cache_changes_no_bits
      - What cannot be encoded is not kept.                          test_what_cannot_be_encoded_is_not_kept
    """
    if encoder.cache is None or encoder.content is None:
        return encoder(inputs)
    with contextlib.closing(Cache(encoder.cache)) as cache:
        return encoder.in_chunks(inputs, partial(_fill, encoder, cache))


def _fill(encoder: Encoder, cache: "Cache", examples: Sequence[object], features: Features) -> Iterator[int]:
    """Fills in a chunk, from the cache where it can; yields how many of the rest are done."""
    contents = [None if encoder.content is None else encoder.content(example) for example in examples]
    keys = [None if content is None else key(encoder.digest, content) for content in contents]
    found = cache.get(keys, encoder.width)
    for i, row in enumerate(found):
        if row is not None:
            features[i] = row
    missing = [i for i, row in enumerate(found) if row is None]
    if not missing:
        return
    encoded = np.full((len(missing), encoder.width), np.nan, dtype=np.float32)
    yield from encoder.fill([examples[i] for i in missing], encoded)
    features[missing] = encoded
    new = zip(missing, encoded, strict=True)
    cache.put((name, row) for i, row in new if (name := keys[i]) is not None and np.isfinite(row).all())


def key(digest: str, content: bytes) -> bytes:
    """Returns the name under which the features of an input are kept: it says which encoder and which input.

    >>> key("encoder", b"a text") == key("encoder", b"another")
    False
    """
    return hashlib.sha256(digest.encode() + b"\0" + content).digest()


class Cache:
    """Rows of features by key, in one SQLite file. SENSITIVE: features tell nearly as much as the inputs.

    Guarantees:
      - Its files can be read by their owner alone (0600), and so can a folder that it makes (0700); a folder that was
        there keeps its mode.                 test_cache_is_private_and_wiped, test_a_folder_of_the_user_keeps_its_mode
      - A link in place of its file is refused.  test_a_symbolic_link_is_refused_as_cache
      - A wiped cache leaves no file of its own behind, and touches no other.    test_cache_is_private_and_wiped
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / CACHE_FILE
        with self._sentence("opened"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_private(self.file)  # SQLite gives its side files the same mode
            self._database = sqlite3.connect(self.file, timeout=60)
            self._database.execute("CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, value BLOB NOT NULL)")

    def get(self, keys: Sequence[bytes | None], width: int) -> list[Features | None]:
        """Returns the row of each key, None where there is none."""
        found: list[Features | None] = []
        with self._sentence("read"):
            for name in keys:
                row = None if name is None else self._one(name)
                found.append(np.frombuffer(row, dtype="<f4") if row is not None and len(row) == 4 * width else None)
        return found

    def put(self, rows: Iterable[tuple[bytes, Features]]) -> None:
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


def _make_private(file: Path) -> None:
    """Makes a file of mode 0600, or gives that mode to the one that is there; follows no link."""
    here = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
    try:
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | here, 0o600)
    except FileExistsError:
        opened = os.open(file, os.O_RDWR | here)
    try:
        if os.chmod in os.supports_fd:
            os.chmod(opened, 0o600)
    finally:
        os.close(opened)
