"""High precision is for the few draws that need it: a draw settled so takes a thousand times as long."""

from reticent.gate.noise import NoiseSource


def test_hardly_any_gap_is_settled_in_high_precision(monkeypatch):
    settled = []
    gap = NoiseSource._gap

    def count(self, bits, chance):
        settled.append(bits)
        return gap(self, bits, chance)

    monkeypatch.setattr(NoiseSource, "_gap", count)
    found = NoiseSource.from_os().successes(200_000, lambda mp: mp.mpf(1) / 10)
    assert len(found) > 18_000
    assert len(settled) <= 1  # the chance of one is below 1e-9


def test_hardly_any_gaussian_is_settled_in_high_precision(monkeypatch):
    settled = []
    settle = NoiseSource._settle

    def count(self, bits, sigma):
        settled.append(bits)
        return settle(self, bits, sigma)

    monkeypatch.setattr(NoiseSource, "_settle", count)
    NoiseSource.from_os().rounded_gaussian(2.0**20, 200_000)
    assert len(settled) <= 5  # one in ten million is expected
