"""Aggregation: from the logits of several models, one per task, to one score per label. Post-processing, free.

A model l knows the labels O_l and gives logits f_l(x). Rows of the label space say which labels those are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, softmax

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Logits:
    """The output of one model: logits of shape (n, len(rows)) for the labels in these rows, ascending."""

    rows: Ints
    values: Floats


Aggregate = Callable[[Sequence[Logits], Ints], Floats]
"""From models and the rows of all labels to scores. An `Ensemble` computes the logits of a model each time that it is
asked for it, so one that looks at models one after the other needs the memory of one."""


def argmax(models: Sequence[Logits], rows: Ints) -> Floats:
    """The paper: the largest logit of any model that knows the label.

    >>> one, two = Logits(np.array([0]), np.array([[2.0]])), Logits(np.array([0, 1]), np.array([[1.0, 3.0]]))
    >>> argmax([one, two], np.array([0, 1])).tolist()
    [[2.0, 3.0]]
    """
    return _largest(models, rows)


def median(models: Sequence[Logits], rows: Ints) -> Floats:
    """The paper: argmax after each model's own median is taken off.

    >>> one, two = Logits(np.array([0]), np.array([[2.0]])), Logits(np.array([0, 1]), np.array([[1.0, 3.0]]))
    >>> median([one, two], np.array([0, 1])).tolist()
    [[0.0, 1.0]]
    """
    return _largest(map(_from_median, models), rows)


def entropy(models: Sequence[Logits], rows: Ints) -> Floats:
    """Zhao et al. (2024), equation 11 with gamma = 1: logits added up, confident models weigh more.

    >>> rows = np.array([0, 1])
    >>> sure, unsure = Logits(rows, np.array([[9.0, 0.0]])), Logits(rows, np.array([[0.0, 1.0]]))
    >>> int(entropy([sure, unsure], rows).argmax())
    0
    """
    doubts = [_entropy(model.values) for model in models if len(model.rows)]
    scores = np.zeros((len(doubts[0]) if doubts else 0, len(rows)), np.float32)
    weights = iter(softmax(-np.stack(doubts), axis=0) if doubts else ())
    for model in models:  # once more: computed again rather than kept
        if len(model.rows):
            scores[:, _columns(rows, model.rows)] += next(weights)[:, None] * model.values
    return scores


def pooled(models: Sequence[Logits], rows: Ints) -> Floats:
    """Ours: the rows of all heads become one head, by evidence (`heads.pool`), before anything is scored.

    An `Ensemble` does so where all heads read the same features; otherwise this is `argmax`.

    >>> one, two = Logits(np.array([0]), np.array([[2.0]])), Logits(np.array([0, 1]), np.array([[1.0, 3.0]]))
    >>> pooled([one, two], np.array([0, 1])).tolist()
    [[2.0, 3.0]]
    """
    return argmax(models, rows)


AGGREGATES: Mapping[str, Aggregate] = {"argmax": argmax, "median": median, "entropy": entropy, "pooled": pooled}


def _largest(models: Iterable[Logits], rows: Ints) -> Floats:
    """Returns the largest logit of each label; of several models no more than one is held at a time."""
    best = np.zeros((0, len(rows)), np.float32)
    for i, model in enumerate(models):
        if not i:
            best = np.full((len(model.values), len(rows)), -np.inf, np.float32)
        at = _columns(rows, model.rows)
        if isinstance(at, slice):
            np.maximum(best[:, at], model.values, out=best[:, at])
        else:
            best[:, at] = np.maximum(best[:, at], model.values)
    return best


def _from_median(model: Logits) -> Logits:
    if not len(model.rows):
        return model
    return Logits(model.rows, model.values - np.median(model.values, axis=1, keepdims=True))


def _columns(rows: Ints, mine: Ints) -> Ints | slice:
    """Returns where a model's labels are among all: as a slice where they lie together, which copies nothing."""
    at = np.searchsorted(rows, mine)
    return slice(at[0], at[-1] + 1) if len(at) and at[-1] - at[0] == len(at) - 1 else at


def _entropy(logits: Floats) -> Floats:
    log = log_softmax(logits, axis=1)
    doubt: Floats = -np.sum(np.exp(log) * log, axis=1)
    return doubt
