"""Post-processing of noisy sums: it costs nothing, since sums and their noise are public.

A block is the noisy sum of one label in one task. `Blocks` holds all of them; a combination turns them into one weight
vector per label, to be scored by its product with a unit feature.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]

# A label's weight is divided by its debiased norm. Its square is known to within the deviation of the energy of pure
# noise, so no signal is taken to be smaller than three of these: else a label whose noise happens to be small would
# win everywhere. Against a floor of 2 % of the energy: up to 5 points more on ICD-10-CM, nowhere half a point less.
DEVIATIONS = 3.0
# Up to so many tasks all eigenvalues are computed, which takes tasks^3; beyond it the largest alone, in time linear in
# the tasks.
_FEW_TASKS = 64
_LANCZOS_STEPS = 24


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


def top_eigenvectors(whitened: Floats) -> npt.NDArray[np.float64]:
    """Returns the eigenvector of the largest eigenvalue of each label's Gram matrix over tasks.

    Of few tasks by a full decomposition. Of many by Lanczos' method in the space of features, with a start that is not
    orthogonal to any signal: the strongest block and the sum of all, or its opposite where these two would cancel.
    Where a label stands out from its noise this agrees to many digits; on pure noise the value is at most a few percent
    too small.
    test_many_tasks_are_combined_like_few, test_a_strong_block_against_all_others_is_found

    Args:
        whitened: Shape (labels, tasks, width); noise is 1.
    """
    labels, tasks, width = whitened.shape
    if tasks <= _FEW_TASKS:
        vectors: npt.NDArray[np.float64] = np.linalg.eigh(np.einsum("ltk,lsk->lts", whitened, whitened))[1][:, :, -1]
        return vectors
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
    inside = np.linalg.eigh(small)[1][:, :, -1]
    return _unit(_times(whitened, np.einsum("li,lik->lk", inside, basis)))


def _times(matrices: Floats, vectors: Floats) -> npt.NDArray[np.float64]:
    """One matrix times one vector for each label."""
    product: npt.NDArray[np.float64] = np.matmul(matrices, vectors[:, :, None])[:, :, 0]
    return product


def _unit(rows: Floats) -> npt.NDArray[np.float64]:
    """Rows of length one; a zero row stays."""
    norms = np.sqrt(np.einsum("lk,lk->l", rows, rows))[:, None]
    unit: npt.NDArray[np.float64] = rows / np.where(norms > 0, norms, 1)
    return unit
