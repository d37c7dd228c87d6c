import numpy as np
import pytest

from reticent.released import denoise
from reticent.released.denoise import Blocks


def test_total_is_plain_cosine():
    sums = np.array([[[3.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]])
    assert denoise.total(Blocks(sums, np.ones((2, 2)), 2)).tolist() == [[0.6, 0.8], [0.0, 0.0]]


@pytest.mark.parametrize("shape", ["even", "one task", "pure noise", "few blocks"])
def test_many_tasks_are_combined_like_few(shape, monkeypatch):
    """In time linear in the tasks, with the weights of the full decomposition; of noise alone nearly its energy."""
    draw = np.random.default_rng()
    labels, tasks, width = 6, 90, 40
    amounts = np.full((labels, tasks), 3.0 if shape == "even" else 0.0)
    if shape == "one task":
        amounts[np.arange(labels), draw.integers(0, tasks, labels)] = 60
    whitened = amounts[:, :, None] * draw.normal(size=(labels, 1, width)) / 4 + draw.normal(size=(labels, tasks, width))
    if shape == "few blocks":
        whitened[:, 5:] = 0
    found = denoise.top_eigenvectors(whitened)
    monkeypatch.setattr(denoise, "_FEW_TASKS", tasks)
    exact = denoise.top_eigenvectors(whitened)
    energy, most = (np.square(np.einsum("lt,ltk->lk", u, whitened)).sum(axis=1) for u in (found, exact))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    if shape == "pure noise":
        assert (energy > 0.9 * most).all()
    else:
        np.testing.assert_allclose(energy, most, rtol=1e-4)
        np.testing.assert_allclose(np.abs(np.einsum("lt,lt->l", found, exact)), 1, atol=1e-3)


def test_many_tasks_without_blocks_weigh_nothing():
    assert not denoise.top_eigenvectors(np.zeros((1, 90, 5))).any()


@pytest.mark.parametrize("second", [[], [0.0]])
def test_a_strong_block_against_all_others_is_found(second):
    """The sum of all blocks points away from the strongest one."""
    whitened = np.array([[[10.0, *second], *[[-1.0, *second]] * 90]])
    weights = denoise.top_eigenvectors(whitened)
    assert np.abs(weights[0]) == pytest.approx(np.abs(whitened[0, :, 0]) / np.sqrt(190))
