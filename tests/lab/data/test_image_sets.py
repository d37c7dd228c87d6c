"""The paper's image data sets, read from tiny files of the same formats."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from reticent.errors import InvalidValue
from reticent.lab.data import image_sets
from reticent.lab.data.datasets import MissingData

pillow = pytest.importorskip("PIL.Image", reason="pillow is not installed")


@pytest.fixture
def _without_the_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # as if it were not installed


def coloured(value: int, size: tuple[int, int] = (32, 32), mode: str = "RGB"):
    return pillow.new(mode, size, (value, 0, 255 - value) if mode == "RGB" else value)


def png(image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def write_parquet(path: Path, rows, *, image: str = "image", label: str = "label") -> None:
    """Rows of (image, label) as the Hugging Face hub stores them, with the metadata that makes the column an image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = pa.string() if isinstance(rows[0][1], str) else pa.int64()
    features = {image: {"_type": "Image"}, label: {"dtype": str(kind), "_type": "Value"}}
    schema = pa.schema(
        [(image, pa.struct([("bytes", pa.binary()), ("path", pa.string())])), (label, kind)],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    stored = [{"bytes": png(picture), "path": f"{i}.png"} for i, (picture, _) in enumerate(rows)]
    columns = {image: stored, label: [name for _, name in rows]}
    parquet.write_table(pa.table(columns, schema=schema), path)


def write_folder(place: Path, rows) -> None:
    for i, (picture, label) in enumerate(rows):
        (place / str(label)).mkdir(parents=True, exist_ok=True)
        picture.save(place / str(label) / f"{i}.png")


def first_pixels(inputs) -> list[list[int]]:
    return [image[0, 0].tolist() for image in inputs]


# --- CIFAR-100


def test_cifar100_from_parquet_in_several_files(tmp_path):
    place = tmp_path / "cifar100"
    write_parquet(place / "train-00000-of-00002.parquet", [(coloured(1), 7)], image="img", label="fine_label")
    write_parquet(place / "train-00001-of-00002.parquet", [(coloured(2), 99)], image="img", label="fine_label")
    write_parquet(place / "test-00000-of-00001.parquet", [(coloured(3), 7)], image="img", label="fine_label")
    data = image_sets.split_cifar100(tmp_path)
    assert data.name == "split-cifar100"
    assert data.encoder == "hf:google/vit-base-patch16-224-in21k"
    assert data.inputs.shape == (2, 32, 32, 3)
    assert data.inputs.dtype == np.uint8
    assert first_pixels(data.inputs) == [[1, 0, 254], [2, 0, 253]]
    assert first_pixels(data.unseen_inputs) == [[3, 0, 252]]
    assert data.labels.tolist() == ["7", "99"]
    assert data.unseen_labels.tolist() == ["7"]
    assert data.home is None


def test_cifar100_from_a_clone_of_the_hub(tmp_path):
    for part in ("train", "test"):
        path = tmp_path / "cifar100" / "cifar100" / f"{part}-00000-of-00001.parquet"
        write_parquet(path, [(coloured(1), 5)], image="img", label="fine_label")
    assert image_sets.split_cifar100(tmp_path).labels.tolist() == ["5"]


def test_cifar100_from_a_folder_of_images(tmp_path):
    write_folder(tmp_path / "cifar100" / "train", [(coloured(1), "apple"), (coloured(2), "whale")])
    write_folder(tmp_path / "cifar100" / "test", [(coloured(3), "whale")])
    data = image_sets.split_cifar100(tmp_path)
    assert data.labels.tolist() == ["apple", "whale"]
    assert first_pixels(data.inputs) == [[1, 0, 254], [2, 0, 253]]


def test_fine_labels_not_coarse_ones(tmp_path):
    rows = {"img": [{"bytes": png(coloured(1)), "path": None}], "coarse_label": [3], "fine_label": [42]}
    for part in ("train", "test"):
        (tmp_path / "cifar100").mkdir(exist_ok=True)
        parquet.write_table(pa.table(rows), tmp_path / "cifar100" / f"{part}-0.parquet")
    assert image_sets.split_cifar100(tmp_path).labels.tolist() == ["42"]


def test_other_columns_and_sizes_are_refused(tmp_path):
    path = tmp_path / "cifar100" / "train-0.parquet"
    write_parquet(path, [(coloured(1), 5)], image="picture")
    with pytest.raises(InvalidValue, match=r"Expected a column image or img .* in train-0\.parquet"):
        image_sets.split_cifar100(tmp_path)
    write_parquet(path, [(coloured(1), 5), (coloured(1, (16, 16)), 5)])
    write_parquet(path.with_name("test-0.parquet"), [(coloured(1), 5)])
    with pytest.raises(InvalidValue, match="images of one size"):
        image_sets.split_cifar100(tmp_path)


# --- ImageNet-R

RENDITIONS = [(coloured(i, (20 + i, 40)), f"n{i % 5:08d}") for i in range(50)]


@pytest.mark.parametrize("layout", ["parquet", "folder"])
def test_imagenet_r_is_split_by_seed_over_the_whole(tmp_path, layout):
    if layout == "parquet":
        write_parquet(tmp_path / "imagenet-r" / "data" / "test-00000-of-00001.parquet", RENDITIONS, label="wnid")
    else:
        write_folder(tmp_path / "imagenet-r", RENDITIONS)
    data = image_sets.split_imagenet_r(tmp_path)
    whole = [*zip(first_pixels(data.inputs), data.labels.tolist(), strict=True)]
    assert sorted(whole) == sorted(([i, 0, 255 - i], f"n{i % 5:08d}") for i in range(50))
    assert len({image.shape for image in data.inputs}) > 1
    (train, test), again, other = (data.rows(seed) for seed in (3, 3, 4))
    assert sorted([*train, *test]) == list(range(50))
    assert len(test) == 10
    assert test.tolist() == again[1].tolist()
    assert test.tolist() != other[1].tolist()  # each repeat has its own split
    sizes = [np.bincount(np.arange(50)[data.rows(seed)[1]] % 5, minlength=5).tolist() for seed in range(20)]
    assert any(each != [2] * 5 for each in sizes)  # of the whole, not of each class


# --- five data sets


def write_five(folder: Path) -> None:
    for part in ("train", "test"):
        shard = f"{part}-00000-of-00001.parquet"
        write_parquet(folder / "mnist" / shard, [(coloured(9, (28, 28), "L"), 3)])
        write_parquet(folder / "svhn" / "cropped_digits" / shard, [(coloured(1), 3)])
        write_parquet(folder / "svhn" / "full_numbers" / shard, [(coloured(2), 4)])
        write_folder(folder / "notMNIST" / part.capitalize(), [(coloured(7, (28, 28), "L"), "A")])
        write_folder(folder / "fashion_mnist" / part, [(coloured(8, (28, 28), "L"), 0)])
        write_parquet(folder / "cifar10" / "plain_text" / shard, [(coloured(4), 0)], image="img")


def test_five_datasets_are_five_tasks(tmp_path):
    write_five(tmp_path)
    data = image_sets.five_datasets(tmp_path)
    assert data.labels.tolist() == ["mnist 3", "svhn 3", "notmnist A", "fashion_mnist 0", "cifar10 0"]
    assert data.home == {"mnist 3": 0, "svhn 3": 1, "notmnist A": 2, "fashion_mnist 0": 3, "cifar10 0": 4}
    assert data.unseen_labels.tolist() == data.labels.tolist()
    assert data.tuned_on == (4, 1 / 7)  # CIFAR-10: the paper's 10 % to train trials on and 4.28 % to score them
    assert [image.shape for image in data.inputs[:2]] == [(28, 28, 3), (32, 32, 3)]


def test_grey_becomes_rgb(tmp_path):
    write_five(tmp_path)
    assert first_pixels(image_sets.five_datasets(tmp_path).inputs)[:3] == [[9, 9, 9], [1, 0, 254], [7, 7, 7]]


def test_files_that_are_no_images_are_left_out(tmp_path):
    write_five(tmp_path)
    train = tmp_path / "notMNIST" / "Train" / "A"
    (train / "empty.png").write_bytes(b"")
    (train / "broken.png").write_bytes(png(coloured(1, (28, 28), "L"))[:40])
    assert image_sets.five_datasets(tmp_path).labels.tolist().count("notmnist A") == 1


def test_the_encoder_takes_what_the_loaders_give(tmp_path):
    from reticent.encoders.images import read

    write_five(tmp_path)
    data = image_sets.five_datasets(tmp_path)
    assert [np.asarray(read(image)).tolist() for image in data.inputs] == [image.tolist() for image in data.inputs]


# --- what is not there


@pytest.mark.usefixtures("_without_the_hub")
def test_missing_image_sets_are_refused_in_one_line(tmp_path):
    with pytest.raises(MissingData) as cifar:
        image_sets.split_cifar100(tmp_path)
    assert str(cifar.value) == (
        "CIFAR-100 is not there: put train-*.parquet and test-*.parquet, or images as train/<class>/ and "
        f"test/<class>/, in {tmp_path / 'cifar100'}, or install reticent[bench] and allow the download of "
        "uoft-cs/cifar100."
    )
    with pytest.raises(MissingData, match=r"ImageNet-R is not there: put test-\*\.parquet, or images as <class>/"):
        image_sets.split_imagenet_r(tmp_path)
    (tmp_path / "imagenet-r").mkdir()
    with pytest.raises(MissingData, match="ImageNet-R is not there"):
        image_sets.split_imagenet_r(tmp_path)
    with pytest.raises(MissingData, match="MNIST is not there"):
        image_sets.five_datasets(tmp_path)


@pytest.mark.usefixtures("_without_the_hub")
def test_notmnist_comes_from_a_folder_only(tmp_path):
    write_five(tmp_path)
    for picture in (tmp_path / "notMNIST").rglob("*.png"):
        picture.unlink()
    with pytest.raises(MissingData, match=r"notMNIST is not there: put Train/<class>/ .* in [^,]*notMNIST\.$"):
        image_sets.five_datasets(tmp_path)


# --- the package of the hub


def test_the_hub_fills_what_the_folder_lacks(tmp_path, monkeypatch):
    library = pytest.importorskip("datasets", reason="datasets is not installed (reticent[bench])")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    local = tmp_path / "hub"
    write_parquet(local / "train-00000-of-00001.parquet", [(coloured(1), 7)], image="img", label="fine_label")
    write_parquet(local / "test-00000-of-00001.parquet", [(coloured(2), 8)], image="img", label="fine_label")
    here = image_sets._Source(title="CIFAR-100", folder="cifar100", hub=str(local))
    monkeypatch.setattr(image_sets, "_CIFAR100", here)
    data = image_sets.split_cifar100(tmp_path / "empty")
    assert (first_pixels(data.inputs), data.labels.tolist()) == ([[1, 0, 254]], ["7"])
    assert (first_pixels(data.unseen_inputs), data.unseen_labels.tolist()) == ([[2, 0, 253]], ["8"])


def test_hub_without_connection_is_refused_like_missing_data(tmp_path, monkeypatch):
    pytest.importorskip("datasets", reason="datasets is not installed (reticent[bench])")
    source = image_sets._Source(title="CIFAR-100", folder="cifar100", hub="no/such")
    monkeypatch.setattr(image_sets, "_CIFAR100", source)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    with pytest.raises(MissingData, match="CIFAR-100 is not there"):
        image_sets.split_cifar100(tmp_path)
