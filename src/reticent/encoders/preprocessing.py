"""Steps before the classifier: what was fitted to sensitive data has learned from it, and no ledger knows of that.

A vectorizer keeps the words of the records, a scaler their extremes: whoever has the pipeline has these, without noise.
"""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from reticent import errors

_ADVICE = (
    "Use steps without a memory (FunctionTransformer, HashingVectorizer, Normalizer), or fit a step on public data and "
    "pass FrozenEstimator(step), your word that nothing of it comes from these data. Nothing was spent."
)


def refuse_fitted_steps(model: object) -> None:
    """Refuses to learn in a Pipeline that fits other steps to the same data before.

    A Pipeline tells its last step nothing of the others, so they are read from the frame of its `fit`.

    Guarantees:
      - Steps that learn from data are refused before the spend, also inside of unions and column transformers;
        stateless ones and frozen ones are not.                                test_pipelines_that_fit_steps_are_refused

    Args:
        model: The classifier that is about to learn.
    """
    for pipeline in _pipelines_above(sys._getframe(1), model):
        fitted = next((step for _, step in pipeline.steps[:-1] if learns(step)), None)
        if fitted is not None:
            raise errors.InvalidValue(
                f"This Pipeline has fitted {type(fitted).__name__} to the sensitive data, which is outside of any "
                f"privacy statement: it keeps what it has learned, without noise. {_ADVICE}"
            )


def refuse_fitted_encoder(encoder: object) -> None:
    """Refuses a method of a scikit-learn step that learns from data as an encoder, unless the step is frozen."""
    owner = getattr(encoder, "__self__", None)
    if isinstance(owner, BaseEstimator) and learns(owner):
        raise errors.InvalidValue(
            f"Expected an encoder that was not fitted to sensitive data; {type(owner).__name__} learns from what it is "
            f"fitted to. {_ADVICE}"
        )


def learns(step: Any) -> bool:
    """Returns whether a step of a pipeline learns from the data that it is fitted to.

    >>> from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
    >>> learns(HashingVectorizer()), learns(TfidfVectorizer())
    (False, True)
    """
    if step is None or isinstance(step, str | FrozenEstimator):  # "passthrough", "drop"
        return False
    if isinstance(step, Pipeline | FeatureUnion):
        return any(learns(inner) for _, inner in getattr(step, "steps", getattr(step, "transformer_list", [])))
    if isinstance(step, ColumnTransformer):
        return any(learns(inner) for _, inner, _ in step.transformers)
    owner = getattr(getattr(step, "func", None), "__self__", None)  # of a FunctionTransformer
    if isinstance(owner, BaseEstimator):
        return learns(owner)
    return not isinstance(step, BaseEstimator) or bool(get_tags(step).requires_fit)


def _pipelines_above(frame: FrameType | None, model: object) -> Iterator[Pipeline]:
    """Yields the pipelines whose `fit` is under way and whose last step is the model, or leads to it."""
    last = model
    while frame is not None:
        mine = frame.f_locals.get("self") if frame.f_code.co_name == "fit" else None
        if isinstance(mine, Pipeline) and mine.steps and mine.steps[-1][1] is last:
            last = mine
            yield mine
        frame = frame.f_back
