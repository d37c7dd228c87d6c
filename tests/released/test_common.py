"""What examples have in common: its direction from releases, and features mirrored along it."""

import numpy as np
import numpy.typing as npt
import pytest

from reticent import Budget, ContinualClassifier, Cosine, PublicLabels
from reticent.gate.noise import NoiseSource
from reticent.released.common import common_direction, mirrored

Floats = npt.NDArray[np.float64]
BUDGET = Budget(epsilon=1.0, delta=1e-5)


def unit(values: Floats) -> Floats:
    scaled: Floats = values / np.linalg.norm(values, axis=-1, keepdims=True)
    return scaled


@pytest.mark.parametrize("width", [1, 2, 17, 300])
def test_mirrored_rows_do_not_depend_on_other_rows(width):
    draw = np.random.default_rng(width)
    rows, direction = draw.standard_normal((50, width)).astype(np.float32), unit(draw.standard_normal(width))
    there = mirrored(rows, direction)
    assert np.allclose(there[:, 0], rows @ direction, atol=1e-5)
    assert np.allclose(np.linalg.norm(there, axis=1), np.linalg.norm(rows, axis=1))
    assert np.allclose(mirrored(there, direction), rows, atol=1e-6)
    for i in (0, 7, 49):
        assert mirrored(rows[i : i + 1], direction).tobytes() == there[i : i + 1].tobytes()
        assert mirrored(np.asfortranarray(rows)[i:], direction)[0].tobytes() == there[i].tobytes()


def test_mirrors_leave_what_is_no_number_alone():
    rows = np.array([[np.nan, 1.0], [np.inf, -np.inf], [0.0, 0.0], [3e38, 3e38]])
    out = mirrored(rows, unit(np.array([1.0, 2.0])))
    assert not np.isfinite(out[:2]).any()
    assert out[2].tolist() == [0.0, 0.0]
    assert mirrored(rows, np.array([1.0, 0.0])).tobytes() == rows.tobytes()  # in its place already


def stream(learner: Cosine, space: int, tasks: int = 8, strong: int = 5) -> tuple[ContinualClassifier, Floats, Floats]:
    """Strong classes with a common part at first, and a thin one in every task, of 25 examples."""
    draw, width = np.random.default_rng(2), 200
    common = unit(draw.standard_normal(width))
    own = unit(draw.standard_normal((strong + 1, width)))
    model = ContinualClassifier(
        labels=PublicLabels(range(space)), learner=learner, budget=BUDGET, noise=NoiseSource.seeded(3)
    )
    for t in range(tasks):
        labels = np.repeat(np.arange(strong + 1), [25, *([300] * strong if t == 0 else [0] * strong)])
        x = 0.6 * common + 0.3 * own[labels] + 0.7 * unit(draw.standard_normal((len(labels), width)))
        model.learn_task(x.astype(np.float32), labels.tolist(), name=f"task {t}")
    return model, common, own


def test_thin_classes_of_huge_spaces_are_kept_by_what_examples_have_in_common(monkeypatch):
    model, common, own = stream(Cosine(), 20_000)
    direction = common_direction(model.releases, 200)
    assert direction is not None
    assert direction @ common > 0.8
    blocks = [row for made in model.releases for row in made.parameters["rows"].tolist() if row == 0]
    assert len(blocks) >= 6  # in nearly every task once the direction is known
    assert model.predict((0.6 * common + 0.3 * own[:6]).astype(np.float32)).tolist()[1:] == [1, 2, 3, 4, 5]
    monkeypatch.setattr("reticent.sensitive.learners.cosine.common_direction", lambda releases, width: None)
    monkeypatch.setattr("reticent.released.standing.common_direction", lambda releases, width: None)
    without, *_ = stream(Cosine(), 20_000)
    assert sum(0 in made.parameters["rows"] for made in without.releases) < len(blocks)


def test_sums_are_mirrored_back():
    """Sums of the last task against exact ones: only noise is between them."""
    model, common, _ = stream(Cosine(), 20_000)
    last = model.releases[-1].parameters
    (at,) = np.flatnonzero(last["rows"] == 0)
    sums, noise = last["sums"][at].astype(np.float64), float(last["noise"][at])
    along = sums @ common / noise
    assert along > 25 * 0.5 / noise - 5
    rest = sums - (sums @ common) * common
    assert np.sum(rest**2) / noise**2 < 199 + 6 * np.sqrt(2 * 199) + (25 / noise) ** 2


def test_small_spaces_have_a_centre_and_large_ones_none():
    small, *_ = stream(Cosine(), 1_000, tasks=2, strong=12)
    large, *_ = stream(Cosine(), 3_000, tasks=2, strong=12)
    assert small.releases[1].parameters["centre"].any()
    assert "centre" not in large.releases[1].parameters
