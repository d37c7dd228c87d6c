"""Verbs for the vault of a model with memory: vault show, vault rotate."""

import json
from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.options import AsJson, tell

Vault = Annotated[Path, typer.Argument(help="The folder of the vault.")]
Owner = Annotated[Path | None, typer.Option(help="The model that it belongs to, where the vault cannot say.")]


def show(vault: Vault, model: Owner = None, as_json: AsJson = False) -> None:
    """Show the public facts of a vault: nothing that depends on examples.

    Exits with 0 also where its model could not learn with it; `in step` says so.

    Example: `reticent vault show vault/`
    """
    from reticent import vaults

    seen = vaults.view(vault, model=model)
    if as_json:
        typer.echo(json.dumps(seen.json(), indent=2))
        return
    tell(f"Vault of the model in {seen.model}")
    tell(f"Epoch {seen.epoch}: {seen.tasks} of at most {seen.horizon} tasks, a = {seen.a}")
    tell(f"In step with the ledger: {'yes' if seen.in_step else 'no'}")
    if seen.problem is not None:
        tell(seen.problem)
    tell(seen.stolen)


def rotate(vault: Vault, model: Owner = None, as_json: AsJson = False) -> None:
    """End the epoch of a model's memory and begin the next one with a new vault. Nothing is spent.

    What the vault in this folder remembers is deleted: labels that are not known yet start anew, and noise of later
    tasks no longer cancels that of earlier ones. Releases and known labels stay.

    Example: `reticent vault rotate vault/`
    """
    from reticent import vaults

    epoch = vaults.rotate(vault, model=model)
    if as_json:
        typer.echo(json.dumps({"epoch": epoch.number, "horizon": epoch.horizon}, indent=2))
        return
    tell(f"Epoch {epoch.number} begins, for at most {epoch.horizon} tasks, with a new vault in {vault}.")
    tell("A vault of the epoch before that lies elsewhere is of no use any more: delete it.")
