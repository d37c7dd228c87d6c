"""An encoder of texts that needs no weights, for tests: words of a text, hashed."""

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import encoders

WIDTH = 16


def _words(texts: list[Any]) -> npt.NDArray[np.float32]:
    features = np.zeros((len(texts), WIDTH), np.float32)
    for row, text in zip(features, texts, strict=True):
        for word in text.lower().split():
            row += np.cos(zlib.crc32(word.encode()) % 1_000 * np.arange(1, WIDTH + 1))
    return features


WORDS = encoders.wrap(_words, width=WIDTH, name="words", probe="A public text.")
WITHOUT_TEXT = encoders.wrap(_words, width=WIDTH, name="unknown")  # without a public text nobody knows what it reads
