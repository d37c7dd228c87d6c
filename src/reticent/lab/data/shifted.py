"""Real images that need no network, near to what EfficientNet-Lite0 was trained on and far from it.

Photographs of CIFAR-100 are near ImageNet, handwritten digits of scikit-learn are far from it: the two ends of the
paper's question, when a frozen encoder is enough. Both together are a stream whose tasks differ in kind, as those of
5-Datasets do.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent.lab.data.datasets import CIFAR100_IMAGES, DIGITS, DIGITS_AND_CIFAR100, Data

ENCODER = "efficientnet_lite0"
_HELD_OUT = 0.2
_MOST = 16  # grey levels of scikit-learn's digits
_CLASSES, _TASKS = 10, 4  # of photographs beside the digits: five tasks of ten classes

Images = npt.NDArray[np.uint8]


def digits() -> Data:
    """1,797 handwritten digits of 8 x 8 pixels, which come with scikit-learn; each seed holds out a fifth.

    Example:
        >>> data = digits()
        >>> data.inputs.shape, int(data.inputs.max()), sorted(set(data.labels.tolist()))[:2]
        ((1797, 8, 8, 3), 255, ['digit 0', 'digit 1'])
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    grey = np.rint(found.images * (255 / _MOST)).astype(np.uint8)
    labels = np.array([f"digit {digit}" for digit in found.target])
    return _data(DIGITS, np.repeat(grey[..., None], 3, axis=3), labels)


def cifar100_images(file: Path) -> Data:
    """The 10,000 test images of CIFAR-100, a hundred of each class; each seed holds out a fifth.

    Args:
        file: An NPZ file with x (n, 32, 32, 3) as uint8, y, and classes.
    """
    with np.load(file) as stored:
        return _data(CIFAR100_IMAGES, stored["x"], stored["classes"].astype(str)[stored["y"]])


def digits_and_cifar100(file: Path) -> Data:
    """Digits as one task, and the first forty classes of CIFAR-100 as four: five tasks of ten classes.

    Args:
        file: As in `cifar100_images`.
    """
    near, far = cifar100_images(file), digits()
    classes = np.unique(near.labels)[: _CLASSES * _TASKS]
    kept = np.isin(near.labels, classes)
    home = dict.fromkeys(np.unique(far.labels).tolist(), 0)
    home |= {label: 1 + i // _CLASSES for i, label in enumerate(classes.tolist())}
    images = [*near.inputs[kept], *far.inputs]
    return _data(DIGITS_AND_CIFAR100, images, np.concatenate([near.labels[kept], far.labels]), home=home)


def _data(name: str, images: Any, labels: npt.NDArray[np.str_], **others: Any) -> Data:
    return Data(name, images, labels, images[:0], labels[:0], ENCODER, held_out=_HELD_OUT, **others)
