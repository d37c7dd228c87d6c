"""Names and order of columns: kept with the model from the first task on, and refused where they differ."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import reticent as rt
from reticent import errors

FRAME = pd.DataFrame(np.repeat(np.eye(3), 200, axis=0), columns=["age", "height", "weight"])
Y = ["x"] * 200 + ["y"] * 200 + ["z"] * 200
OTHERS: dict[str, Any] = {
    "reordered": FRAME[["weight", "age", "height"]],
    "renamed": FRAME.rename(columns={"age": "years"}),
    "fewer": FRAME[["age", "height"]],
    "polars": pl.from_pandas(FRAME[["height", "age", "weight"]]),
}


def learned(X: Any, path: Any = None) -> rt.ContinualClassifier:
    labels, budget = rt.PublicLabels(["x", "y", "z"]), rt.Budget(epsilon=8.0, delta=1e-5)
    return rt.ContinualClassifier(labels=labels, budget=budget, path=path).learn_task(X, Y, name="march")


@pytest.mark.parametrize("other", list(OTHERS))
def test_other_columns_are_refused(other, tmp_path):
    """Accuracy fell from 1.00 to 0.06 in silence where columns came in another order."""
    model = learned(FRAME, tmp_path / "model")
    for again in (model, rt.load(tmp_path / "model")):
        assert again.feature_names_in_.tolist() == ["age", "height", "weight"]
        assert again.n_features_in_ == 3
        assert again.score(FRAME, Y) > 0.99
        assert again.score(pl.from_pandas(FRAME), Y) > 0.99
        for answer in (again.predict, again.predict_top_k, again.decision_function):
            with pytest.raises(ValueError, match="the columns of the first task"):
                answer(OTHERS[other])
        with pytest.raises(errors.InvalidValue, match="Nothing was spent"):
            again.learn_task(OTHERS[other], Y, name="april")
        with pytest.raises(errors.InvalidValue, match="Nothing was spent"):
            again.private_score(OTHERS[other], Y, epsilon=0.5, name="test")
    assert [spend.task for spend in model.statement().spends] == ["march"]


def test_arrays_have_no_names():
    named, plain = learned(FRAME), learned(FRAME.to_numpy())
    with pytest.warns(errors.ReticentWarning, match="no names of columns, and the first task had some"):
        named.predict(FRAME.to_numpy())
    with pytest.warns(errors.ReticentWarning, match="names, and the first task had none"):
        plain.predict(FRAME)
    assert not hasattr(plain, "feature_names_in_")
    assert plain.n_features_in_ == 3
    assert not hasattr(rt.ContinualClassifier(budget=rt.Budget(epsilon=1.0, delta=1e-5)), "n_features_in_")
    learned(pd.DataFrame(FRAME.to_numpy())).predict(FRAME.to_numpy())  # columns called 0, 1, 2 are no names


@pytest.mark.parametrize(
    ("columns", "sentence"), [(["a", "a", "b"], "distinct names"), ([f"c{i}" for i in range(10_001)], "10,000 columns")]
)
def test_names_that_cannot_be_kept_are_refused(columns, sentence):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["x"]), budget=rt.Budget(epsilon=1.0, delta=1e-5))
    with pytest.raises(errors.InvalidValue, match=sentence):
        model.learn_task(pd.DataFrame(np.ones((2, len(columns))), columns=columns), ["x", "x"], name="march")
    assert model.statement().spends == ()
