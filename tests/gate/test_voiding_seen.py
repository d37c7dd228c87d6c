"""Which rows of memory may be voided: those whose release does not lie in the folder."""

import pytest

from reticent import Budget, errors
from reticent.gate import voiding
from reticent.gate.ledger import Ledger
from reticent.privacy import accounting, events
from reticent.released import store

BUDGET = Budget(epsilon=1.0, delta=1e-5)
ROW = accounting.remembered(BUDGET, epoch=1, horizon=3)
MINE = "this ledger"


def spent(folder, event: events.Event) -> int:
    with Ledger.create(folder, BUDGET, settings={}) as ledger:
        return ledger.spend(event, task="march", private=True)


@pytest.mark.parametrize(
    ("event", "left", "refused"),
    [
        (ROW, [(MINE, "march")], True),
        (ROW, [(MINE, "april"), (MINE, "march"), ("another", "march")], True),
        (ROW, [(MINE, "april")], False),
        (ROW, [("another", "march")], False),
        (ROW, [], False),
        (events.Gaussian(noise_multiplier=4.0), [(MINE, "march")], False),
    ],
)
def test_a_row_of_memory_is_voided_unless_its_release_is_there(tmp_path, monkeypatch, event, left, refused):
    row = spent(tmp_path, event)
    with Ledger.open(tmp_path) as ledger:
        names = {MINE: ledger.identity, "another": "0" * 32}
    found = [store.Unlisted(f"releases/{i}", task, names[owner], True) for i, (owner, task) in enumerate(left)]
    removed = []
    monkeypatch.setattr(store, "unlisted", lambda *_: iter(found))
    monkeypatch.setattr(store, "remove_unlisted", lambda *_: removed.append(1))
    if refused:
        with pytest.raises(errors.LedgerError, match="where it may have been read"):
            voiding.void(tmp_path, row, reason="a slip")
    else:
        voiding.void(tmp_path, row, reason="a slip")
    assert len(removed) == (not refused)
    with Ledger.open(tmp_path) as ledger:
        assert ledger.is_voided(row) == (not refused)


def test_what_is_no_spend_is_not_voided(tmp_path):
    spent(tmp_path, ROW)
    with pytest.raises(errors.LedgerError, match="Row 9 is not a spend of this ledger"):
        voiding.void(tmp_path, 9, reason="a slip")
