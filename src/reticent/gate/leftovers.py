"""What a killed process has left of a release: published as it is, or its spend counts for good."""

from collections.abc import Callable, Sequence
from pathlib import Path

from reticent import errors
from reticent.gate import epochs
from reticent.gate.ledger import Ledger
from reticent.gate.vault import Vault
from reticent.numerics.files import is_draft
from reticent.privacy import events
from reticent.privacy.statement import Spend
from reticent.released import store
from reticent.released.release import Release


def settle(
    folder: Path,
    ledger: Ledger,
    vault: Vault | None,
    releases: list[dict[str, str]],
    publish: Callable[..., object],
) -> None:
    """Publishes the release that a killed process has left in vault or folder, and removes what else it left.

    Whoever may read the folder may have read them, so their spends are never voided: where a release is not whole, they
    are recorded as published before it is removed. What it rested on is not known, hence all spends count that have no
    release; those of memory do not: what the vault has not kept was never written.

    Guarantees:
      - Whatever writes next, what could be read of a task is published as it is, or its spend counts for good.
        test_what_may_have_been_read_is_never_voided, test_whatever_follows_a_kill_no_task_is_published_with_other_noise
      - What these spends did not pay for is not published.
                                                test_a_release_that_is_not_what_was_paid_for_is_not_published

    Args:
        folder: The model directory, whose lock is held.
        ledger: Open.
        vault: That of a model with memory, open.
        releases: Those that are listed; `publish` adds to them.
        publish: Gets a release, the rows that paid for it and, as `kept`, its bytes.
    """
    waiting = None if vault is None else epochs.unpublished(vault, ledger)
    if waiting is not None:
        release = store.unpacked(waiting.release, folder / store.RELEASES, ledger.identity)
        publish(release, waiting.rows, kept=waiting.release)
    unsettled = [spend for spend in ledger.account.spends.values() if not spend.is_settled]
    unsettled = [spend for spend in unsettled if not isinstance(spend.event, events.Remembered)]
    left = store.left_behind(folder, releases, ledger.identity)
    if unsettled and left:
        rows = [spend.row for spend in unsettled]
        try:
            release, content = _whole(folder, left, unsettled, ledger.identity)
            publish(release, rows, kept=content)
        except errors.StorageError:
            raise
        except errors.InvalidValue:  # that it is not
            ledger.count_as_published(rows)
    store.remove_unlisted(folder, releases, ledger.identity)


def _whole(folder: Path, left: Sequence[str], unsettled: Sequence[Spend], identity: str) -> tuple[Release, bytes]:
    """Returns the one release that was left, and its bytes; refuses what these spends did not pay for."""
    whole = [name for name in left if not is_draft(Path(name).name)]
    if len(whole) != 1:
        raise errors.InvalidValue(f"Expected one release in {folder} that is not listed.")
    content, release = store.read_unlisted(folder, whole[0], identity)
    if release.event != events.compose(*(spend.event for spend in unsettled if spend.task == release.task)):
        raise errors.InvalidValue(f"{folder / whole[0]} is not what was paid for.")
    return release, content
