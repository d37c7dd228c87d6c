"""The verb for the ledger of a model."""

import json
from pathlib import Path
from typing import Annotated

import typer

from reticent import errors
from reticent.cli.options import AsJson


def ledger(
    folder: Annotated[Path, typer.Argument(help="A model directory, or any folder with a ledger.sqlite.")],
    void: Annotated[int | None, typer.Option(help="Void a spend whose release was never published.")] = None,
    reason: Annotated[str, typer.Option(help="Why: recorded beside the row.")] = "",
    vault: Annotated[
        Path | None, typer.Option(help="With --void: where the vault of a model with memory is, if it was moved.")
    ] = None,
    check: Annotated[Path | None, typer.Option(help="Refuse a ledger that does not continue this anchor.")] = None,
    anchor: Annotated[
        Path | None, typer.Option(help="Write an anchor: a note of the last row, kept elsewhere.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Ed25519 key: public to verify --check, private to sign --anchor.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A folder for privacy_statement.txt and privacy_statement.json."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the privacy statement: what was spent, on what, under which assumptions.

    Example: `reticent ledger model/`
    """
    from reticent.released import anchor as anchors
    from reticent.released.contents import refuse_foreign
    from reticent.released.ledger_file import LedgerFile

    if void is None and (reason or vault is not None):
        raise errors.InvalidValue("Expected --void ROW with --reason or --vault.")
    if key is not None and (check is None) == (anchor is None):
        raise errors.InvalidValue("Expected --key with either --check or --anchor.")
    refuse_foreign(folder)
    if check is not None:
        noted = anchors.read(check)
        if key is not None:
            noted.verify(key)
        elif noted.signature is not None:
            typer.echo("The signature of the anchor was not verified: give the public key with --key.", err=True)
        with LedgerFile.open(folder) as book:
            anchors.check(book, noted)
    if void is not None:
        from reticent.gate import voiding

        voiding.void(folder, void, reason=reason, vault=vault)
    with LedgerFile.open(folder) as book:
        if anchor is not None:
            note = anchors.of(book)
            anchors.replace(anchor, note if key is None else note.signed_by(key), book)
        statement = book.statement()
    if output is not None:
        from reticent.report import statement_files

        statement_files.write(output, statement)
    typer.echo(json.dumps(statement.json(), indent=2) if as_json else statement.text())


def anchored(folder: Path, file: Path) -> None:
    """Refuses a ledger that does not continue the anchor, and writes it anew; only a new ledger may have none."""
    from reticent.released import anchor as anchors
    from reticent.released.ledger_file import LedgerFile

    with LedgerFile.open(folder) as book:
        if not file.exists() and book.account.spends:
            raise errors.InvalidValue(
                f"No anchor at {file}, and the ledger has spends already. Make one first: reticent ledger {folder} "
                f"--anchor {file}"
            )
        anchors.replace(file, anchors.of(book), book)
