"""Images that need no network: digits of scikit-learn, photographs of CIFAR-100, and a stream of both."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from reticent.lab.bench.measures import Assigned
from reticent.lab.bench.one_run import result_of
from reticent.lab.bench.run import Run
from reticent.lab.bench.workspace import encoder_of
from reticent.lab.data import datasets, shifted
from reticent.lab.data.datasets import Data, MissingData
from tests.lab.tiny import Given

CLASSES = 44


def write_photographs(folder: Path, each: int = 3) -> Path:
    draw = np.random.default_rng(0)
    y = np.repeat(np.arange(CLASSES), each)
    x = draw.integers(0, 256, size=(len(y), 32, 32, 3), dtype=np.uint8)
    names = np.array([f"thing {i:02d}" for i in range(CLASSES)])
    np.savez(folder / "cifar100_test_images.npz", x=x, y=y, classes=names)
    return folder


def test_digits_are_images_of_ten_classes():
    data = datasets.load("digits", Path())
    assert data.inputs.dtype == np.uint8
    assert (np.bincount([int(label[-1]) for label in data.labels]) >= 170).all()
    assert (data.inputs == data.inputs[..., :1]).all()  # grey
    train, test = data.rows(0)
    assert abs(len(test) / (len(train) + len(test)) - 0.2) < 0.01
    assert test.tolist() != data.rows(1)[1].tolist()


def test_photographs_are_read(tmp_path):
    data = datasets.load("cifar100-images", write_photographs(tmp_path))
    assert data.inputs.shape == (3 * CLASSES, 32, 32, 3)
    assert data.labels[:4].tolist() == ["thing 00"] * 3 + ["thing 01"]


def test_both_are_five_tasks_of_ten_classes(tmp_path):
    data = datasets.load("digits-and-cifar100", write_photographs(tmp_path))
    homes = data.home or {}
    assert [list(homes.values()).count(task) for task in range(5)] == [10] * 5
    assert {label for label, home in homes.items() if home == 0} == {f"digit {i}" for i in range(10)}
    assert set(data.labels.tolist()) == set(homes)
    assert len(data.inputs) == len(data.labels) == 1_797 + 3 * 40
    run = Run(data=data.name, learner="cosine", tasks=5)
    stream = Assigned(run, data, data.labels)
    assert {stream.homes[f"digit {i}"] for i in range(10)} in ({t} for t in range(5))


@pytest.mark.parametrize("name", ["cifar100-images", "digits-and-cifar100"])
def test_photographs_that_are_not_there_are_named(tmp_path, name):
    with pytest.raises(MissingData, match=r"needs cifar100_test_images\.npz"):
        datasets.load(name, tmp_path)


@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite_pytorch") is None, reason="needs reticent[vision] and its weights"
)
def test_digits_are_learned_through_batchnorm(tmp_path):
    """A few digits, two tasks, FiLM: scale and bias of BatchNorm move, and both tasks are measured."""
    whole = shifted.digits()
    some = np.concatenate([np.flatnonzero(whole.labels == f"digit {i}")[:3] for i in (0, 1)])
    data = Data(
        "few", [*whole.inputs[some]], whole.labels[some], [*whole.inputs[some]], whole.labels[some], whole.encoder
    )
    found = result_of(
        Run(data="few", learner="peft", adapter="film", tasks=2, epsilon=8.0), Given(tmp_path, tmp_path, data)
    )
    assert found["status"] == "done"
    assert 0 <= found["accuracy"] <= 1
    assert encoder_of(data).width == 1280
