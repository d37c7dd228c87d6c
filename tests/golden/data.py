"""Small public data, cut from what comes with packages: golden runs of it take a second each."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from reticent.lab.data import datasets, shifted
from reticent.lab.data.datasets import Data
from reticent.numerics.rows import take

_BLOCKS = (
    *("A30-A49", "E08-E13", "H15-H22", "H65-H75", "K55-K64", "M50-M54"),
    *("N40-N53", "Q65-Q79", "S60-S69", "T33-T34", "V30-V39", "W00-W19"),
)
_EACH, _FEW = 60, 16  # texts of each block; examples of each of four labels, to train through an encoder


def pixels() -> Data:
    """Handwritten digits as 64 grey levels, read without an encoder; odd and even are the broader labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    labels = np.array([f"digit {digit}" for digit in found.target])
    features = (found.data / 16).astype(np.float32)
    parents = {f"digit {digit}": ("even", "odd")[digit % 2] for digit in range(10)}
    return Data("pixels", features, labels, features[:0], labels[:0], parents=parents, held_out=0.2)


def pixels_in_tasks() -> Data:
    """The same; the data says which digits come together."""
    return replace(pixels(), name="pixels_in_tasks", home={f"digit {digit}": digit // 2 for digit in range(10)})


def diagnoses() -> Data:
    """Sixty texts of each of twelve blocks of ICD-10-CM, with the names of the blocks, and their chapters."""
    whole, named = (datasets.load(name, Path()) for name in (datasets.ICD10CM, datasets.ICD10CM_BLOCKS))
    found = _first(whole, _BLOCKS, _EACH, "diagnoses")
    return replace(found, names={block: (named.names or {})[block] for block in _BLOCKS})


def few_diagnoses() -> Data:
    """Texts to train through their encoder."""
    return replace(_first(diagnoses(), _BLOCKS[:4], _FEW, "few_diagnoses"), held_out=0.5)


def few_digits() -> Data:
    """Images to train through their encoder."""
    found = _first(shifted.digits(), [f"digit {digit}" for digit in range(4)], _FEW, "few_digits")
    return replace(found, held_out=0.5)


def _first(whole: Data, labels: Iterable[str], each: int, name: str) -> Data:
    rows = np.concatenate([np.flatnonzero(whole.labels == label)[:each] for label in labels])
    return replace(whole, name=name, inputs=take(whole.inputs, rows), labels=whole.labels[rows])
