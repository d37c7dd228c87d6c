"""Anchors: a note of a ledger's last row, kept elsewhere, that shows later whether the ledger still continues it.

A hash chain by itself shows edits that do not recompute it. Whoever can write the file can recompute it, cut off its
end, or put the whole folder back from a backup. None of that gets past the latest anchor, kept where they cannot
write. A signature shows that an anchor was not forged; that it is the latest one, it does not show.
"""

import base64
import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from reticent import errors
from reticent.numerics.files import write_whole
from reticent.released.contents import refuse_own
from reticent.released.ledger_file import LedgerFile

_FORMAT = 1
_FIELDS = ("anchor", "identity", "row", "head", "signature")
_MOST_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """The last row of a ledger at some time.

    Guarantees:
      - A ledger that lost or changed a row up to the anchor is refused, also with a recomputed chain, and so is
        another ledger.                                                 test_anchors_show_what_a_chain_does_not
      - A signed anchor cannot be changed without the key.              test_signed_anchors_cannot_be_changed

    Args:
        identity: Of the ledger.
        row: The number of its last row.
        head: The hash of that row, which covers all rows before it.
        signature: Of the three, by Ed25519; None without a key.
    """

    identity: str
    row: int
    head: str
    signature: str | None = None

    @property
    def _signed(self) -> bytes:
        return json.dumps(["reticent anchor", self.identity, self.row, self.head]).encode()

    def signed_by(self, key: str | os.PathLike[str]) -> "Anchor":
        """Returns the anchor with a signature by an Ed25519 private key, as PEM or OpenSSH."""
        formats = serialization.load_ssh_private_key, serialization.load_pem_private_key
        private = _key(key, *(partial(load, password=None) for load in formats))
        if not isinstance(private, Ed25519PrivateKey):
            raise errors.InvalidValue(f"Expected an Ed25519 private key without a passphrase in {key}.")
        signature = base64.b64encode(private.sign(self._signed)).decode()
        return Anchor(identity=self.identity, row=self.row, head=self.head, signature=signature)

    def verify(self, key: str | os.PathLike[str]) -> None:
        """Refuses an anchor that the owner of an Ed25519 public key, as PEM or OpenSSH, did not sign."""
        public = _key(key, serialization.load_ssh_public_key, serialization.load_pem_public_key)
        if not isinstance(public, Ed25519PublicKey):
            raise errors.InvalidValue(f"Expected an Ed25519 public key in {key}.")
        try:
            public.verify(base64.b64decode(self.signature or "", validate=True), self._signed)
        except (InvalidSignature, ValueError) as error:
            raise errors.LedgerError(f"The anchor is not signed by the key in {key}. Do not trust it.") from error


def of(ledger: LedgerFile) -> Anchor:
    """Returns the anchor of a ledger as it is now."""
    account = ledger.account
    return Anchor(identity=account.identity, row=account.rows, head=account.chain)


def check(ledger: LedgerFile, anchor: Anchor) -> None:
    """Refuses a ledger that does not continue an anchor."""
    if ledger.identity != anchor.identity:
        raise errors.LedgerError("This is not the ledger that the anchor was made of.")
    if ledger.head_at(anchor.row) != anchor.head:
        raise errors.LedgerError(
            f"The ledger does not continue the anchor, which knows {anchor.row} row(s) of it: rows were lost or "
            "changed since, or an older copy was put back. Do not learn with it; restore the latest copy."
        )


def write(file: str | os.PathLike[str], anchor: Anchor) -> None:
    """Writes an anchor, in place of the file before."""
    refuse_own(Path(file))
    content = {"anchor": _FORMAT, **vars(anchor)}
    write_whole(Path(file), json.dumps(content, indent=1) + "\n")


def replace(file: str | os.PathLike[str], anchor: Anchor, ledger: LedgerFile) -> None:
    """Writes an anchor of a ledger; one that is there must be continued by it, and a signed one by a signed one."""
    if Path(file).exists():
        before = read(file)
        check(ledger, before)
        if before.signature is not None and anchor.signature is None:
            raise errors.InvalidValue(f"{file} is signed. Replace it with --key, or choose another file.")
    write(file, anchor)


def read(file: str | os.PathLike[str]) -> Anchor:
    """Reads an anchor."""
    path = Path(file)
    try:
        with open(path, "rb") as stream:
            blob = stream.read(_MOST_BYTES)
    except OSError as error:
        raise errors.InvalidValue(f"Cannot read the anchor {path}: {error.strerror}.") from error
    try:
        content = json.loads(blob)
        form, identity, row, head, signature = (content[name] for name in _FIELDS)
        whole = isinstance(identity, str) and isinstance(head, str) and isinstance(row, int) and row > 0
    except (ValueError, LookupError, TypeError, RecursionError):
        form, whole = None, False
    if isinstance(form, int) and form > _FORMAT:
        raise errors.InvalidValue(f"{path} was written by a newer version. Update reticent.")
    if form != _FORMAT or not whole:
        raise errors.InvalidValue(f"{path} is not an anchor of `reticent ledger --anchor`.")
    return Anchor(identity=identity, row=row, head=head, signature=None if signature is None else str(signature))


def _key(file: str | os.PathLike[str], *loaders: Callable[[bytes], object]) -> object:
    """Returns the key in a file, by the first of several formats that can read it; None if none can."""
    try:
        with open(file, "rb") as stream:
            blob = stream.read(_MOST_BYTES)
    except OSError as error:
        raise errors.InvalidValue(f"Cannot read the key {file}: {error.strerror}.") from error
    for load in loaders:
        with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
            return load(blob)
    return None
