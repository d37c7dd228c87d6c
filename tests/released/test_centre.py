"""The centre: what examples have in common, from names and earlier releases alone."""

import numpy as np
import pytest

import reticent as rt
from reticent.labels import LabelSpace
from reticent.privacy.events import Public
from reticent.released.centre import centre_of, centred, next_centre
from reticent.released.release import Release

WIDTH = 64
NAMES = [f"label {letter}" for letter in "abcdefghijkl"]


def release(sums: np.ndarray, noise: float, centre: np.ndarray | None = None) -> Release:
    parameters = {
        "rows": np.arange(len(sums), dtype=np.int32),
        "sums": sums.astype(np.float32),
        "noise": np.full(len(sums), noise, np.float32),
    }
    if centre is not None:
        parameters["centre"] = centre.astype(np.float32)
    return Release(task="t", labels=LabelSpace(()), parameters=parameters, event=Public(), private=True)


def examples(draw: np.random.Generator, mean: np.ndarray, labels: int) -> np.ndarray:
    """Unit features of shape (labels, n, width) around directions that share a mean."""
    directions = draw.normal(size=(labels, 1, WIDTH))
    directions *= 0.6 / np.linalg.norm(directions, axis=2, keepdims=True)
    x = mean + directions + draw.normal(0, 0.05, (labels, 200, WIDTH))
    found: np.ndarray = x / np.linalg.norm(x, axis=2, keepdims=True)
    return found


def test_the_mean_is_found_in_releases():
    """From sums with noise alone, and again from sums that were centred already."""
    draw = np.random.default_rng()
    mean = np.zeros(WIDTH)
    mean[0] = 0.5
    x = examples(draw, mean, 30)
    truth = x.mean(axis=(0, 1))
    first = next_centre([release(x.sum(axis=1) + draw.normal(0, 4, (30, WIDTH)), 4.0)], np.zeros((0, WIDTH)), WIDTH)
    assert np.linalg.norm(first - truth) < 0.35 * np.linalg.norm(truth)
    moved = x - first
    sums = (moved / np.linalg.norm(moved, axis=2, keepdims=True)).sum(axis=1)
    again = next_centre([release(sums + draw.normal(0, 4, sums.shape), 4.0, first)], np.zeros((0, WIDTH)), WIDTH)
    assert np.linalg.norm(again - truth) < np.linalg.norm(first - truth)


def test_noise_alone_moves_no_centre():
    draw = np.random.default_rng()
    names = np.tile(np.eye(WIDTH)[0], (10, 1))
    start = np.eye(WIDTH)[1] / 2
    moved = 0
    for _ in range(40):  # one in a thousand sums of noise stands out
        nothing = [release(draw.normal(0, 4, (50, WIDTH)), 4.0, start) for _ in range(10)]
        moved += next_centre(nothing, names, WIDTH).tolist() != start.tolist()
    assert moved <= 3  # 0.04 are expected
    assert next_centre([], names, WIDTH).tolist() == np.eye(WIDTH)[0].tolist()
    assert not next_centre([], names[:9], WIDTH).any()


def test_what_has_no_direction_gets_none():
    features = np.array([[3.0, 4.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
    assert not centred(features, np.array([0.5, 0.0], np.float32))[1:].any()


def test_centred_rows_do_not_depend_on_other_rows():
    draw = np.random.default_rng()
    features, centre = draw.normal(size=(50, 33)), draw.normal(size=33).astype(np.float32)
    together = centred(features, centre)
    alone = np.concatenate([centred(row[None], centre) for row in features])
    assert together.tobytes() == alone.tobytes()


def test_models_store_and_use_their_centre():
    """The second task has one; predictions are seen from it; the paper's learner never has any."""
    draw = np.random.default_rng()
    mean = np.eye(WIDTH)[0] / 2
    x = examples(draw, mean, len(NAMES))
    labels = np.repeat(NAMES, 200)
    flat = x.reshape(-1, WIDTH)
    for learner, has in ((rt.Cosine(), True), (rt.Cosine.paper(), False)):
        model = rt.ContinualClassifier(
            labels=rt.PublicLabels(NAMES), learner=learner, budget=rt.Budget(epsilon=8.0, delta=1e-5)
        )
        for month in ("march", "april"):
            model.learn_task(flat, labels, name=month)
        centres = [centre_of(release, WIDTH) for release in model.releases]
        assert not centres[0].any()
        assert centres[1].any() == has
        assert ("centre" in model.releases[0].parameters) == has
        assert (model.predict(flat) == labels).mean() > 0.9


@pytest.mark.parametrize("learner", [rt.Cosine(), rt.Cosine(centre=False)])
def test_old_settings_do_not_centre(learner):
    stored = learner.to_json()
    assert rt.Cosine.from_json(stored) == learner
    del stored["centre"]
    assert not rt.Cosine.from_json(stored).centre


def test_few_labels_have_no_centre():
    """The mean of two classes is what tells them from others to come: it is not taken off."""
    draw = np.random.default_rng()
    x = examples(draw, np.eye(WIDTH)[0] / 2, len(NAMES))
    few = 3
    model = rt.ContinualClassifier(labels=rt.PublicLabels(NAMES), budget=rt.Budget(epsilon=8.0, delta=1e-5))
    for start in range(0, len(NAMES), few):
        mine = slice(start, start + few)
        model.learn_task(x[mine].reshape(-1, WIDTH), np.repeat(NAMES[mine], 200), name=f"from {start}")
    centres = [centre_of(release, WIDTH) for release in model.releases]
    assert [centre.any() for centre in centres] == [False, False, False, False]  # 3, 6 and 9 labels before each
    model.learn_task(x[:few].reshape(-1, WIDTH), np.repeat(NAMES[:few], 200), name="again")
    assert centre_of(model.releases[-1], WIDTH).any()  # twelve
