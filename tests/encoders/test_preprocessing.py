"""Steps before the classifier that were fitted to sensitive data: refused where they can be seen."""

from typing import Any

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

import reticent as rt
from reticent import errors
from reticent.encoders.preprocessing import learns

X, Y = np.repeat(np.eye(2), 100, axis=0), ["a"] * 100 + ["b"] * 100
TEXTS = ["burning chest pain", "itching skin"] * 100


def model(**settings: Any) -> rt.ContinualClassifier:
    return rt.ContinualClassifier(
        labels=rt.PublicLabels(["a", "b"]), budget=rt.Budget(epsilon=8.0, delta=1e-5), **settings
    )


FITTED = {
    "scaler": StandardScaler(),
    "union": make_union(Normalizer(), StandardScaler()),
    "columns": make_column_transformer((StandardScaler(), [0])),
    "pipeline": make_pipeline(Normalizer(), StandardScaler()),
    "function": FunctionTransformer(StandardScaler().fit(X).transform),
}
PUBLIC = {
    "stateless": Normalizer(),
    "function": FunctionTransformer(np.abs),
    "frozen": FrozenEstimator(StandardScaler().fit(X + 1)),
    "columns": make_column_transformer((Normalizer(), [0, 1])),
    "nothing": "passthrough",
}


@pytest.mark.parametrize("step", list(FITTED))
def test_pipelines_that_fit_steps_are_refused(step):
    """A TfidfVectorizer before us had 1,582 private words in vocabulary_, and the statement said epsilon 1."""
    last = model()
    with pytest.raises(errors.InvalidValue, match=r"has fitted .* to the sensitive data.*Nothing was spent"):
        make_pipeline(FITTED[step], last).fit(X, Y)
    with pytest.raises(errors.InvalidValue, match="to the sensitive data"):
        make_pipeline(FITTED[step], make_pipeline(Normalizer(), last)).fit(X, Y)
    assert last.statement().spends == ()


@pytest.mark.parametrize("step", list(PUBLIC))
def test_pipelines_of_public_steps_learn(step):
    assert make_pipeline(PUBLIC[step], model()).fit(X, Y).score(X, Y) > 0.9
    assert not learns(PUBLIC[step])


def test_pipelines_below_others_are_seen():
    """Whatever calls `fit` of the pipeline: the check looks for its frame."""
    with pytest.raises(errors.InvalidValue, match="StandardScaler"):
        cross_val_score(make_pipeline(StandardScaler(), model()), X, Y, cv=2, error_score="raise")
    other = make_pipeline(StandardScaler(), FunctionTransformer(lambda x: model().fit(X, Y).decision_function(x)))
    assert other.fit(X, Y).transform(X).shape == (200, 2)  # the classifier is no step of that one


def test_methods_of_fitted_steps_are_no_encoders():
    words = TfidfVectorizer().fit(TEXTS)
    with pytest.raises(errors.InvalidValue, match="TfidfVectorizer learns from what it is fitted to"):
        model(encoder=words.transform).learn_task(TEXTS, Y, name="march")
    with pytest.raises(errors.InvalidValue, match="TfidfVectorizer learns from what it is fitted to"):
        rt.encoders.wrap(words.transform, width=5, name="words")
    hashed = HashingVectorizer(n_features=64)
    last = model(encoder=lambda texts: hashed.transform(texts).toarray()).learn_task(TEXTS, ["a", "b"] * 100, name="m")
    assert last.predict(TEXTS[:2]).tolist() == ["a", "b"]
