"""The vault: what a model with memory keeps between tasks. Sensitive, in a folder outside of the model's.

One SQLite file, for its owner alone. It holds the exact sums of every task of one epoch, the keys of their noise, and
the release that is about to be published. Labels and counts of a task are read at once, its sums one by one, when they
are asked for: of a label that nobody knows they are not. Whoever reads it and the releases knows those sums exactly. It
is never copied with the model, and must not be restored: one that is behind the ledger would publish old sums with new
noise.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.gate import seal as seals
from reticent.gate.remembered import Entry
from reticent.labels import Label, LabelSpace, labels_from_json, labels_to_json
from reticent.numerics import databases
from reticent.numerics.files import draft_of, remove_drafts, sync_folder
from reticent.numerics.reading import MEGABYTE, json_of

Ints = npt.NDArray[np.int64]
FILE_NAME = "vault.sqlite"
VERSION = 3
APPLICATION = 0x52544E56
SCHEMA = (
    "CREATE TABLE about (body TEXT NOT NULL) STRICT",
    "CREATE TABLE entries "
    "(row INTEGER PRIMARY KEY, head TEXT NOT NULL, key BLOB NOT NULL, width INTEGER NOT NULL, first INTEGER NOT NULL, "
    "labels BLOB NOT NULL, known BLOB NOT NULL, counts BLOB NOT NULL, digests BLOB NOT NULL, digest TEXT NOT NULL) "
    "STRICT",
    "CREATE TABLE sums (id INTEGER PRIMARY KEY, steps BLOB NOT NULL) STRICT",
    "CREATE TABLE waiting "
    "(row INTEGER NOT NULL, rows TEXT NOT NULL, release BLOB NOT NULL, digest TEXT NOT NULL) STRICT",
)
EARLIER = "was written by an earlier version. End its epoch with that one, or begin a new one: reticent vault rotate."
NOT_WHOLE = "is not a whole vault. Try again; if it stays so, begin a new epoch: reticent vault rotate."
_AT_ONCE = 1 << 12  # labels whose sums are written at a time
_SIDE_FILES = ("-journal", "-wal", "-shm")
_MOST_BYTES, _LONGEST_VALUE = 1 << 40, 1000 * MEGABYTE
_STRANGE = (ValueError, LookupError, TypeError, AttributeError)  # of values that a damaged page holds
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, kw_only=True)
class About:
    """What a vault says of itself; nothing of it depends on examples.

    Args:
        vault: Its random name, which the settings of its model repeat.
        ledger: The random name of the model's ledger.
        epoch: The number of the epoch.
        eighths: Of the exponent of its correlated noise.
        horizon: How many tasks it is for.
        model: Where its model was last.
        home: Where it was itself.
        file: The number that the file system gave to the file: another one is a copy.
        seal: What its seal says.
        sealed: When that was written, in nanoseconds, by the file system: nobody can set that time.
        announced: What its seal may say instead, while a commit is under way; empty otherwise.
    """

    vault: str
    ledger: str
    epoch: int
    eighths: int
    horizon: int
    model: str
    home: str = ""
    file: int = 0
    seal: str = ""
    sealed: int = 0
    announced: str = ""


class Waiting(NamedTuple):
    """A release that was committed here and may not have been published: the spends that paid for it, and its bytes."""

    row: int
    rows: list[int]
    release: bytes


class Vault(databases.Connected):
    """The vault of one epoch, open for its one writer.

    Guarantees:
      - An entry and the bytes of its release are committed together, or not at all.
                                                                                 test_a_vault_commits_all_or_nothing
      - What others may read, that is no whole vault, or has another schema is refused.
        test_vaults_that_others_may_read_are_refused, test_vaults_that_are_not_whole_are_refused
      - It shows nothing of what it holds.                                             test_a_vault_shows_nothing
    """

    def __init__(self, connection: sqlite3.Connection, file: Path) -> None:
        super().__init__(connection)
        self._file = file
        self.about = self._read_about()

    def __repr__(self) -> str:
        return "Vault(<sensitive>)"

    # --- making and opening

    @classmethod
    def create(cls, folder: Path, about: About) -> None:
        """Makes a vault in a folder, in place of the one that is there.

        Args:
            folder: Made where it is missing, for its owner alone.
            about: What it is for.
        """
        file, draft = folder / FILE_NAME, draft_of(folder / FILE_NAME)
        with explained(file):
            make_folder(folder)
            remove_drafts(folder)
            try:
                os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                seal = seals.write(folder, seals.new_text())
                about = replace(about, home=str(folder), file=draft.stat().st_ino, seal=seal.text, sealed=seal.written)
                with contextlib.closing(_connect(draft)) as db, databases.transaction(db):
                    for statement in SCHEMA:
                        db.execute(statement)
                    db.execute(f"PRAGMA application_id = {APPLICATION}")
                    db.execute(f"PRAGMA user_version = {VERSION}")
                    db.execute("INSERT INTO about VALUES (?)", (json.dumps(asdict(about)),))
                for ending in _SIDE_FILES:  # of the vault before: SQLite would take them for this one's
                    file.with_name(file.name + ending).unlink(missing_ok=True)
                os.replace(draft, file)
                sync_folder(folder)
            finally:
                for ending in ("", *_SIDE_FILES):
                    with contextlib.suppress(OSError):
                        draft.with_name(draft.name + ending).unlink()

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Opens the vault of a folder; refuses one that is missing, open to others, or not whole."""
        file = folder / FILE_NAME
        with explained(file):
            if not file.is_file():
                raise errors.VaultError(f"No vault at {folder}.")
            refuse_readable(folder)
            refuse_readable(file)
            try:
                databases.refuse_strange(file, most=_MOST_BYTES)
            except errors.InvalidValue as error:
                raise errors.VaultError(str(error)) from error
            db = _connect(file)
            try:
                _refuse_other(db, file)
                return cls(db, file)
            except BaseException:
                db.close()
                raise

    def _read_about(self) -> About:
        try:
            ((body,),) = self._db.execute("SELECT body FROM about LIMIT 2").fetchall()
            found = json_of(body)
            about = About(**{field.name: found[field.name] for field in fields(About)})
            texts = about.vault, about.ledger, about.model, about.home, about.seal, about.announced
            numbers = about.epoch, about.eighths, about.horizon, about.file, about.sealed
            if not all(isinstance(text, str) for text in texts) or not all(type(n) is int and n > 0 for n in numbers):
                raise ValueError("Expected texts and numbers.")
        except _STRANGE as error:
            raise errors.VaultError(f"{self._file} {NOT_WHOLE}") from error
        return about

    @property
    def is_copied(self) -> bool:
        """Whether these are other files than those which were written last: copied, restored, or moved to another disk.

        See `seal`.
        """
        about = self.about
        with explained(self._file):
            found, number = seals.read(self._file.parent), self._file.stat().st_ino
        announced = found is not None and found.text == about.announced != ""
        return number != about.file or (found != (about.seal, about.sealed) and not announced)

    def _seal_anew(self) -> None:
        """Writes another seal, which the transaction that follows is to note.

        It is announced before: whenever the process is killed, the vault knows the seal that it finds.
        """
        text, folder = seals.new_text(), self._file.parent
        with explained(self._file):
            found = seals.read(folder) or (self.about.seal, self.about.sealed)
            about = replace(self.about, file=self._file.stat().st_ino, seal=found[0], sealed=found[1], announced=text)
            with databases.transaction(self._db):
                self._note(about)
            seal = seals.write(folder, text)
        self.about = replace(about, seal=seal.text, sealed=seal.written, announced="")

    def _note(self, about: About) -> None:
        self._db.execute("UPDATE about SET body = ?", (json.dumps(asdict(about)),))
        self.about = about

    # --- entries

    def heads(self) -> dict[int, str]:
        """Returns, for the row of each entry, the hash that the ledger had there."""
        with explained(self._file):
            return {int(row): str(head) for row, head in self._db.execute("SELECT row, head FROM entries ORDER BY row")}

    def entries(self) -> tuple[Entry, ...]:
        """Returns what is kept of each task, in their order."""
        with explained(self._file):
            stored = self._db.execute("SELECT * FROM entries ORDER BY row").fetchall()
            try:
                spelled: dict[bytes, Label] = {}
                return tuple(self._entry(spelled, *columns) for columns in stored)
            except _STRANGE as error:
                raise errors.VaultError(f"{self._file} {NOT_WHOLE}") from error

    def _entry(self, spelled: dict[bytes, Label], *columns: Any) -> Entry:
        """Reads an entry; labels that others have too are read once."""
        row, _, key, width, first, texts, known, counts, digests, digest = columns
        if digest != _digest(columns[:-1]):
            raise ValueError("Expected what was written.")
        mine = texts.split(b"\n")[:-1]
        new = [text for text in mine if text not in spelled]
        fresh = labels_from_json([json_of(text.decode()) for text in new])
        LabelSpace(fresh)  # such as there are in data
        spelled |= zip(new, fresh, strict=True)
        if len(set(mine)) < len(mine):
            raise ValueError("Expected distinct labels.")
        return Entry(
            row=row,
            key=key,
            labels=tuple(spelled[text] for text in mine),
            counts=np.frombuffer(counts, dtype="<i8").astype(np.int64),
            vectors=_Stored(self, first, width, digests),
            width=width,
            known=tuple(map(bool, known)),
        )

    def read_sums(self, ids: Ints, width: int, digests: Sequence[bytes]) -> Ints:
        """Returns the sums with these numbers, in any order; refuses those whose hashes are others."""
        sums = np.empty((len(ids), width), dtype=np.int64)
        order = np.argsort(ids)
        runs = np.split(order, np.flatnonzero(np.diff(ids[order]) != 1) + 1)
        with explained(self._file):
            for run in runs if len(ids) else ():  # neighbours at once
                query = "SELECT steps FROM sums WHERE id BETWEEN ? AND ? ORDER BY id"
                found = self._db.execute(query, (int(ids[run[0]]), int(ids[run[-1]]))).fetchall()
                if [hashlib.sha256(steps).digest() for (steps,) in found] != [digests[at] for at in run]:
                    raise errors.VaultError(f"{self._file} {NOT_WHOLE}")
                sums[run] = np.frombuffer(b"".join(steps for (steps,) in found), dtype="<i8").reshape(-1, width)
        return sums

    def waiting(self) -> Waiting | None:
        """Returns the release that was committed last."""
        with explained(self._file):
            found = self._db.execute("SELECT row, rows, release, digest FROM waiting LIMIT 1").fetchone()
            if found is None:
                return None
            row, rows, release, digest = found
            if digest != _digest((row, rows, release)):
                raise errors.VaultError(f"{self._file} {NOT_WHOLE}")
            return Waiting(row, json.loads(rows), release)

    def commit(self, entry: Entry, head: str | None, rows: Sequence[int], release: bytes) -> bytes:
        """Keeps what a task leaves, with the final bytes of its release, durably, all at once; returns these bytes.

        Args:
            entry: Sensitive.
            head: The hash that the ledger has at the entry's row.
            rows: The spends that paid for the release.
            release: What will be published, and nothing else ever in its place.
        """
        texts = b"".join(json.dumps(label).encode() + b"\n" for label in labels_to_json(entry.labels))
        counts = entry.counts.astype("<i8").tobytes()
        waiting = (entry.row, json.dumps(list(rows)), release)
        self._seal_anew()
        with explained(self._file), databases.transaction(self._db):
            (first,) = self._db.execute("SELECT coalesce(max(id), 0) + 1 FROM sums").fetchone()
            digests = bytearray()
            for start in range(0, len(entry.labels), _AT_ONCE):
                at = np.arange(start, min(start + _AT_ONCE, len(entry.labels)))
                steps = [sums.tobytes() for sums in entry.vectors[at].astype("<i8")]
                digests += b"".join(hashlib.sha256(one).digest() for one in steps)
                self._db.executemany("INSERT INTO sums VALUES (?, ?)", zip((first + at).tolist(), steps, strict=True))
            kept = (entry.row, head, entry.key, entry.width, first, texts, bytes(entry.known), counts, bytes(digests))
            self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*kept, _digest(kept)))
            self._db.execute("DELETE FROM waiting")
            self._db.execute("INSERT INTO waiting VALUES (?, ?, ?, ?)", (*waiting, _digest(waiting)))
            self._note(self.about)
        return release

    def settle(self, model: Path) -> None:
        """Notes where its model and itself are, and which files these are; removes drafts of killed processes."""
        with explained(self._file):
            remove_drafts(self._file.parent)
        before = self.about
        if before.announced or self.is_copied:
            self._seal_anew()
        about = replace(self.about, model=str(model), home=str(self._file.parent))
        if about != before:
            with explained(self._file), databases.transaction(self._db):
                self._note(about)


@dataclass(frozen=True)
class _Stored:
    """Sensitive: the sums of an entry in its open vault, numbered from `first` on; hashes of 32 bytes each."""

    vault: Vault
    first: int
    width: int
    digests: bytes

    def __repr__(self) -> str:
        return "_Stored(<sensitive>)"

    def __getitem__(self, rows: Ints) -> Ints:
        """Reads some of the sums."""
        digests = [self.digests[32 * row : 32 * row + 32] for row in rows.tolist()]
        return self.vault.read_sums(rows + self.first, self.width, digests)


def make_folder(folder: Path) -> None:
    """Makes the folder of a vault, for its owner alone; refuses one that others may read."""
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True)
    refuse_readable(folder)


def refuse_readable(path: Path) -> None:
    """Refuses a file or folder that others than its owner may use, where the system has owners."""
    if os.name == "posix" and path.stat().st_mode & _OTHERS:
        mode = "700" if path.is_dir() else "600"
        raise errors.VaultError(
            f"{path} may be used by others than its owner, and a vault holds exact sums of private examples. Close it: "
            f"chmod {mode} {path}"
        )


def _digest(*rows: tuple[object, ...]) -> str:
    """A hash of rows of a table: what a disk has changed is not taken for sums. It protects from no person."""
    found = hashlib.sha256()
    for row in rows:
        for value in row:
            part = value if isinstance(value, bytes) else repr(value).encode()
            found.update(b"%d:%s" % (len(part), part))
    return found.hexdigest()


def _connect(file: Path) -> sqlite3.Connection:
    target = f"file:{quote(os.fsencode(file.absolute()))}?mode=rw"
    db = sqlite3.connect(target, uri=True, isolation_level=None, timeout=10.0, check_same_thread=False)
    try:
        databases.harden(db, longest=_LONGEST_VALUE)
        db.execute("PRAGMA synchronous = EXTRA")  # also the name of the journal, whose end is the commit
        db.execute("PRAGMA secure_delete = ON")
    except BaseException:
        db.close()
        raise
    return db


def _refuse_other(db: sqlite3.Connection, file: Path) -> None:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION and version > VERSION:
        raise errors.VaultError(f"{file} was written by a newer version. Update reticent.")
    if application == APPLICATION and 0 < version < VERSION:
        raise errors.VaultError(f"{file} {EARLIER}")
    if application != APPLICATION or not databases.has_schema(db, SCHEMA):
        raise errors.VaultError(f"{file} {NOT_WHOLE}")


@contextlib.contextmanager
def explained(file: Path) -> Iterator[None]:
    """Turns errors of the database and of the disk into one sentence each; none quotes what the vault holds."""
    try:
        yield
    except OSError as error:
        sentence = f"{file} cannot be used: {error.strerror}. Check the disk and the permissions."
        raise errors.StorageError(sentence) from error
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise errors.StorageError(f"{file} is locked by another program. Try again when it is done.") from None
        raise errors.StorageError(f"{file} cannot be used now. Check the disk and the permissions.") from None
    except (sqlite3.Error, UnicodeDecodeError, OverflowError):  # also where the disk failed for a moment
        raise errors.VaultError(f"{file} {NOT_WHOLE}") from None
