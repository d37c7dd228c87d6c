"""Post-processing of noisy sums: it costs nothing, since sums and their noise are public.

A block is the noisy sum of one label in one task. `Blocks` holds all of them; a combination turns them into one weight
vector per label, to be scored by its product with a unit feature.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2, gamma

Floats = npt.NDArray[np.floating]

# A label's weight is divided by its debiased norm. Its square is known to within the deviation of the energy of pure
# noise, so no signal is taken to be smaller than three of these: else a label whose noise happens to be small would
# win everywhere. Against a floor of 2 % of the energy: up to 5 points more on ICD-10-CM, nowhere half a point less.
DEVIATIONS = 3.0
# Expected share of empty labels among those that may win.
_FALSE_SHARE = 0.5
# Up to so many tasks all eigenvalues are computed, which takes tasks^3; beyond it the largest alone, in time linear in
# the tasks.
_FEW_TASKS = 64
_LANCZOS_STEPS = 24
_CHUNK = 1 << 22  # entries of whitened blocks at a time


@dataclass(frozen=True)
class Blocks:
    """Noisy sums by label and task; a label without a block in a task has noise infinity and zeros there.

    Args:
        sums: Shape (labels, tasks, width).
        noise: Shape (labels, tasks): standard deviation of every coordinate.
        space: How many labels there are in all, with and without blocks.
        names: Unit features of labels' names, shape (labels, width), NaN where there is none; None for no names.
        centres: What was taken off the features of each task, shape (tasks, width); None for nothing.
        mixing: How examples of earlier tasks enter a task's sums, shape (tasks, tasks); None for not at all.
        weights: Of an example of a label in a task, shape (labels, tasks); None for 1.
        present: Which labels are sure to have examples, since their counts released them; None for no label.
    """

    sums: Floats
    noise: npt.NDArray[np.float64]
    space: int
    names: Floats | None = None
    centres: Floats | None = None
    mixing: npt.NDArray[np.float64] | None = None
    weights: npt.NDArray[np.float64] | None = None
    present: npt.NDArray[np.bool_] | None = None


Combine = Callable[[Blocks], Floats]


def total(blocks: Blocks) -> Floats:
    """The paper: add up all tasks, compare by plain cosine."""
    summed = blocks.sums.sum(axis=1)
    norms = np.sqrt(np.einsum("lk,lk->l", summed, summed))[:, None]
    return np.where(norms > 0, summed / np.where(norms > 0, norms, 1), 0)


def rank_one(blocks: Blocks) -> Floats:
    """Ours: weigh the tasks of a label by how much of it they hold, and compare by debiased norms.

    A label's blocks are n_t mu + noise, so whitened by their noise they have rank one: the top eigenvector of their
    Gram matrix, clipped at zero, weighs the tasks. The squared norm of w overstates the signal by width times noise^2,
    which is taken off; otherwise a label with more noise would have smaller scores and never win. Labels that look like
    noise may not win when there are many of them (`may_win`).
    """
    labels, tasks, width = blocks.sums.shape
    w, top, noise = np.zeros((labels, width)), np.zeros(labels), np.zeros(labels)
    step = max(1, _CHUNK // max(1, tasks * width))
    for part in (slice(start, start + step) for start in range(0, labels, step)):
        whitened = blocks.sums[part] / blocks.noise[part, :, None]
        top[part], u = top_eigenvectors(whitened)
        u = np.clip(u * np.where(u.sum(axis=1, keepdims=True) < 0, -1, 1), 0, None)
        # weights u_t / sigma_t on the raw sums are weights u_t on the whitened ones; there noise is 1
        w[part] = np.einsum("lt,ltk->lk", u, whitened)
        noise[part] = (u**2).sum(axis=1)
    energy = np.einsum("lk,lk->l", w, w)
    signal = np.maximum(energy - width * noise, DEVIATIONS * noise * np.sqrt(2 * width))
    wins = may_win(top, np.isfinite(blocks.noise).sum(axis=1), width, blocks.space)
    scale = np.where(wins & (signal > 0), 1 / np.sqrt(np.where(signal > 0, signal, 1)), 0)
    weights: Floats = w * scale[:, None]
    return weights


def top_eigenvectors(whitened: Floats) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns the largest eigenvalue of each label's Gram matrix over tasks, and its eigenvector.

    Of few tasks by a full decomposition. Of many by Lanczos' method in the space of features, with a start that is not
    orthogonal to any signal: the strongest block and the sum of all, or its opposite where these two would cancel.
    Where a label stands out from its noise this agrees to many digits; on pure noise the value is at most a few percent
    too small, which keeps empty labels from winning.
    test_many_tasks_are_combined_like_few, test_a_strong_block_against_all_others_is_found

    Args:
        whitened: Shape (labels, tasks, width); noise is 1.
    """
    labels, tasks, width = whitened.shape
    if tasks <= _FEW_TASKS:
        values, vectors = np.linalg.eigh(np.einsum("ltk,lsk->lts", whitened, whitened))
        return values[:, -1], vectors[:, :, -1]
    strongest = np.einsum("ltk,ltk->lt", whitened, whitened).argmax(axis=1)
    start, summed = _unit(whitened[np.arange(labels), strongest]), _unit(whitened.sum(axis=1))
    v = _unit(start + np.where(np.einsum("lk,lk->l", start, summed) < 0, -1, 1)[:, None] * summed)
    steps = min(_LANCZOS_STEPS, width)
    basis, small = np.zeros((labels, steps, width)), np.zeros((labels, steps, steps))
    for i in range(steps):
        basis[:, i] = v
        image = _times(whitened.transpose(0, 2, 1), _times(whitened, v))
        along = _times(basis, image)
        small[:, i], small[:, :, i] = along, along
        size = np.linalg.norm(image, axis=1, keepdims=True)
        for _ in range(2):  # once is not enough in floating point
            image = image - np.einsum("li,lik->lk", _times(basis, image), basis)
        # what is left of few blocks is rounding: their space is exhausted
        v = np.where(np.linalg.norm(image, axis=1, keepdims=True) > 1e-9 * size, _unit(image), 0)
    values, vectors = np.linalg.eigh(small)
    u = _times(whitened, np.einsum("li,lik->lk", vectors[:, :, -1], basis))
    return values[:, -1], _unit(u)


def _times(matrices: Floats, vectors: Floats) -> npt.NDArray[np.float64]:
    """One matrix times one vector for each label."""
    product: npt.NDArray[np.float64] = np.matmul(matrices, vectors[:, :, None])[:, :, 0]
    return product


def _unit(rows: Floats) -> npt.NDArray[np.float64]:
    """Rows of length one; a zero row stays."""
    norms = np.sqrt(np.einsum("lk,lk->l", rows, rows))[:, None]
    unit: npt.NDArray[np.float64] = rows / np.where(norms > 0, norms, 1)
    return unit


def may_win(
    top: npt.NDArray[np.float64], tasks: npt.NDArray[np.int64], width: int, space: int
) -> npt.NDArray[np.bool_]:
    """Returns which labels may win, so that at most about half of those are expected to be empty.

    `top` is the largest eigenvalue of each label's whitened Gram matrix. Empty labels are counted from below: twice
    those in the lower half of what pure noise gives, and all labels without blocks. Where hardly any look empty, all
    labels may win: a class with few examples must not be lost to a check against empty labels.
    """
    p = noise_tail(top, tasks, width)
    empty = (space - len(p)) + min(len(p), 2 * int((p > 0.5).sum()))
    order = np.argsort(p)
    allowed = np.flatnonzero(empty * p[order] <= _FALSE_SHARE * np.arange(1, len(p) + 1))
    wins = np.ones(len(p), dtype=np.bool_)
    if len(allowed):
        wins[order[allowed[-1] + 1 :]] = False
    return wins


def noise_tail(top: npt.NDArray[np.float64], tasks: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.float64]:
    """Returns the chance that pure noise has a larger top eigenvalue: chi-square for one task, else Tracy-Widom.

    Tracy-Widom by a shifted gamma (Chiani 2014), centred and scaled as by Johnstone (2001); for few tasks up to twice
    too large, which this use tolerates. test_noise_tail_is_calibrated
    """
    t = np.maximum(tasks, 1).astype(np.float64)
    centre = (np.sqrt(width - 1) + np.sqrt(t)) ** 2
    scale = np.sqrt(centre) * (1 / np.sqrt(max(width - 1, 1)) + 1 / np.sqrt(t)) ** (1 / 3)
    several = gamma.sf((top - centre) / scale + 9.84801, a=46.446, scale=0.186054)
    tail: npt.NDArray[np.float64] = np.where(t == 1, chi2.sf(top, width), several)
    return tail
