"""Epochs of memory: whose vault it is, whether it is in step with the ledger, and how the next epoch begins."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

from reticent import errors
from reticent.budget import Budget
from reticent.gate.ledger import Ledger
from reticent.gate.remembered import Entry
from reticent.gate.vault import FILE_NAME, About, Vault, Waiting, explained, make_folder, refuse_readable
from reticent.memory import Epoch, Memory, first_epoch, place_of, remembered
from reticent.numerics.files import one_writer
from reticent.policies import Policy
from reticent.privacy import events
from reticent.released.ledger_file import FILE_NAME as LEDGER
from reticent.released.ledger_file import LedgerFile
from reticent.released.settings import MEMORY, epoch_of

_BEGIN = "Begin a new epoch: reticent vault rotate {vault} --model {model}"


@dataclass(frozen=True)
class Kept:
    """What a model remembers while it learns a task. Sensitive, but for the epoch.

    Args:
        epoch: Its matrix and its number.
        entries: What is left of its tasks so far.
        private: False if noise of any of them came from a seeded source: their rows are published again and again.
    """

    epoch: Epoch
    entries: tuple[Entry, ...]
    private: bool = True

    def __repr__(self) -> str:
        return f"Kept(epoch={self.epoch!r}, <sensitive>)"

    @property
    def place(self) -> int:
        """The place of the next task in its epoch, from 1; tasks that were never published have none."""
        return len(self.entries) + 1

    def refuse_if_full(self) -> None:
        """Refuses a task beyond the horizon."""
        if self.place > self.epoch.horizon:
            raise errors.VaultError(
                f"The epoch has had its {self.epoch.horizon} tasks, and what they cost covers no more. Begin the next "
                "one: reticent vault rotate VAULT"
            )

    def pays_for(self, event: events.Event) -> bool:
        """Returns whether an event is a task of this epoch, with its matrix and a place left."""
        epoch = self.epoch
        return (
            is_of(event, epoch)
            and (event.eighths, event.horizon) == (epoch.eighths, epoch.horizon)
            and self.place <= epoch.horizon
        )


def where(epoch: Epoch, model: Path, given: Path | None) -> Path:
    """Returns the folder of a model's vault, by what the user says or the settings do.

    Args:
        epoch: As the settings have it.
        model: The model's folder.
        given: Where the user says that it is.
    """
    if epoch.vault is None:
        raise errors.VaultError(
            f"{model} is a saved copy, and a vault is never copied: sums of the same persons would be published twice. "
            f"Give it an epoch and a vault of its own: reticent vault rotate NEW_VAULT --model {model}"
        )
    if given is None and epoch.place is None:
        raise errors.VaultError(
            "Where the vault is was not stored, because its path would tell about this machine. Say it: "
            "load(path, vault=...), or --vault."
        )
    stored = _real(model).parent / str(epoch.place).removeprefix("../")
    return _real(stored if given is None else given)


def refuse_overlap(vault: Path, model: Path) -> None:
    """Refuses a vault inside of a model's folder, which may be published, and a model inside of a vault."""
    here, there = _real(vault), _real(model)
    if here.is_relative_to(there) or there.is_relative_to(here):
        raise errors.InvalidValue(
            f"Expected a vault outside of the model's folder, and no model inside of a vault; got {vault} and {model}: "
            "a model may be published, a vault never. Choose another folder."
        )
    with explained(vault):
        inside = any((folder / LEDGER).exists() for folder in (here, *here.parents))
    if inside:
        raise errors.InvalidValue(f"{vault} lies in the folder of a model, which may be published. Choose another one.")


def first(memory: Memory, model: str | os.PathLike[str] | None, policy: Policy, budget: Budget) -> Epoch:
    """Returns the first epoch of a new model; refuses what it cannot remember, and a place that it must not have.

    Args:
        memory: What the user asks for.
        model: The model's folder.
        policy: Where labels come from.
        budget: What one person may lose.
    """
    if model is None:
        raise errors.InvalidValue(
            "Expected a path with memory: a model that ends with its process would leave its vault behind."
        )
    vault = Path(memory.vault)
    refuse_overlap(vault, Path(model))
    with explained(vault):
        if (Path(model) / LEDGER).exists():
            raise errors.InvalidValue(
                f"{model} holds a model already. Continue with load(path), or choose another path."
            )
        if (vault / FILE_NAME).exists():
            raise errors.InvalidValue(
                f"{vault} holds a vault already, of another model perhaps. Choose another folder."
            )
        if vault.exists():
            refuse_readable(vault)
    place = place_of(_real(vault), _real(Path(model)))
    epoch = first_epoch(memory, budget, vault=secrets.token_hex(16), place=place)
    remembered(epoch, policy, budget)  # refuses what no noise can keep before anything is written
    return epoch


def make_vault(vault: Path, epoch: Epoch, model: Path, ledger: str | None) -> Path | None:
    """Makes the vault of an epoch, in place of the one before; returns where it is, if that is not stored."""
    about = About(
        vault=epoch.vault or "",
        ledger=ledger or "",
        epoch=epoch.number,
        eighths=epoch.eighths,
        horizon=epoch.horizon,
        model=str(_real(model)),
    )
    Vault.create(_real(vault), about)
    return _real(vault) if epoch.place is None else None


def begin_next(epoch: Epoch | None, vault: Path, model: Path | None, ledger: Ledger, *, opened: bool) -> Epoch:
    """Records the epoch after this one, then makes its vault, in place of the one before; returns it.

    A crash in between leaves a vault of the epoch before, which is refused: begin once more.

    Args:
        epoch: The one that ends.
        vault: The folder of the next one.
        model: The model's folder.
        ledger: Open.
        opened: Whether the vault before could be opened and has published what it held. Else nobody knows what that
            was, and every spend without a release counts as published: it can never be voided.
    """
    if epoch is None or model is None:
        raise errors.InvalidValue("This model has no memory: it is chosen when a model is made. It needs no vault.")
    refuse_overlap(vault, model)
    with explained(vault):
        make_folder(_real(vault))
    with one_writer(_real(vault)):
        _refuse_vault_of_others(epoch, _real(vault), model, ledger)
        place = place_of(_real(vault), _real(model))
        following = replace(epoch, number=epoch.number + 1, vault=secrets.token_hex(16), place=place)
        ledger.set({**(ledger.settings or {}), MEMORY: following.to_json()})
        unsettled = [row for row, spend in ledger.account.spends.items() if not spend.is_settled]
        if unsettled and not opened:
            ledger.count_as_published(unsettled)
        make_vault(vault, following, model, ledger.identity)
    return following


def _refuse_vault_of_others(epoch: Epoch, vault: Path, model: Path, ledger: Ledger) -> None:
    """Refuses to replace a vault that may be another model's memory."""
    if own_vault(vault) is None:
        return
    try:
        with Vault.open(vault) as found:
            about = found.about
    except errors.VaultError:
        if epoch.vault is not None and epoch.place is not None and where(epoch, model, None) == vault:
            return  # where ours is
        raise errors.VaultError(f"{vault} holds something else. Remove it, or choose another folder.") from None
    if about.ledger != ledger.identity or _is_used_elsewhere(about, model):
        raise errors.VaultError(f"{vault} is the memory of another model, or of another copy. Choose another folder.")


def _is_used_elsewhere(about: About, model: Path) -> bool:
    """Returns whether the model that a vault belongs to still lies in another folder: then this one is its copy."""
    user = Path(about.model)
    with explained(user):
        return _real(user) != _real(model) and (user / LEDGER).exists()


def own_vault(folder: Path) -> Path | None:
    """Returns a folder if there is a vault in it."""
    with explained(folder):
        return folder if (folder / FILE_NAME).exists() else None


@contextlib.contextmanager
def opened(epoch: Epoch, model: Path, ledger: Ledger, given: Path | None) -> Iterator[Vault]:
    """Opens the vault of a model for its one writer; refuses one that is not its own or not in step with the ledger.

    Guarantees:
      - One that holds a task which was voided is refused: it could be published, or be learned again with other noise.
                                                          test_each_vault_that_is_not_in_step_is_refused
      - A vault behind the ledger is refused: its sums would be published again with new noise.
                                                                  test_a_vault_restored_behind_the_ledger_is_refused
      - One that is ahead of it, of another model, or a copy that nobody vouches for is refused.
        test_a_vault_ahead_of_the_ledger_is_refused, test_foreign_vaults_are_refused, test_copied_vaults_are_refused
      - A copy of a model's folder does not get the vault of the original, whoever vouches.
                                                                  test_a_copied_folder_leaves_the_vault_to_the_original

    Args:
        epoch: As the settings have it.
        model: The model's folder.
        ledger: Open, with all of its rows read.
        given: Where the user says that the vault is. Another place than before is their word that it was moved and is
            used nowhere else.
    """
    folder = where(epoch, model, given)
    refuse_overlap(folder, model)
    begin = _BEGIN.format(vault=folder, model=model)
    with explained(folder):
        if not (folder / FILE_NAME).exists():
            raise errors.VaultError(
                f"No vault at {folder}. If it was moved, say where to: load(path, vault=...), or --vault. If it is "
                f"lost, do not restore an older one. {begin}"
            )
    with one_writer(folder), Vault.open(folder) as vault:
        _refuse_foreign(vault, epoch, ledger, folder, begin, model)
        _refuse_out_of_step(vault, epoch, ledger, begin)
        _refuse_copied(vault, folder, begin, named=given is not None)
        vault.settle(_real(model))
        place = place_of(folder, _real(model))
        if place != epoch.place:
            ledger.set({**(ledger.settings or {}), MEMORY: replace(epoch, place=place).to_json()})
        yield vault


def kept(vault: Vault, epoch: Epoch, ledger: Ledger) -> Kept:
    """Returns what a vault has kept."""
    entries = vault.entries()
    return Kept(epoch, entries, private=all(ledger.is_private(entry.row) for entry in entries))


def unpublished(vault: Vault, ledger: Ledger) -> Waiting | None:
    """Returns the release that a killed process had committed to the vault, if it was not published."""
    waiting = vault.waiting()
    return None if waiting is None or ledger.account.spends[waiting.row].published else waiting


def problem_of(folder: Path, model: Path, ledger: LedgerFile) -> str | None:
    """Returns why a model could not learn with a vault; None if it could."""
    epoch = None if ledger.settings is None else epoch_of(ledger.settings)
    if epoch is None:
        return f"{model} has no memory."
    begin = _BEGIN.format(vault=folder, model=model)
    with one_writer(folder), Vault.open(folder) as vault:
        try:
            _refuse_foreign(vault, epoch, ledger, folder, begin, model)
            _refuse_out_of_step(vault, epoch, ledger, begin)
            _refuse_copied(vault, folder, begin, named=False)
            Kept(epoch, vault.entries()).refuse_if_full()
        except errors.VaultError as error:
            return str(error)
    return None


def _refuse_foreign(vault: Vault, epoch: Epoch, ledger: LedgerFile, folder: Path, begin: str, model: Path) -> None:
    about = vault.about
    found = (about.vault, about.ledger, about.epoch, about.eighths, about.horizon)
    if found != (epoch.vault, ledger.identity, epoch.number, epoch.eighths, epoch.horizon):
        raise errors.VaultError(
            f"The vault at {folder} belongs to another model, or to an earlier epoch of this one. Name the right one "
            f"with --vault. If it is lost: {begin}"
        )
    if _is_used_elsewhere(about, model):
        raise errors.VaultError(
            f"The vault at {folder} is that of {about.model}, of which this model is a copy; both would publish "
            "sums of the same persons. Learn with one of them, or give this one a vault of its own: "
            f"reticent vault rotate NEW_VAULT --model {model}"
        )


def _refuse_out_of_step(vault: Vault, epoch: Epoch, ledger: LedgerFile, begin: str) -> None:
    spends, heads, waiting = ledger.account.spends, vault.heads(), vault.waiting()
    mine = {row for row, spend in spends.items() if is_of(spend.event, epoch)}
    if any(row not in mine or ledger.head_at(row) != head for row, head in heads.items()):
        raise errors.VaultError(
            "The vault knows a task that the ledger does not: the model was restored, or a copy of it has learned with "
            f"this vault. Go on with the latest model, and with one copy only. Else: {begin}"
        )
    if any(spends[row].published and row not in heads for row in mine):
        raise errors.VaultError(
            "The vault is behind the ledger: an older one was restored. It would publish sums of the same persons "
            f"again, with new noise. {begin}"
        )
    if any(spends[row].voided is not None for row in heads):
        raise errors.VaultError(f"The vault holds the release of a task that the ledger has voided. {begin}")
    open_rows = [row for row in heads if not spends[row].published]
    if open_rows and (waiting is None or open_rows != [waiting.row]):
        raise errors.VaultError(f"The vault has lost a release that was not published. {begin}")


def _refuse_copied(vault: Vault, folder: Path, begin: str, *, named: bool) -> None:
    if vault.is_copied and not (named and str(folder) != vault.about.home):
        raise errors.VaultError(
            f"The vault at {folder} is not the file that was written last: it was copied, restored or moved to another "
            "disk. If it was moved and no copy of it is in use, give it another name and say so with --vault. If in "
            f"doubt: {begin}"
        )


def is_of(event: events.Event, epoch: Epoch) -> TypeGuard[events.Remembered]:
    """Returns whether a spend is on a task of an epoch."""
    return isinstance(event, events.Remembered) and event.epoch == epoch.number


def _real(path: Path) -> Path:
    """The folder itself, wherever a link to it lies."""
    return Path(os.path.realpath(path))
