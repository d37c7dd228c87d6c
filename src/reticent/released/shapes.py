"""How the examples of a label may be spread over tasks: shapes of a few kinds, and tasks as a linear model of sums.

A label's shape is

- a home task, and a share of the examples spread evenly over all tasks (0, 1/4, 1/2, 3/4 or all of them), or
- a few tasks alike, the best 2, 3, ... 8 of them, each at the price of its choice among all of that size.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from reticent.released.denoise import Blocks

Array = npt.NDArray[np.float64]

# Shares of the examples that are not in the home task; with all of them there is no home.
SPREAD = (0.0, 0.25, 0.5, 0.75)
KINDS = len(SPREAD) + 2  # all of them, and a few tasks
FEW = 8  # tasks of a label that is in few
LIKELY = 64  # tasks that may be a home, the strongest ones: bounds the work of a label


@dataclass(frozen=True)
class Columns:
    """Labels' tasks as a linear model: whitened sums are sum_j s_j c_j mu^T + noise 1, over likely tasks j and 'all'.

    Args:
        tasks: Which tasks are likely homes, by label: shape (labels, likely).
        usable: Which of these can hold the label.
        count: How many tasks can, by label.
        sums: Columns times whitened sums, the last one for even spread: shape (labels, likely + 1, width).
        gram: Products of the columns: shape (labels, likely + 1, likely + 1).
    """

    tasks: npt.NDArray[np.int64]
    usable: npt.NDArray[np.bool_]
    count: Array
    sums: Array
    gram: Array


def columns_of(blocks: Blocks, part: slice) -> Columns:
    """Returns the tasks of some labels as columns."""
    noise = blocks.noise[part]
    there = np.isfinite(noise)
    whitened = blocks.sums[part] / noise[:, :, None]  # zero where the noise is infinite
    scale = np.where(there, 1 / noise, 0.0)
    weights = there * (1.0 if blocks.weights is None else blocks.weights[part])
    labels, tasks = noise.shape
    count = there.sum(axis=1).astype(np.float64)
    likely = np.broadcast_to(np.arange(tasks), (labels, tasks))
    if tasks > LIKELY:
        held = whitened if blocks.mixing is None else np.matmul(blocks.mixing.T, scale[:, :, None] * whitened)
        size = 1.0 if blocks.mixing is None else np.sqrt(scale**2 @ blocks.mixing**2)
        strength = np.einsum("ltk,ltk->lt", held, held) / np.where(there, size, np.inf) ** 2
        likely = np.sort(np.argpartition(-strength, LIKELY, axis=1)[:, :LIKELY], axis=1)
    rows = np.arange(labels)[:, None]
    spread = weights if blocks.mixing is None else weights @ blocks.mixing.T
    even = spread * scale / np.maximum(count, 1)[:, None]
    if blocks.mixing is None:  # a column per task has one entry: nothing to multiply out
        own = (weights * scale)[rows, likely]
        gram = np.zeros((labels, own.shape[1] + 1, own.shape[1] + 1))
        np.einsum("lii->li", gram)[:] = np.concatenate([own**2, np.einsum("lt,lt->l", even, even)[:, None]], axis=1)
        gram[:, -1, :-1] = gram[:, :-1, -1] = own * even[rows, likely]
        sums = np.concatenate([own[:, :, None] * whitened[rows, likely], np.matmul(even[:, None], whitened)], axis=1)
    else:
        chosen = blocks.mixing.T[likely] * weights[rows, likely][:, :, None] * scale[:, None, :]
        columns = np.concatenate([chosen, even[:, None]], axis=1)
        sums, gram = np.matmul(columns, whitened), np.matmul(columns, columns.transpose(0, 2, 1))
    return Columns(likely, there[rows, likely], count, sums, gram)


@dataclass(frozen=True)
class Shapes:
    """Shapes of each label, over likely tasks and 'all': shape (labels, shapes, likely + 1).

    Args:
        kinds: The kind of each shape.
        price: Log of a shape's chance within its kind, by label.
    """

    over: Array
    kinds: npt.NDArray[np.int64]
    price: Array


def shapes_of(columns: Columns, names: Array, named: npt.NDArray[np.bool_]) -> Shapes:
    """Returns the shapes that labels may have; names, where there are any, help to choose a few tasks."""
    labels, size, width = columns.sums.shape
    likely = size - 1
    over, kinds, price = [], [], []
    homes = np.where(columns.usable, -np.log(np.maximum(columns.count, 1))[:, None], -np.inf)
    for kind, spread in enumerate(SPREAD):
        shape = np.concatenate([(1 - spread) * np.eye(likely), np.full((likely, 1), spread)], axis=1)
        over.append(np.broadcast_to(shape, (labels, likely, size)))
        kinds += [kind] * likely
        price.append(homes)
    over.append(np.broadcast_to(np.eye(size)[-1], (labels, 1, size)))
    kinds.append(len(SPREAD))
    price.append(np.zeros((labels, 1)))
    products = np.matmul(columns.sums[:, :-1], columns.sums[:, :-1].transpose(0, 2, 1))
    gram = columns.gram[:, :-1, :-1]
    along = np.einsum("ljk,lk->lj", columns.sums[:, :-1], names)
    favour = 2 * math.sqrt(width) * named[:, None]  # where the likelihood of names and of energy are about even
    chosen = np.zeros((labels, likely), np.bool_)
    rows = np.arange(labels)
    for few in range(1, min(FEW, likely // 2) + 1):  # greedily: of all subsets of a size the best that grows
        now = chosen.astype(np.float64)
        energy, squares = _with_one_more(now, products), np.maximum(_with_one_more(now, gram), 1e-300)
        towards = ((now * along).sum(axis=1)[:, None] + along) / np.sqrt(squares)
        gain = np.where(columns.usable & ~chosen, energy / squares + favour * towards, -np.inf)
        best = gain.argmax(axis=1)
        chosen[rows, best] = True
        if few > 1:
            over.append(np.concatenate([chosen / few, np.zeros((labels, 1))], axis=1)[:, None, :])
            kinds.append(len(SPREAD) + 1)
            enough = columns.count >= few
            ways = gammaln(columns.count + 1) - gammaln(few + 1) - gammaln(np.maximum(columns.count - few, 0) + 1)
            price.append(np.where(enough, -ways, -np.inf)[:, None])
    return Shapes(np.concatenate(over, axis=1), np.array(kinds), np.concatenate(price, axis=1))


def squares_of(over: Array, products: Array) -> Array:
    """Returns s^T P s for all shapes s of each label."""
    squares: Array = np.einsum("lhi,lhi->lh", np.matmul(over, products), over)
    return squares


def _with_one_more(now: Array, products: Array) -> Array:
    """Returns s^T P s with each one of the tasks added to s."""
    once = np.matmul(products, now[:, :, None])[:, :, 0]
    grown: Array = (now * once).sum(axis=1)[:, None] + 2 * once + np.einsum("lii->li", products)
    return grown
