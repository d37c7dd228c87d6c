"""The paper's image data sets, from local files or from the Hugging Face hub. Public data only.

A data folder has one folder per data set: `cifar100`, `imagenet-r`, `mnist`, `svhn`, `notMNIST`, `fashion_mnist` and
`cifar10`. Each holds either `train-*.parquet` and `test-*.parquet` as the hub stores them (next to each other or one
folder below), or images as `train/<class>/*.png` and `test/<class>/*.png`. ImageNet-R has no split of its own and may
be `<class>/*.jpg`. What the folder lacks comes from the hub where the package `datasets` is installed; the variable
HF_HUB_OFFLINE=1 forbids that, as it does for encoders.

Images become uint8 arrays (height, width, 3), grey ones too. Files that are no images are left out; notMNIST has some.
"""

import importlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from reticent import errors, readers
from reticent.lab.data.datasets import FIVE_DATASETS, SPLIT_CIFAR100, SPLIT_IMAGENET_R, Data, MissingData
from reticent.readers import parquet_files

ENCODER = "hf:google/vit-base-patch16-224-in21k"
_HELD_OUT = 0.2
_TUNED_SHARE = 1 / 7  # of CIFAR-10; 70 % of it to train trials on, 30 % to score them: the paper's 10 and 4.28 %
_IMAGE_COLUMNS = ("image", "img")
_LABEL_COLUMNS = ("fine_label", "label", "wnid")

Pixels = npt.NDArray[np.uint8]
Examples = tuple[list[Pixels], list[str]]


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Where a data set is: its folder and what to put there, and its name and configuration on the hub."""

    title: str
    folder: str
    files: str = "train-*.parquet and test-*.parquet, or images as train/<class>/ and test/<class>/,"
    hub: str | None = None
    configuration: str | None = None


_CIFAR100 = _Source(title="CIFAR-100", folder="cifar100", hub="uoft-cs/cifar100")
_IMAGENET_R = _Source(
    title="ImageNet-R",
    folder="imagenet-r",
    files="test-*.parquet, or images as <class>/ (its tar file unpacks to that),",
    hub="axiong/imagenet-r",
)
_FIVE = (
    _Source(title="MNIST", folder="mnist", hub="ylecun/mnist"),
    _Source(title="SVHN", folder="svhn", hub="ufldl-stanford/svhn", configuration="cropped_digits"),
    _Source(
        title="notMNIST",
        folder="notMNIST",
        files="Train/<class>/ and Test/<class>/ (notMNIST.zip of facebookresearch/Adversarial-Continual-Learning)",
    ),
    _Source(title="FashionMNIST", folder="fashion_mnist", hub="zalando-datasets/fashion_mnist"),
    _Source(title="CIFAR-10", folder="cifar10", hub="uoft-cs/cifar10"),
)


def split_cifar100(folder: Path) -> Data:
    """CIFAR-100: 50,000 images to learn from and 10,000 to test on, of 100 classes.

    Args:
        folder: The data folder; this data set is in its folder `cifar100`.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from PIL import Image
        >>> with TemporaryDirectory() as folder:
        ...     for part in ("train", "test"):
        ...         (place := Path(folder, "cifar100", part, "apple")).mkdir(parents=True)
        ...         Image.new("RGB", (32, 32)).save(place / "1.png")
        ...     data = split_cifar100(Path(folder))
        >>> data.inputs.shape, data.labels.tolist()
        ((1, 32, 32, 3), ['apple'])
    """
    train, labels = _part(_CIFAR100, folder, "train")
    test, unseen_labels = _part(_CIFAR100, folder, "test")
    if len({image.shape for image in [*train, *test]}) > 1:
        raise errors.InvalidValue(f"Expected images of one size in {folder / _CIFAR100.folder}.")
    return Data(SPLIT_CIFAR100, np.stack(train), np.array(labels), np.stack(test), np.array(unseen_labels), ENCODER)


def split_imagenet_r(folder: Path) -> Data:
    """ImageNet-R: 30,000 renditions of 200 classes. It takes some 15 GB of memory.

    Each seed holds out another fifth to test on, of the whole data set as in the paper. The same files and seed give
    the same split; another layout of the files gives another one.

    Args:
        folder: The data folder; this data set is in its folder `imagenet-r`.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from PIL import Image
        >>> with TemporaryDirectory() as folder:
        ...     (place := Path(folder, "imagenet-r", "n01443537")).mkdir(parents=True)
        ...     for i in range(10):
        ...         Image.new("RGB", (20 + i, 30)).save(place / f"{i}.jpg")
        ...     data = split_imagenet_r(Path(folder))
        >>> [len(rows) for rows in data.rows(seed=1)], data.labels[0].item()
        ([8, 2], 'n01443537')
    """
    place = folder / _IMAGENET_R.folder
    if _shards(_IMAGENET_R, folder, "test") or not place.is_dir():
        images, names = _part(_IMAGENET_R, folder, "test")  # the hub's only part, all of it
    else:
        images, names = _some(_files(place), _IMAGENET_R, folder)
    labels = np.array(names)
    return Data(SPLIT_IMAGENET_R, images, labels, [], labels[:0], ENCODER, held_out=_HELD_OUT, by_label=False)


def five_datasets(folder: Path) -> Data:
    """MNIST, SVHN, notMNIST, FashionMNIST and CIFAR-10: each is one task of ten classes, with labels like "mnist 3".

    As in the paper, settings are tuned on a seventh of CIFAR-10, whichever task comes first.

    Args:
        folder: The data folder, with a folder for each of the five.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from PIL import Image
        >>> with TemporaryDirectory() as folder:
        ...     for name in ("mnist", "svhn", "notMNIST", "fashion_mnist", "cifar10"):
        ...         for part in ("train", "test"):
        ...             (place := Path(folder, name, part, "3")).mkdir(parents=True)
        ...             Image.new("L", (28, 28)).save(place / "1.png")
        ...     data = five_datasets(Path(folder))
        >>> data.labels.tolist()
        ['mnist 3', 'svhn 3', 'notmnist 3', 'fashion_mnist 3', 'cifar10 3']
        >>> data.home["svhn 3"], data.inputs[0].shape
        (1, (28, 28, 3))
    """
    inputs: dict[str, list[Pixels]] = {"train": [], "test": []}
    labels: dict[str, list[str]] = {"train": [], "test": []}
    home: dict[str, int] = {}
    for task, source in enumerate(_FIVE):
        for part in ("train", "test"):
            images, names = _part(source, folder, part)
            named = [f"{source.folder.lower()} {name}" for name in names]
            inputs[part] += images
            labels[part] += named
            home |= dict.fromkeys(named, task)
    return Data(
        FIVE_DATASETS,
        inputs["train"],
        np.array(labels["train"]),
        inputs["test"],
        np.array(labels["test"]),
        ENCODER,
        home=home,
        tuned_on=(len(_FIVE) - 1, _TUNED_SHARE),
    )


def _part(source: _Source, folder: Path, part: str) -> Examples:
    """Images and labels of one part: from Parquet, from a folder of images, or from the hub."""
    place = folder / source.folder
    if shards := _shards(source, folder, part):
        return _some(_decoded(row for shard in shards for row in _rows(shard)), source, folder)
    for name in (part, part.capitalize()):
        if (place / name).is_dir():
            return _some(_files(place / name), source, folder)
    return _some(_decoded(_hub(source, folder, part)), source, folder)


def _some(examples: Examples, source: _Source, folder: Path) -> Examples:
    if not examples[0]:
        raise _missing(source, folder)
    return examples


def _missing(source: _Source, folder: Path) -> MissingData:
    online = f", or install reticent[bench] and allow the download of {source.hub}" if source.hub else ""
    return MissingData(f"{source.title} is not there: put {source.files} in {folder / source.folder}{online}.")


# --- files


def _shards(source: _Source, folder: Path, part: str) -> list[Path]:
    place, below = folder / source.folder, source.configuration or "*"
    return sorted(place.glob(f"{part}-*.parquet")) or sorted(place.glob(f"{below}/{part}-*.parquet"))


def _rows(shard: Path) -> Iterator[tuple[Mapping[str, Any], object]]:
    with parquet_files.library().ParquetFile(shard) as file:
        image, label = _columns(file.schema_arrow.names, shard.name)
        for batch in file.iter_batches(columns=[image, label], batch_size=1024):
            yield from zip(batch[image].to_pylist(), batch[label].to_pylist(), strict=True)


def _files(place: Path) -> Examples:
    if not any(entry.is_dir() for entry in place.iterdir()):
        return _readable(())
    found = readers.read(place, readers.Columns())
    return _readable(zip(found.inputs, found.labels or (), strict=False))


# --- the hub


def _hub(source: _Source, folder: Path, part: str) -> Iterator[tuple[Mapping[str, Any], object]]:
    if source.hub is None:
        raise _missing(source, folder)
    try:
        library = importlib.import_module("datasets")
        table = library.load_dataset(source.hub, source.configuration, split=part)
    except (ImportError, OSError, ValueError) as error:  # not installed, no connection, or not there
        raise _missing(source, folder) from error
    image, label = _columns(table.column_names, source.hub)
    for row in table.cast_column(image, library.Image(decode=False)):
        yield row[image], row[label]


# --- images


def _columns(names: Sequence[str], where: str) -> tuple[str, str]:
    image = [name for name in _IMAGE_COLUMNS if name in names]
    label = [name for name in _LABEL_COLUMNS if name in names]
    if not image or not label:
        raise errors.InvalidValue(
            f"Expected a column {' or '.join(_IMAGE_COLUMNS)} and a column {' or '.join(_LABEL_COLUMNS)} in {where}."
        )
    return image[0], label[0]


def _decoded(rows: Iterable[tuple[Mapping[str, Any], object]]) -> Examples:
    """Reads bytes, or the file they are in where a row has only its path."""
    return _readable((io.BytesIO(i["bytes"]) if i["bytes"] else Path(i["path"]), label) for i, label in rows)


def _readable(examples: Iterable[tuple[Path | IO[bytes], object]]) -> Examples:
    images, labels = [], []
    for file, label in examples:
        image = _rgb(file)
        if image is not None:
            images.append(image)
            labels.append(str(label))
    return images, labels


def _rgb(file: Path | IO[bytes]) -> Pixels | None:
    try:
        from PIL import Image as pillow
    except ImportError as error:
        raise errors.ReticentError("Images need: pip install 'reticent[vision]'.") from error
    try:
        with pillow.open(file) as opened:
            return np.asarray(opened.convert("RGB"), dtype=np.uint8)
    except (OSError, SyntaxError, ValueError):  # what Pillow raises for a broken file, depending on its kind
        return None
