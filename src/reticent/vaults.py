"""What the owner of a vault does with it: look at its public facts, and end its epoch."""

import contextlib
import os
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from reticent import errors
from reticent.directory import Directory
from reticent.gate import epochs
from reticent.gate.vault import Vault
from reticent.memory import STOLEN, Epoch
from reticent.numerics.files import one_writer
from reticent.released.ledger_file import LOOKS, LedgerFile


@dataclass(frozen=True, kw_only=True)
class View:
    """What may be told of a vault: nothing of it depends on examples. The fields are the keys of `vault show --json`.

    Args:
        model: Where its model was when it was last used.
        epoch: The number of its epoch.
        a: The exponent of its correlated noise.
        horizon: How many tasks the epoch may have.
        tasks: How many it has.
        in_step: Whether its model may learn with it as it is.
        problem: Why not, if so.
        stolen: What whoever steals it learns.
    """

    model: str
    epoch: int
    a: str
    horizon: int
    tasks: int
    in_step: bool
    problem: str | None
    stolen: str

    def json(self) -> dict[str, Any]:
        """Returns the view as plain JSON values."""
        return asdict(self)


def view(vault: str | os.PathLike[str], *, model: str | os.PathLike[str] | None = None) -> View:
    """Returns the public facts of a vault.

    Args:
        vault: Its folder.
        model: The model that it belongs to, if that was moved.
    """
    folder = Path(vault)
    with one_writer(folder), Vault.open(folder) as opened:
        about, tasks = opened.about, len(opened.heads())
    home = Path(about.model if model is None else model)
    try:
        with LedgerFile.open(home) as ledger:
            problem = epochs.problem_of(folder, home, ledger)
    except errors.LedgerError as error:
        problem = str(error)
    return View(
        model=str(home),
        epoch=about.epoch,
        a=str(Fraction(about.eighths, 8)),
        horizon=about.horizon,
        tasks=tasks,
        in_step=problem is None,
        problem=problem,
        stolen=STOLEN,
    )


def rotate(vault: str | os.PathLike[str], *, model: str | os.PathLike[str] | None = None) -> Epoch:
    """Ends the epoch of a model's memory and begins the next, with a new vault; what the old one remembers is deleted.

    Nothing is spent, and nothing of labels that are not known yet is carried over. A release that a killed process had
    committed is published before. Where the vault cannot be opened, nobody knows whether it held one: spends without a
    release then count as published, and can never be voided.

    Guarantees:
      - What a lost vault may have held is never voided.
                                                                      test_what_a_lost_vault_may_have_held_is_not_voided
      - A lost vault, one behind the ledger and a saved copy go on in a new epoch.
                                                                            test_rotation_helps_where_a_vault_is_refused
      - The vault of another model or of another copy is never replaced.
        test_vaults_of_others_are_not_replaced, test_a_copied_folder_leaves_the_vault_to_the_original

    Args:
        vault: Its folder, or a new one.
        model: The model that it belongs to, where the vault cannot say.

    Example:
        >>> rotate("no such folder")
        Traceback (most recent call last):
        reticent.errors.InvalidValue: No vault at no such folder that says which model it belongs to. Name the model: \
reticent vault rotate no such folder --model MODEL
    """
    folder = Path(vault)
    directory = Directory.open(_model_of(folder) if model is None else model)
    with directory._one_writer() as ledger:
        directory.vault = epochs.own_vault(folder)
        opened = False
        for _ in range(LOOKS):  # a disk may fail for a moment: only a vault that stays refused is given up
            with contextlib.suppress(errors.VaultError), directory._open_vault(ledger):
                opened = True  # what was committed is published
                break
        epoch = epochs.begin_next(directory.epoch, folder, directory.path, ledger, opened=opened)
        directory.settings = dict(ledger.settings or {})
    return epoch


def _model_of(folder: Path) -> str:
    """Where the vault's model was when it was last used."""
    with contextlib.suppress(errors.LedgerError, errors.InvalidValue), Vault.open(folder) as vault:
        return vault.about.model
    raise errors.InvalidValue(
        f"No vault at {folder} that says which model it belongs to. Name the model: "
        f"reticent vault rotate {folder} --model MODEL"
    )
