import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.lab.data.streams import Stream

LABELS = np.repeat([f"class {i}" for i in range(20)], 500)


def test_disjoint_streams_have_each_class_once():
    table = Stream(tasks=5, seed=3).examples(LABELS)
    assert ((table > 0).sum(axis=1) == 1).all()
    assert (table.sum(axis=0) == 2000).all()
    assert (Stream(tasks=5, seed=4).examples(LABELS) != table).any()


def test_uniform_streams_spread_the_blurry_half():
    table = Stream(tasks=5, ratio=1.0, seed=3).examples(LABELS)
    spread = (table > 0).sum(axis=1) == 5
    assert spread.sum() == 10
    assert abs(table[spread] - 100).max() < 60


def test_i_blurry_is_as_its_authors_publish_it():
    """Counted in their files for CIFAR-100, N50-M10: in every task as many classes of each kind, and examples."""
    labels = np.repeat(np.arange(100), 500)
    stream = Stream(tasks=10, ratio=0.1, blurry=0.5, seed=3)
    table = stream.examples(labels)
    homes = np.array([stream.homes(labels)[label] for label in range(100)])
    disjoint = (table > 0).sum(axis=1) == 1
    assert table.sum(axis=0).tolist() == [5_000] * 10
    assert np.bincount(homes[disjoint]).tolist() == np.bincount(homes[~disjoint]).tolist() == [5] * 10
    assert (table[disjoint].max(axis=1) == 500).all()
    at_home = table[np.arange(100), homes][~disjoint]
    left = 2_500 - np.array([table[(homes == t) & ~disjoint, t].sum() for t in range(10)])
    assert at_home.mean() == pytest.approx(500 * (0.9 + 0.1 / 10), abs=5)
    assert (left > 250 - 60).all()
    assert (left <= 250).all()
    assert table[~disjoint].sum() == 50 * 500


def test_the_ratio_is_exact_in_every_task():
    stream = Stream(tasks=5, ratio=1.0, blurry=1.0, seed=3)
    table = stream.examples(LABELS)
    assert table.sum(axis=0).tolist() == [2_000] * 5
    half = Stream(tasks=2, ratio=0.5, blurry=1.0, seed=3).examples(np.repeat(["a", "b"], 1_000))
    assert half.sum(axis=0).tolist() == [1_000] * 2
    assert half.max(axis=1).tolist() == pytest.approx([750, 750], abs=100)


@pytest.mark.parametrize("tasks", [1, 3, 5, 20])
def test_homes_are_where_a_disjoint_class_is(tasks):
    stream = Stream(tasks=tasks, seed=3)
    homes = stream.homes(LABELS)
    assert [homes[label] for label in LABELS.tolist()] == stream.tasks_of(LABELS).tolist()
    assert set(homes.values()) == set(range(tasks))  # no task is left without
    assert homes != Stream(tasks=tasks, seed=4).homes(LABELS) or tasks == 1


def test_homes_do_not_depend_on_blurriness_nor_on_examples():
    homes = Stream(tasks=5, seed=3).homes(LABELS)
    blurry = Stream(tasks=5, ratio=0.5, blurry=1.0, seed=3)
    assert blurry.homes(LABELS) == homes
    assert blurry.homes(LABELS[::100]) == homes
    most = blurry.examples(LABELS).argmax(axis=1)
    assert dict(zip(np.unique(LABELS).tolist(), most.tolist(), strict=True)) == homes


def test_a_blurry_class_has_most_examples_in_its_home_task():
    assert Stream(tasks=5, seed=3).of_a_blurry_class(LABELS) == []
    by_task = Stream(tasks=5, ratio=0.5, seed=3).of_a_blurry_class(LABELS)
    assert sum(by_task) == pytest.approx(500)
    assert by_task[0] == pytest.approx(500 * (0.5 + 0.5 / 5), rel=0.1)
    assert by_task[1:] == pytest.approx([500 * 0.5 / 5] * 4, rel=0.2)


def test_split_keeps_names_and_rows():
    x = np.arange(len(LABELS))[:, None]
    parts = list(Stream(tasks=4, ratio=0.3, seed=1).split(x, LABELS))
    assert sorted(np.concatenate([part[1][:, 0] for part in parts])) == list(range(len(LABELS)))
    for _, features, labels in parts:
        assert (LABELS[features[:, 0]] == labels).all()


@pytest.mark.parametrize("bad", [{"tasks": 0}, {"tasks": 2, "ratio": 1.1}, {"tasks": 2, "blurry": -0.1}])
def test_bad_streams_are_refused(bad):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        Stream(**bad)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "ratio", "least"),
    [
        ("public", 0.0, 57.2),
        ("public", 0.5, 55.8),
        ("public", 1.0, 51.2),
        ("released", 0.0, 57.2),
        ("released", 0.5, 55.5),
        ("released", 1.0, 45.5),
    ],
)
def test_cifar100_reaches_what_we_promise(shared_data, policy, ratio, least):
    """Median of three seeds at epsilon 1 on real features, with noise from the operating system."""
    stored = np.load(shared_data / "cifar100_efficientnet_lite0.npz")
    scale = np.float32(stored["scale"])
    x, y = stored["x_train"] * scale, stored["y_train"]
    labels = rt.PublicLabels(range(100)) if policy == "public" else rt.ReleasedLabels()
    reached = []
    for seed in range(3):
        model = rt.ContinualClassifier(labels=labels, budget=rt.Budget(epsilon=1.0, delta=1e-5))
        for name, features, names in Stream(tasks=10, ratio=ratio, seed=seed).split(x, y):
            model.learn_task(features, names, name=name)
        reached.append(100 * model.score(stored["x_test"] * scale, stored["y_test"]))
    assert np.median(reached) >= least
