"""SQLite files that somebody else may have written: their size, kind and schema are checked before a row is read."""

import contextlib
import os
import sqlite3
import stat
import sys
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from reticent import errors

_SIDE_FILES = ("-journal", "-wal", "-shm")
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_OF_OTHERS: list[sqlite3.Connection] = []  # kept open: closing one could drop what its process has written


class Connected:
    """Has a database open, until it is closed.

    Args:
        database: Open; for whoever inherits from this as `_db`.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db, self._process = database, os.getpid()
        # what is kept in memory ends with its model: from Python 3.13 on, connections that nobody closes warn
        self._end = weakref.finalize(self, _close, database, self._process)
        self._end.atexit = False

    def close(self) -> None:
        """Closes the file. A forked child leaves that to the process that opened it, as SQLite asks."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close(database: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():
        database.close()
    else:
        _OF_OTHERS.append(database)


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All that is written inside, or nothing: one writer at a time, from the start."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(Exception):  # SQLite rolls back by itself where the disk is full
            database.execute("ROLLBACK")
        raise


def refuse_strange(file: Path, *, most: int) -> None:
    """Refuses a database that is no regular file or too large, and side files that SQLite should not act upon.

    A rollback journal may name another file, anywhere, which SQLite then deletes: it does so for transactions over
    several databases, which we never make.

    Guarantees:
      - A journal that names a file is refused.                 test_a_journal_deletes_no_file_outside
      - Links, FIFOs and large files are refused.               test_strange_databases_are_refused

    Args:
        file: The database.
        most: Bytes of the database, and of each of its side files.
    """
    for path in (file, *(file.with_name(file.name + ending) for ending in _SIDE_FILES)):
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode):
            raise errors.InvalidValue(f"Expected a regular file, and no link: {path}.")
        if found.st_size > most:
            raise errors.InvalidValue(f"Expected at most {most:,} bytes in {path}.")
        if path.name.endswith("-journal") and _names_a_file(path):
            raise errors.InvalidValue(f"{path} names another file.")


def _names_a_file(journal: Path) -> bool:
    with open(journal, "rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - len(_JOURNAL_MAGIC)))
        return stream.tell() > 0 and stream.read() == _JOURNAL_MAGIC


def harden(database: sqlite3.Connection, *, longest: int) -> None:
    """Lets a schema call no function with side effects, checks pages, and limits the length of a value.

    Args:
        database: Just opened.
        longest: Bytes of one value.
    """
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    if sys.version_info >= (3, 12):
        database.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    durable = ("fullfsync = ON", "checkpoint_fullfsync = ON")  # macOS alone has it; see `files.sync`
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", *durable):
        database.execute(f"PRAGMA {pragma}")


def has_schema(database: sqlite3.Connection, entries: Sequence[str]) -> bool:
    """Returns whether a database holds exactly these tables and triggers, and nothing else.

    Args:
        database: Hardened.
        entries: The SQL of each entry of its schema, in order.
    """
    query = "SELECT sql FROM sqlite_schema ORDER BY rowid LIMIT ?"
    return [sql for (sql,) in database.execute(query, (len(entries) + 1,))] == list(entries)
