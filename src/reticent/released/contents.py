"""Reads the manifest and the ledger of a model directory, and checks that they belong together."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from reticent import errors, names, stored_policies
from reticent.budget import Budget
from reticent.memory import Epoch
from reticent.numerics import files
from reticent.policies import Policy
from reticent.privacy import events
from reticent.privacy.statement import Spend
from reticent.released import settings, store
from reticent.released.account import Account
from reticent.released.card import CARD
from reticent.released.ledger_file import FILE_NAME, LOOKS, LedgerFile
from reticent.released.model import Rule

AnyLedger = TypeVar("AnyLedger", bound=LedgerFile)

A_COPY = (
    "This is a copy of a model: it predicts, and without a ledger it neither learns nor says what was spent. Use the "
    "model that it was copied from, or load(path)."
)
"""The refusal of a copy in memory."""


@dataclass(frozen=True)
class Contents:
    """What a folder holds: settings, releases, and the reason where nothing may be learned.

    Args:
        settings: As the ledger has them last, or the manifest where there is no ledger.
        releases: File and digest of each release.
        identity: Of the ledger.
        problem: Why nothing may be learned.
        head: Row and hash that the ledger had reached when the manifest was written, if it says so.
        ledger: Whether the ledger belongs to these releases.
        account: What the rows of the ledger add up to, verified.
    """

    settings: dict[str, Any]
    releases: list[dict[str, str]]
    identity: str
    problem: str | None = None
    head: tuple[int, str] | None = None
    ledger: bool = True
    account: Account | None = None


def read_contents(folder: Path) -> Contents:
    """Reads manifest and ledger of a model directory, and says whether they agree."""
    with store.readable(folder):
        found = _look(folder)
        for _ in range(LOOKS - 1):
            if not found.ledger:  # a writer may have gone on between the file read first and the file read last
                time.sleep(0.05)
                found = _look(folder)
        return found


def _look(folder: Path) -> Contents:
    content = _manifest(folder)
    with store.readable(folder / store.MANIFEST):
        releases, identity = content["releases"], content["identity"]
        if not settings.are_entries(releases) or not settings.is_identity(identity):
            raise errors.InvalidValue(f"{folder} names a file outside of it, or none. Restore it from a backup.")
        stored = Contents(settings.checked(content), releases, identity, head=_reached(content))
    # read before the ledger: what is in the folder by now was paid for before, whatever writers do meanwhile
    found = tuple(store.unlisted(folder, releases))
    if not (folder / FILE_NAME).is_file():
        lost = (
            f"{folder} has no ledger ({FILE_NAME}): what was spent on it is unknown. It can predict, but not "
            "learn. Restore the ledger from a backup."
        )
        return replace(stored, problem=lost, ledger=False)
    try:
        with LedgerFile.open(folder) as ledger:
            if not _belongs(ledger, stored, found):
                return replace(stored, problem=foreign(folder), ledger=False)
            # more may have been published since the manifest was written
            with store.readable(folder / FILE_NAME):
                last = settings.checked(ledger.settings or stored.settings)
            return Contents(last, ledger.releases, ledger.identity, account=ledger.account)
    except errors.LedgerError as error:
        return replace(stored, problem=str(error), ledger=False)


def _reached(content: Mapping[str, Any]) -> tuple[int, str] | None:
    """Returns row and hash that the ledger had when a manifest was written, if it says so."""
    head = content.get("head")
    return None if head is None else (int(head["row"]), str(head["hash"]))


def _belongs(ledger: LedgerFile, stored: Contents, found: Sequence[store.Unlisted]) -> bool:
    """Whether a ledger is that of the manifest, and knows of every release in the folder that the manifest lacks."""
    if ledger.identity != stored.identity or ledger.releases[: len(stored.releases)] != stored.releases:
        return False
    if stored.head is not None and ledger.head_at(stored.head[0]) != stored.head[1]:  # an older copy
        return False
    published, paid = {entry["file"] for entry in ledger.releases}, ledger.account.by_task
    return all(  # else written by a process that was killed, or listed elsewhere
        release.ledger == ledger.identity and (release.task in paid or release.is_public)
        for release in found
        if release.file not in published
    )


def open_ledger(kind: type[AnyLedger], folder: Path, known: Account | None, identity: str) -> AnyLedger:
    """Opens the ledger of a folder, if it belongs to the releases there.

    Guarantees:
      - One that went back behind its manifest is refused, also by a process that has not read the rows that are gone.
                                                            test_a_ledger_that_went_back_is_noticed_by_an_idle_process

    Args:
        kind: For reading, or for writing.
        folder: The model directory.
        known: What was verified of it before, and is not read again.
        identity: Of the ledger that was found first.
    """
    if known is not None:
        reached = None
        with contextlib.suppress(errors.InvalidValue), store.readable(folder / store.MANIFEST):
            reached = _reached(store.read_manifest(folder))  # before the ledger, which others may write to meanwhile
        try:
            ledger = kind.open(folder, known)
            if reached is None or ledger.head_at(reached[0]) == reached[1]:
                return ledger
            ledger.close()
        except errors.LedgerError as error:  # explained below
            if isinstance(error, errors.StorageError):
                raise
    found = read_contents(folder)
    if found.problem is not None and (kind is not LedgerFile or not found.ledger):
        raise errors.LedgerError(found.problem)
    if known is not None or found.identity != identity:
        raise errors.LedgerError(foreign(folder))
    return kind.open(folder, found.account)


def refuse_foreign(folder: Path) -> None:
    """Refuses a ledger that lies beside releases to which it does not belong."""
    with store.readable(folder):
        is_model = (folder / store.MANIFEST).exists() or (folder / store.RELEASES).is_dir()
    if is_model:
        found = read_contents(folder)
        if not found.ledger:
            raise errors.LedgerError(found.problem or foreign(folder))


def refuse_own(file: Path) -> None:
    """Refuses to write anything else in place of a file of a model directory."""
    folder = file.absolute().parent
    own_names = (FILE_NAME, store.MANIFEST, store.LABELS, files.LOCK, CARD)
    own = file.name.startswith(own_names) and (folder / FILE_NAME).exists()
    if own or (folder.name == store.RELEASES and (folder.parent / FILE_NAME).exists()):
        raise errors.InvalidValue(f"{file} belongs to a model. Choose another file.")
    if file.is_dir():
        raise errors.InvalidValue(f"{file} is a folder. Choose a file.")


def _manifest(folder: Path) -> dict[str, Any]:
    """Returns the manifest, or what the ledger says where a crash left none."""
    if (folder / store.MANIFEST).exists() or not (folder / FILE_NAME).is_file():
        return store.read_manifest(folder)
    with LedgerFile.open(folder) as ledger:
        if ledger.settings is None:
            return store.read_manifest(folder)  # which says that there is no model
        return {**ledger.settings, "identity": ledger.identity, "releases": ledger.releases}


@contextlib.contextmanager
def new_folder(folder: Path, *, copy: bool = False) -> Iterator[Path]:
    """Makes a folder for a new model, for one writer; refuses one that holds a model or a ledger.

    Args:
        folder: May be there, without a model in it.
        copy: Whether releases are copied to it: those of a copy that was killed are then written over.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.StorageError(f"Cannot make {folder}: {error.strerror}.") from error
    with files.one_writer(folder):
        try:
            with store.readable(folder):
                if any((folder / name).exists() for name in (store.MANIFEST, FILE_NAME)):
                    raise errors.InvalidValue(
                        f"{folder} holds a model already. Continue with load(path), or choose another path."
                    )
                if not copy and (folder / store.RELEASES).exists():
                    raise errors.InvalidValue(
                        f"{folder} holds releases without a ledger, like a killed copy. Remove it, or choose another."
                    )
                files.remove_drafts(folder)
            yield folder
        except errors.StorageError as error:
            made = os.path.exists(folder / FILE_NAME)  # the last file that matters
            there = "The model is there all the same: load(path)." if made else "No model was made. Try again."
            raise errors.StorageError(f"{error} {there}") from error


def what_was_spent(folder: Path, before: tuple[int, int] | None) -> str:
    """Says what a writer has left that could not go on, as the ledger has it.

    Args:
        folder: The model directory.
        before: How many rows and releases there were when it started; None if it did not come so far.
    """
    if before is None:
        return "Nothing was spent."
    rows, releases = before
    try:
        with LedgerFile.open(folder) as ledger:
            mine = [spend for spend in ledger.statement().spends if spend.row > rows]
            published = len(ledger.releases) > releases or any(spend.published for spend in mine)
            lost = [spend for spend in mine if not spend.is_settled]
            kept = any(isinstance(spend.event, events.Remembered) for spend in lost)
            kept = kept or bool(store.left_behind(folder, ledger.releases, ledger.identity))
    except (errors.LedgerError, errors.InvalidValue):
        return f"Whether anything was spent cannot be read now: look with reticent ledger {folder} before you go on."
    if published:
        return "It is published all the same: there is nothing to do again."
    if lost and kept:
        return (
            f"Row {lost[0].row} is spent, and its release may be written. Learn the task again: it is published as it "
            "is, or the refusal says what to do."
        )
    if lost:
        return (
            f"Row {lost[0].row} is spent and nothing of it was published. Void it, then try again: "
            f"reticent ledger {folder} --void {lost[0].row} --reason TEXT."
        )
    return "Nothing was spent."


def foreign(folder: Path | None) -> str:
    """Returns the refusal of a ledger that does not belong to the releases."""
    return (
        f"The ledger of {folder} does not belong to its releases: it is another model's, or an older copy. The model "
        "can predict, but not learn. Restore ledger and releases from one backup."
    )


def described(
    policy: Policy,
    rule: Rule,
    budget: Budget,
    *,
    learner: Mapping[str, Any] | None = None,
    encoder: Mapping[str, Any] | None = None,
    epoch: Epoch | None = None,
) -> dict[str, Any]:
    """Returns what a manifest says of a model, as plain JSON values."""
    return settings.to_store(
        {
            "budget": budget.to_json(),
            "policy": stored_policies.to_json(policy, budget, horizon=None if epoch is None else epoch.horizon),
            "rule": rule.to_json(),
            "learner": learner,
            "encoder": encoder,
            **({} if epoch is None else {settings.MEMORY: epoch.to_json()}),
        }
    )


def refuse_second_time(spends: Sequence[Spend], task: str) -> None:
    """Refuses a task name that is in the ledger already, and says what to do.

    Args:
        spends: Those of tasks of nearly this name that are not voided.
        task: The name.
    """
    spent = [spend for spend in spends if names.normal(spend.task) == task]  # an old ledger may have blanks
    if not spent:
        return
    found = f"Task {task!r} is in the ledger already (row {spent[0].row}). If these are data of other persons, give"
    if all(spend.published for spend in spent):
        raise errors.BudgetExceeded(f"{found} them another name.")
    lost = next(spend.row for spend in spent if not spend.published)
    raise errors.BudgetExceeded(
        f"{found} them another name; if its release was never published, void the row: "
        f"reticent ledger DIR --void {lost} --reason TEXT."
    )
