import numpy as np
import pytest

from reticent.released import denoise
from reticent.released.denoise import Blocks


def blocks(sums: np.ndarray, sigma: float, space: int | None = None) -> Blocks:
    noise = np.full(sums.shape[:2], sigma)
    return Blocks(sums, noise, len(sums) if space is None else space)


def test_total_is_plain_cosine():
    sums = np.array([[[3.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]])
    assert denoise.total(blocks(sums, 1.0)).tolist() == [[0.6, 0.8], [0.0, 0.0]]


def test_rank_one_finds_the_direction():
    """Half of the tasks hold the class, the others noise only: closer to the truth than the sum of all."""
    draw = np.random.default_rng()
    width, tasks, labels = 200, 10, 40
    mu = draw.normal(size=(labels, width))
    mu /= np.linalg.norm(mu, axis=1, keepdims=True)
    amounts = np.zeros((labels, tasks))
    amounts[:, :2] = 60
    sums = amounts[:, :, None] * mu[:, None, :] + draw.normal(0, 4, (labels, tasks, width))

    def cosine(found: np.ndarray) -> float:
        return float(np.mean(np.sum(found * mu, axis=1) / np.linalg.norm(found, axis=1)))

    ours, paper = denoise.rank_one(blocks(sums, 4.0)), denoise.total(blocks(sums, 4.0))
    assert cosine(ours) > cosine(paper) + 0.1


def test_debiased_norms_let_noisy_classes_win():
    """One class with a tenth of the examples of the other: at its own direction it must win all the same."""
    draw = np.random.default_rng()
    width = 300
    sums = draw.normal(0, 2, (2, 1, width))
    sums[0, 0, 0] += 400
    sums[1, 0, 1] += 45
    weights = denoise.rank_one(blocks(sums, 2.0))
    lengths = weights[[0, 1], [0, 1]]
    assert lengths[1] == pytest.approx(lengths[0], rel=0.25)
    plain = denoise.total(blocks(sums, 2.0))[[0, 1], [0, 1]]
    assert plain[1] < plain[0] * 0.9


def test_missing_blocks_are_no_evidence():
    draw = np.random.default_rng()
    sums = draw.normal(0, 1, (5, 3, 50))
    sums[:, 0, 0] += 80
    full = denoise.rank_one(Blocks(sums[:, :1], np.ones((5, 1)), 5))
    padded = sums.copy()
    padded[:, 1:] = 0
    noise = np.ones((5, 3))
    noise[:, 1:] = np.inf
    np.testing.assert_allclose(denoise.rank_one(Blocks(padded, noise, 5)), full, atol=1e-9)


@pytest.mark.parametrize("tasks", [1, 2, 10])
def test_noise_tail_is_calibrated(tasks):
    """On pure noise the tail probability is uniform for one task, and at most twice too large for several."""
    draw = np.random.default_rng()
    width, labels = 128, 20_000
    noise = draw.normal(size=(labels, tasks, width)).astype(np.float32)
    top = np.linalg.eigvalsh(np.einsum("ltk,lsk->lts", noise, noise))[:, -1]
    p = denoise.noise_tail(top, np.full(labels, tasks), width)
    for level in (0.5, 0.1):
        assert level * (0.9 if tasks == 1 else 0.45) < np.mean(p < level) < level * 1.1


def test_guard_follows_the_label_space():
    """A thousand empty labels: hardly any may win; a few weak classes and none empty: all may."""
    draw = np.random.default_rng()
    width = 128
    real = draw.normal(size=(50, 1, width))
    real[:, 0, 0] += 40
    empty = draw.normal(size=(1000, 1, width))
    weights = denoise.rank_one(blocks(np.concatenate([real, empty]), 1.0))
    alive = np.any(weights != 0, axis=1)
    assert alive[:50].all()
    assert alive[50:].sum() < 100
    weak = draw.normal(size=(50, 1, width))
    weak[:, 0, 0] += 12
    assert np.any(denoise.rank_one(blocks(weak, 1.0)) != 0, axis=1).all()


@pytest.mark.parametrize("shape", ["even", "one task", "pure noise", "no blocks"])
def test_many_tasks_are_combined_like_few(shape, monkeypatch):
    """In time linear in the tasks, with the result of the full decomposition."""
    draw = np.random.default_rng()
    labels, tasks, width = 6, 90, 40
    amounts = np.full((labels, tasks), 3.0 if shape == "even" else 0.0)
    if shape == "one task":
        amounts[np.arange(labels), draw.integers(0, tasks, labels)] = 60
    sums = amounts[:, :, None] * draw.normal(size=(labels, 1, width)) + draw.normal(0, 4, (labels, tasks, width))
    noise = np.full((labels, tasks), 4.0)
    if shape == "no blocks":
        sums[:, 5:], noise[:, 5:] = 0, np.inf
        sums[0], noise[0] = 0, np.inf
    found = denoise.rank_one(Blocks(sums, noise, labels))
    monkeypatch.setattr(denoise, "_FEW_TASKS", tasks)
    assert np.allclose(found, denoise.rank_one(Blocks(sums, noise, labels)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("second", [[], [0.0]])
def test_a_strong_block_against_all_others_is_found(second):
    """The sum of all blocks points away from the strongest one."""
    whitened = np.array([[[10.0, *second], *[[-1.0, *second]] * 90]])
    found, weights = denoise.top_eigenvectors(whitened)
    assert found == pytest.approx([100 + 90])
    assert np.abs(weights[0]) == pytest.approx(np.abs(whitened[0, :, 0]) / np.sqrt(190))


def test_chunks_of_labels_change_nothing(monkeypatch):
    given = blocks(np.random.default_rng().normal(size=(7, 70, 5)), 1.0)
    whole = denoise.rank_one(given)
    monkeypatch.setattr(denoise, "_CHUNK", 2 * 70 * 5)
    assert np.allclose(denoise.rank_one(given), whole)
