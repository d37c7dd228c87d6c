"""Aggregation: from the logits of several models, one per task, to one score per label. Post-processing, free.

A model l knows the labels O_l and gives logits f_l(x). Rows of the label space say which labels those are.
"""

from collections.abc import Callable, Mapping, Sequence
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


def argmax(models: Sequence[Logits], rows: Ints) -> Floats:
    """The paper: the largest logit of any model that knows the label.

    >>> one, two = Logits(np.array([0]), np.array([[2.0]])), Logits(np.array([0, 1]), np.array([[1.0, 3.0]]))
    >>> argmax([one, two], np.array([0, 1])).tolist()
    [[2.0, 3.0]]
    """
    best = np.full((len(models[0].values), len(rows)), -np.inf, np.float32)
    for model in models:
        at = np.searchsorted(rows, model.rows)
        best[:, at] = np.maximum(best[:, at], model.values)
    return best


def median(models: Sequence[Logits], rows: Ints) -> Floats:
    """The paper: argmax after each model's own median is taken off.

    >>> one, two = Logits(np.array([0]), np.array([[2.0]])), Logits(np.array([0, 1]), np.array([[1.0, 3.0]]))
    >>> median([one, two], np.array([0, 1])).tolist()
    [[0.0, 1.0]]
    """
    shifted = [Logits(m.rows, m.values - np.median(m.values, axis=1, keepdims=True)) for m in models if len(m.rows)]
    return argmax(shifted or models, rows)


def entropy(models: Sequence[Logits], rows: Ints) -> Floats:
    """Zhao et al. (2024), equation 11 with gamma = 1: logits added up, confident models weigh more.

    >>> rows = np.array([0, 1])
    >>> sure, unsure = Logits(rows, np.array([[9.0, 0.0]])), Logits(rows, np.array([[0.0, 1.0]]))
    >>> int(entropy([sure, unsure], rows).argmax())
    0
    """
    models = [model for model in models if len(model.rows)]
    doubt = np.stack([_entropy(model.values) for model in models]) if models else np.zeros((0, 1))
    weights = softmax(-doubt, axis=0)
    scores = np.zeros((len(models[0].values) if models else 0, len(rows)), np.float32)
    for model, weight in zip(models, weights, strict=True):
        scores[:, np.searchsorted(rows, model.rows)] += weight[:, None] * model.values
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


def _entropy(logits: Floats) -> Floats:
    log = log_softmax(logits, axis=1)
    doubt: Floats = -np.sum(np.exp(log) * log, axis=1)
    return doubt
