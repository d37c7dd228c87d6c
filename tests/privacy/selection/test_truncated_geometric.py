import math

import numpy as np
import pytest

from reticent.privacy import events, selection


def test_truncated_geometric_is_its_noise():
    """An independent oracle: sum the pmf of the truncated noise."""
    event = events.TruncatedGeometric(epsilon=0.3, delta=1e-4)
    k = selection.TruncatedGeometricLaw(event).k
    z = np.arange(-k, k + 1)
    pmf = np.exp(-0.3 * np.abs(z))
    pmf /= pmf.sum()
    sizes = np.arange(0, 2 * k + 3)
    summed = [0.0, *(float(pmf[z > k - n].sum()) for n in sizes[1:])]
    np.testing.assert_allclose(selection.law(event).release_probability(sizes), summed, atol=1e-13)


def test_golden_imagenet_r(golden, shared_data):
    lines = (shared_data / "imagenet_r_train_class_sizes.csv").read_text().split()
    sizes = np.array([int(line.rsplit(",", 1)[1]) for line in lines[1:]])
    assert sizes.sum() == 24_000
    for row in golden["imagenet_r"]:
        event = events.TruncatedGeometric(epsilon=8 * row["share"], delta=1e-5 * row["share"])
        p = selection.law(event).release_probability(sizes)
        assert p.sum() == pytest.approx(row["expected"], abs=0.06), row["source"]
        assert abs(row["paper"] - p.sum()) <= 4 * math.sqrt(float((p * (1 - p)).sum())) + 0.5, row["source"]
