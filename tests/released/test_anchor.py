import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reticent import errors
from reticent.released import anchor
from reticent.released.account import Account
from reticent.released.ledger_file import FILE_NAME, LedgerFile
from tests.stored import X, Y, classifier

Rows = list[tuple[str, str]]


@pytest.fixture
def folder(tmp_path):
    classifier(tmp_path / "model").learn_task(X, Y, name="march").learn_task(X, Y, name="april")
    return tmp_path / "model"


def of(folder: Path) -> anchor.Anchor:
    with LedgerFile.open(folder) as ledger:
        return anchor.of(ledger)


def check(folder: Path, noted: anchor.Anchor) -> None:
    with LedgerFile.open(folder) as ledger:
        anchor.check(ledger, noted)


def recomputed(folder: Path, change: Callable[[Rows], Rows]) -> None:
    """Rewrites the rows of a ledger and recomputes the chain, as somebody can who may write the file."""
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as db, db:
        rows = change(db.execute("SELECT kind, body FROM entries ORDER BY row").fetchall())
        for trigger in ("no_update", "no_delete"):
            db.execute(f"DROP TRIGGER {trigger}")
        db.execute("DELETE FROM entries")
        account = Account()
        for kind, text in rows:
            chain = account.link(kind, text)
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (account.add(kind, text), kind, text, chain))
        for event in ("UPDATE", "DELETE"):
            db.execute(
                f"CREATE TRIGGER no_{event.lower()} BEFORE {event} ON entries BEGIN "
                "SELECT RAISE(ABORT, 'the ledger is append-only'); END"
            )
    db.close()


def other_task(rows: Rows) -> Rows:
    return [(kind, text.replace("march", "august")) for kind, text in rows]


def test_ledgers_continue_their_anchors(folder):
    noted = of(folder)
    check(folder, noted)
    classifier_of = json.loads((folder / "manifest.json").read_text())["identity"]
    assert noted.identity == classifier_of
    with LedgerFile.open(folder) as ledger:
        assert ledger.statement().head == noted.head


@pytest.mark.parametrize("change", [other_task, lambda rows: rows[:-2]], ids=["rewritten", "cut off"])
def test_anchors_show_what_a_chain_does_not(folder, change):
    """The chain is whole after both attacks: only what was noted elsewhere tells."""
    noted = of(folder)
    recomputed(folder, lambda rows: rows)
    check(folder, noted)
    recomputed(folder, change)
    with LedgerFile.open(folder) as ledger, pytest.raises(errors.LedgerError, match="does not continue"):
        anchor.check(ledger, noted)


def test_the_ledger_of_another_model_does_not_continue_an_anchor(folder, tmp_path):
    classifier(tmp_path / "other").learn_task(X, Y, name="march")
    with pytest.raises(errors.LedgerError, match="not the ledger"):
        check(tmp_path / "other", of(folder))


@pytest.fixture(params=["pem", "openssh"])
def keys(request, tmp_path):
    made = Ed25519PrivateKey.generate()
    pem = request.param == "pem"
    private = made.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8 if pem else serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = made.public_key().public_bytes(
        serialization.Encoding.PEM if pem else serialization.Encoding.OpenSSH,
        serialization.PublicFormat.SubjectPublicKeyInfo if pem else serialization.PublicFormat.OpenSSH,
    )
    (tmp_path / "key").write_bytes(private)
    (tmp_path / "key.pub").write_bytes(public)
    return tmp_path / "key", tmp_path / "key.pub"


def test_signed_anchors_cannot_be_changed(folder, keys, tmp_path):
    private, public = keys
    anchor.write(tmp_path / "anchor.json", of(folder).signed_by(private))
    noted = anchor.read(tmp_path / "anchor.json")
    noted.verify(public)
    check(folder, noted)
    changed = json.loads((tmp_path / "anchor.json").read_text())
    for name, value in (("row", 1), ("head", "0" * 64), ("identity", "0" * 32), ("signature", None)):
        (tmp_path / "forged.json").write_text(json.dumps({**changed, name: value}))
        with pytest.raises(errors.LedgerError, match="not signed by"):
            anchor.read(tmp_path / "forged.json").verify(public)
    with pytest.raises(errors.InvalidValue, match="private key"):
        of(folder).signed_by(public)
    with pytest.raises(errors.InvalidValue, match="public key"):
        noted.verify(private)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"anchor": 1}', '{"anchor": 2}', '{"anchor": 1, "row": "x"}', "\xff"]
)
def test_what_is_no_anchor_is_refused(tmp_path, text):
    (tmp_path / "anchor.json").write_text(text, encoding="latin-1")
    with pytest.raises(errors.InvalidValue, match=r"anchor\.json"):
        anchor.read(tmp_path / "anchor.json")
    with pytest.raises(errors.InvalidValue, match="Cannot read the anchor"):
        anchor.read(tmp_path / "missing.json")


def test_anchors_replace_anchors_alone(folder, keys, tmp_path):
    """A mistyped name must not cost a ledger, a file of data or a signature."""
    note = of(folder)
    (tmp_path / "data.csv").write_text("a,b")
    with LedgerFile.open(folder) as ledger:
        for file, sentence in (
            (folder / FILE_NAME, "is not an anchor"),
            (folder / f"{FILE_NAME}-wal", "belongs to a model"),
            (folder / "releases" / "0009.safetensors", "belongs to a model"),
            (tmp_path / "data.csv", "is not an anchor"),
            (tmp_path, "Cannot read the anchor"),
        ):
            with pytest.raises(errors.InvalidValue, match=sentence):
                anchor.replace(file, note, ledger)
        signed = note.signed_by(keys[0])
        anchor.replace(tmp_path / "anchor.json", signed, ledger)
        with pytest.raises(errors.InvalidValue, match="is signed"):
            anchor.replace(tmp_path / "anchor.json", note, ledger)
        anchor.replace(tmp_path / "anchor.json", signed, ledger)
    assert (tmp_path / "data.csv").read_text() == "a,b"
