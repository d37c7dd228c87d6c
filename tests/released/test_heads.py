"""Heads as noisy sums: small cases in which the answer is known."""

import numpy as np
import pytest

from reticent import errors
from reticent.released import heads
from reticent.released.heads import BIAS, DECOY, NOISE, ROWS, WEIGHT, of_decoys, pool

WIDTH = 40


def head(rows: list[int], weight: np.ndarray, noise: float = 1.0, decoy: np.ndarray | None = None) -> heads.Head:
    mean = np.zeros(WIDTH) if decoy is None else decoy
    return {
        ROWS: np.array(rows, np.int32),
        WEIGHT: np.asarray(weight, np.float32),
        BIAS: np.ones(len(rows), np.float32),
        NOISE: np.array([noise, noise / 7], np.float32),
        DECOY: mean.astype(np.float32),
    }


def pooled_rows(found: heads.Head, labels: int) -> np.ndarray:
    assert not found[BIAS].any()
    assert found[ROWS].tolist() == list(range(labels))
    return found[WEIGHT].astype(np.float64)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def test_decoys_give_their_noise_and_mean():
    rows = 3.0 * drawn(0, 50, WIDTH) + np.arange(WIDTH)
    found = of_decoys(rows)
    np.testing.assert_allclose(found[DECOY], rows.mean(axis=0), rtol=1e-5)
    spread = rows.std(axis=0, ddof=1)
    np.testing.assert_allclose(found[NOISE], np.array([1, 50**-0.5]) * np.sqrt(np.mean(spread**2)), rtol=1e-5)


def test_noise_heads_do_not_change_a_clear_one():
    clear = 100 * drawn(1, 3, WIDTH)
    others = [head([0, 1, 2], drawn(seed, 3, WIDTH)) for seed in range(2, 9)]
    rows = pooled_rows(pool([*others, head([0, 1, 2], clear)], np.arange(3)), 3)
    for label in range(3):
        assert cosine(rows[label], clear[label]) > 0.999


def test_rows_that_come_back_are_averaged():
    """Of T heads with one signal each, the noise is that of their sum: T times the signal, sqrt(T) times the noise."""
    signal = 6 * np.eye(WIDTH)[:2]
    parts = [head([0, 1], signal + drawn(seed, 2, WIDTH)) for seed in range(16)]
    rows = pooled_rows(pool(parts, np.arange(2)), 2)
    for label in range(2):
        one = [cosine(part[WEIGHT][label], signal[label]) for part in parts]
        assert max(one) < cosine(rows[label], signal[label])
        assert cosine(rows[label], signal[label]) == pytest.approx((1 + WIDTH / (16 * 36)) ** -0.5, abs=0.03)


def test_what_all_rows_have_in_common_is_taken_off():
    """Decoys show what a head thinks of an average input; it tells no label from another."""
    common = 50 * np.eye(WIDTH)[0]
    signal = 30 * np.eye(WIDTH)[1:3]
    parts = [head([0, 1], -common + signal + np.array([[9.0], [0.0]]) * np.eye(WIDTH)[0], decoy=-common)]
    rows = pooled_rows(pool(parts, np.arange(2)), 2)
    assert abs(rows[:, 0]).max() < 0.01 * abs(rows).max()
    assert rows[0, 1] > 0
    assert rows[1, 2] > 0


@pytest.mark.parametrize(("second", "is_kept"), [(0.0, True), (30.0, False)])
def test_the_average_input_of_an_only_label_is_kept(second, is_kept):
    """It is the label itself. As soon as another label shows, it is what they have in common."""
    average = np.eye(WIDTH)[0]
    rows = drawn(8, 4, WIDTH) + np.outer([60.0, second, 0, 0], average) + second * np.eye(4, WIDTH, 1)
    parts = [head([0, 1, 2, 3], rows - 50 * average, decoy=-50 * average)]
    kept = heads.blocks_of_heads(parts, np.arange(4), None).sums[0, 0] @ average
    assert (kept > 50) == is_kept
    assert (abs(kept) < 1) == (not is_kept)


def test_noise_of_decoys_takes_nothing_off():
    signal = 30 * np.eye(WIDTH)[:2]
    decoy = drawn(4, WIDTH) / 7  # as their mean is where inputs have no common part
    rows = pooled_rows(pool([head([0, 1], signal, decoy=decoy)], np.arange(2)), 2)
    assert cosine(rows[0], signal[0] - decoy) > 0.98


def test_heads_of_different_noise_are_whitened():
    signal = 20 * np.eye(WIDTH)[:1]
    quiet, loud = head([0], signal, noise=1.0), head([0], signal + 30 * drawn(5, 1, WIDTH), noise=30.0)
    rows = pooled_rows(pool([quiet, loud], np.arange(1)), 1)
    assert cosine(rows[0], signal[0]) > 0.98
    assert cosine((quiet[WEIGHT] + loud[WEIGHT])[0], signal[0]) < 0.5  # as they would be without


@pytest.mark.parametrize(("strength", "least", "most"), [(60.0, 0.0, 0.01), (4.0, 0.1, 1.0)])
def test_names_weigh_more_the_noisier_a_head(strength, least, most):
    signal, name = np.eye(WIDTH)[:1], np.eye(WIDTH)[1:2]
    parts = [head([0], strength * signal + drawn(7, 1, WIDTH))]
    without = pooled_rows(pool(parts, np.arange(1)), 1)[0]
    with_name = pooled_rows(pool(parts, np.arange(1), (np.array([0]), name.astype(np.float32))), 1)[0]
    share = cosine(with_name, name[0]) - cosine(without, name[0])
    assert least <= share <= most


def test_names_of_labels_without_a_row_are_left_out():
    parts = [head([2], 20 * np.eye(WIDTH)[:1])]
    found = pool(parts, np.array([2]), (np.array([0, 5]), np.eye(WIDTH)[:2].astype(np.float32)))
    np.testing.assert_array_equal(found[WEIGHT], pool(parts, np.array([2]))[WEIGHT])


def test_labels_are_done_in_parts(monkeypatch):
    parts = [head(list(range(0, 20, 1 + t)), drawn(t, len(range(0, 20, 1 + t)), WIDTH)) for t in range(3)]
    whole = pooled_rows(pool(parts, np.arange(20)), 20)
    monkeypatch.setattr(heads, "_CHUNK", 3 * WIDTH * 7)
    np.testing.assert_allclose(pooled_rows(pool(parts, np.arange(20)), 20), whole, rtol=1e-5)


def test_training_without_noise_can_be_pooled():
    signal = np.eye(WIDTH)[:2]
    rows = pooled_rows(pool([head([0, 1], signal, noise=0.0)], np.arange(2)), 2)
    assert np.isfinite(rows).all()
    assert rows.argmax(axis=1).tolist() == [0, 1]


def test_heads_without_decoys_are_refused():
    bare = {name: array for name, array in head([0], np.ones((1, WIDTH))).items() if name != NOISE}
    with pytest.raises(errors.InvalidValue, match="aggregate=argmax"):
        pool([bare], np.arange(1))
