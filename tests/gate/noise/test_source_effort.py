"""High precision is for the few draws that need it: a draw settled so takes a thousand times as long."""

from typing import Any

import pytest

from reticent.gate.noise import NoiseSource


def counted(patch: pytest.MonkeyPatch, method: str) -> list[Any]:
    """Returns a list that grows with every call of a method of noise sources."""
    calls: list[Any] = []
    called = getattr(NoiseSource, method)

    def count(self: NoiseSource, *arguments: Any) -> Any:
        calls.append(arguments)
        return called(self, *arguments)

    patch.setattr(NoiseSource, method, count)
    return calls


def test_hardly_any_gap_is_settled_in_high_precision(monkeypatch):
    settled = counted(monkeypatch, "_gap")
    found = NoiseSource.from_os().successes(200_000, lambda mp: mp.mpf(1) / 10)
    assert len(found) > 18_000
    assert len(settled) <= 1  # the chance of one is below 1e-9


def test_hardly_any_gaussian_is_settled_in_high_precision(monkeypatch):
    settled = counted(monkeypatch, "_settle")
    NoiseSource.from_os().rounded_gaussian(2.0**20, 200_000)
    assert len(settled) <= 5  # one in ten million is expected
