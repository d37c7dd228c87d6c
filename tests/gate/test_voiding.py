"""Voiding a row of a folder's ledger: what is removed, what is recorded, and what a failed write leaves."""

import pytest

from reticent import Budget, errors
from reticent.gate import voiding
from reticent.gate.ledger import Ledger
from reticent.privacy import events

GAUSSIAN = events.Gaussian(noise_multiplier=4.0)


def spent(folder, settings=None) -> int:
    with Ledger.create(folder, Budget(epsilon=1.0, delta=1e-5), settings=settings) as ledger:
        return ledger.spend(GAUSSIAN, task="march", private=True)


def reason(folder) -> str | None:
    with Ledger.open(folder) as ledger:
        return ledger.statement().spends[0].voided


def test_rows_of_a_folder_are_voided_with_their_reason(tmp_path, monkeypatch):
    removed = []
    monkeypatch.setattr("reticent.released.store.remove_unlisted", lambda *arguments: removed.append(arguments))
    row = spent(tmp_path / "ledger")
    voiding.void(tmp_path / "ledger", row, reason="a slip")
    assert reason(tmp_path / "ledger") == "a slip"
    assert removed == []  # a ledger by itself knows of no releases
    row = spent(tmp_path / "model", settings={})
    voiding.void(tmp_path / "model", row, reason="another")
    with Ledger.open(tmp_path / "model") as ledger:
        assert removed == [(tmp_path / "model", [], ledger.identity)]


def test_a_failed_write_is_looked_at_again(tmp_path, monkeypatch):
    row = spent(tmp_path)
    void = Ledger.void

    def before(self, row, *, reason):
        raise errors.StorageError("disk full.")

    def after(self, row, *, reason):
        void(self, row, reason=reason)
        raise errors.StorageError("disk full.")

    monkeypatch.setattr(Ledger, "void", before)
    with pytest.raises(errors.StorageError, match=f"Row {row} was not voided"):
        voiding.void(tmp_path, row, reason="a slip")
    assert reason(tmp_path) is None
    with pytest.raises(errors.StorageError, match="Row 99 was not voided"):
        voiding.void(tmp_path, 99, reason="a slip")
    monkeypatch.setattr(Ledger, "void", after)
    voiding.void(tmp_path, row, reason="a slip")  # it was written after all
    assert reason(tmp_path) == "a slip"
