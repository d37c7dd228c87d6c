"""Features that learning computes, kept between runs. What the cache holds is as sensitive as the data."""

import contextlib
import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reticent import errors
from reticent.encoders.devices import settings
from reticent.encoders.encoder import CACHE_FILE, Encoder, Features
from reticent.numerics import databases
from reticent.numerics.reading import MEGABYTE
from reticent.sensitive.engines.machines import machine_here

_MOST_BYTES, _LONGEST_ROW = 1 << 40, MEGABYTE
_DIGEST_BYTES = 16
_TABLE = "CREATE TABLE features (key BLOB PRIMARY KEY, value BLOB NOT NULL)"


def encoded_with_cache(encoder: Encoder, inputs: Any) -> Features:
    """Encodes inputs; an encoder with a cache folder finds there what it has encoded before, and keeps the rest.

    Guarantees:
      - The same bits as `encoder(inputs)`.                          test_the_cache_changes_no_bits
      - What another processor, version or number of threads has computed is not used.
                                                                     test_features_of_other_settings_are_not_used
      - What cannot be encoded is not kept.                          test_what_cannot_be_encoded_is_not_kept
    """
    if encoder.cache is None or encoder.content is None:
        return encoder(inputs)
    with contextlib.closing(Cache(encoder.cache)) as cache:
        return encoder.in_chunks(inputs, partial(_fill, encoder, cache))


def _fill(encoder: Encoder, cache: "Cache", examples: Sequence[object], features: Features) -> Iterator[int]:
    """Fills in a chunk, from the cache where it can; yields how many of the rest are done."""
    contents = [None if encoder.content is None else encoder.content(example) for example in examples]
    made = f"{encoder.digest}{encoder.speed.key}{machine_here()}{settings()}"
    keys = [None if content is None else key(made, content) for content in contents]
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


def key(made: str, content: bytes) -> bytes:
    """Returns the name under which the features of an input are kept: it says what made them, and of which input.

    >>> key("encoder", b"a text") == key("encoder", b"another")
    False
    """
    return hashlib.sha256(made.encode() + b"\0" + content).digest()


class Cache:
    """Rows of features by key, in one SQLite file. SENSITIVE: features tell nearly as much as the inputs.

    Guarantees:
      - A folder of another user, or one that others may write to, is refused.         test_shared_folders_are_refused
      - A row that is damaged, or was kept for another input or encoder, is not used.  test_foreign_rows_are_not_used
      - Its files can be read by their owner alone (0600), and so can a folder that it makes (0700); a folder that was
        there keeps its mode.                 test_cache_is_private_and_wiped, test_a_folder_of_the_user_keeps_its_mode
      - A link in place of its file is refused.  test_a_symbolic_link_is_refused_as_cache
      - A wiped cache leaves no file of its own behind, and touches no other.    test_cache_is_private_and_wiped
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / CACHE_FILE
        with self._sentence("opened"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_shared(folder)
            _make_private(self.file)  # SQLite gives its side files the same mode
            databases.refuse_strange(self.file, most=_MOST_BYTES)
            self._database = sqlite3.connect(self.file, timeout=60)
        try:
            with self._sentence("opened"):
                databases.harden(self._database, longest=_LONGEST_ROW)
                if not databases.has_schema(self._database, ()):
                    self._refuse_strange_schema()
                self._database.execute(_TABLE.replace("TABLE", "TABLE IF NOT EXISTS"))
        except BaseException:
            self._database.close()
            raise

    def get(self, keys: Sequence[bytes | None], width: int) -> list[Features | None]:
        """Returns the row of each key, None where there is none."""
        found: list[Features | None] = []
        with self._sentence("read"):
            for name in keys:
                found.append(None if name is None else self._one(name, width))
        return found

    def put(self, rows: Iterable[tuple[bytes, Features]]) -> None:
        """Keeps rows: all of them, or none if the process is killed."""
        with self._sentence("written"), self._database:
            statement = "INSERT OR REPLACE INTO features VALUES (?, ?)"
            values = ((name, row.astype("<f4").tobytes()) for name, row in rows)
            self._database.executemany(statement, ((name, _digest(name, value) + value) for name, value in values))

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def _one(self, name: bytes, width: int) -> Features | None:
        """Returns the row of a key, None where it is missing or is not what was kept: it is then computed again."""
        length = _DIGEST_BYTES + 4 * width
        query = "SELECT value FROM features WHERE key = ? AND typeof(value) = 'blob' AND length(value) = ?"
        row = self._database.execute(query, (name, length)).fetchone()
        if row is None or row[0][:_DIGEST_BYTES] != _digest(name, row[0][_DIGEST_BYTES:]):
            return None
        features = np.frombuffer(row[0], dtype="<f4", offset=_DIGEST_BYTES)
        return features if np.isfinite(features).all() else None

    def _refuse_strange_schema(self) -> None:
        if not databases.has_schema(self._database, (_TABLE, None)):
            raise sqlite3.DatabaseError("other tables or triggers than a cache")

    @contextlib.contextmanager
    def _sentence(self, verb: str) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:  # the last in what SQLite says of a schema
            raise errors.ReticentError(f"The cache {self.file} cannot be {verb}. Wipe it, or name another.") from error


def _digest(name: bytes, value: bytes) -> bytes:
    """Binds features to the encoder and the input that they are of."""
    return hashlib.sha256(name + value).digest()[:_DIGEST_BYTES]


def _refuse_shared(folder: Path) -> None:
    """Refuses a folder in which others could put features, or read them; changes no mode."""
    found = folder.stat()
    if os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        raise errors.InvalidValue(
            f"Expected a cache folder of your own that others cannot write to: {folder}. Name a new one in it."
        )


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
