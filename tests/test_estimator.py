"""What people expect of a scikit-learn classifier: probabilities, copies, settings, refusals."""

import copy
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import reticent as rt
from reticent import errors
from reticent.gate.noise import NoiseSource

BUDGET = rt.Budget(epsilon=2.0, delta=1e-5)
WEIGHTED: Any = {"budget": BUDGET, "class_weight": "balanced"}
MISSPELT: Any = {"bugdet": BUDGET}
DOCS = Path(__file__).parents[1] / "docs"
CENTRES = np.random.default_rng(0).normal(size=(4, 32))


def data(
    each: int = 200, labels: tuple[object, ...] = ("a", "b", "c"), seed: int = 1
) -> tuple[np.ndarray, list[object]]:
    draw = np.random.default_rng(seed)
    x = np.concatenate([CENTRES[i] + draw.normal(size=(each, 32)) for i in range(len(labels))])
    return x, [label for label in labels for _ in range(each)]


def learned(
    path: Path | None = None, labels: tuple[object, ...] = ("a", "b", "c"), **settings: Any
) -> rt.ContinualClassifier:
    model = rt.ContinualClassifier(labels=rt.PublicLabels(labels), budget=BUDGET, path=path, **settings)
    return model.learn_task(*data(labels=labels), name="march")


# --- probabilities and abstaining


def test_probabilities_are_in_the_order_of_classes():
    model, (x, y) = learned(), data(seed=2)
    found = model.predict_proba(x)
    assert found.shape == (600, 3)
    assert np.allclose(found.sum(axis=1), 1)
    assert (model.classes_[found.argmax(axis=1)] == model.predict(x)).all()
    assert np.allclose(np.exp(model.predict_log_proba(x)), found)
    assert log_loss(y, found, labels=list(model.classes_)) < 0.7
    assert (model.predict_top_k(x, 2) == model.top_k_proba(x, 2)[0]).all()


def test_nothing_known_has_no_probabilities():
    model = rt.ContinualClassifier(labels=rt.ReleasedLabels(), budget=BUDGET)
    with pytest.warns(errors.ReticentWarning, match="NO LABEL IS KNOWN"):
        model.learn_task(*data(2), name="march")
    assert model.classes_.tolist() == []
    with pytest.raises(errors.InvalidValue, match="No label is known yet"):
        model.predict_proba(np.ones((2, 32)))
    assert model.predict(np.ones((2, 32)), abstain=0.5).tolist() == [rt.UNKNOWN] * 2


def test_abstaining_is_unknown_below_the_threshold():
    model, (x, _) = learned(), data(seed=2)
    x[5] = np.nan
    sure = model.predict_proba(x).max(axis=1)
    plain, most = model.predict(x), float(np.median(sure[np.isfinite(sure)]))
    found = model.predict(x, abstain=most)
    assert (found[sure >= most] == plain[sure >= most]).all()
    assert set(found[~(sure >= most)]) == {rt.UNKNOWN}
    assert (model.predict(x, abstain=0.0) == plain).all()
    labels, chances = model.top_k_proba(x, 3, abstain=most)
    assert ((labels == rt.UNKNOWN).all(axis=1) == ~(sure >= most)).all()
    assert np.array_equal(chances.max(axis=1), sure, equal_nan=True)


@pytest.mark.parametrize("abstain", [-0.1, 1.1, float("nan"), "half", True])
def test_thresholds_are_refused(abstain):
    with pytest.raises(errors.InvalidValue, match="Expected abstain"):
        learned().predict(CENTRES, abstain=abstain)


def test_probabilities_of_a_huge_space_are_refused_and_its_best_are_not():
    labels = ("a", "b", "c", *(f"never {i}" for i in range(100_000)))
    model = rt.ContinualClassifier(labels=rt.PublicLabels(labels), budget=BUDGET).learn_task(*data(), name="march")
    with pytest.raises(errors.InvalidValue, match="top_k_proba for the best few"):
        model.predict_proba(CENTRES)
    best, chances = model.top_k_proba(CENTRES[:3], 2)
    assert best[:, 0].tolist() == ["a", "b", "c"]
    assert (chances[:, 0] > chances[:, 1]).all()
    assert model.predict(CENTRES[:3], abstain=0.1).tolist() == ["a", "b", "c"]


# --- labels, pipelines, arguments


def test_whole_numbers_are_predicted_as_numbers():
    """As scikit-learn's metrics need them; beside UNKNOWN they stay objects."""
    model, (x, y) = learned(labels=(7, 8, 9)), data(labels=(7, 8, 9), seed=2)
    assert model.classes_.dtype == model.predict(x).dtype == np.int64
    assert accuracy_score(y, model.predict(x)) == model.score(x, y)
    x[0] = np.nan
    assert model.predict(x)[0] == rt.UNKNOWN
    large = rt.ContinualClassifier(labels=rt.PublicLabels([1, 2**70]), budget=BUDGET)
    assert large.classes_.tolist() == [1, 2**70]


def test_pipelines_give_frames_and_sparse_matrices():
    x, y = data()
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b", "c"]), budget=BUDGET)
    frames = make_pipeline(FunctionTransformer(np.tanh, feature_names_out="one-to-one"), model)
    frames.set_output(transform="pandas")
    assert frames.fit(x, y).score(x, y) > 0.9
    texts = [f"patient says {label}{label} {i}" for i, label in enumerate(y)]
    model = rt.ContinualClassifier(labels=model.labels, budget=BUDGET)
    words = make_pipeline(HashingVectorizer(n_features=256), model)
    assert words.fit(texts, y).score(texts, y) > 0.9
    assert words.predict_proba(texts[:2]).shape == (2, 3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda model: rt.ContinualClassifier(**WEIGHTED), "no class_weight: how much"),
        (lambda model: model.set_params(class_weight="balanced"), "no class_weight: how much"),
        (lambda model: model.fit(*data(), sample_weight=np.ones(600)), "no sample_weight: how much"),
        (lambda model: model.partial_fit(*data(), sample_weight=np.ones(600)), "no sample_weight: how much"),
        (lambda model: model.partial_fit(*data(), classes=["a"]), "no classes: the label policy"),
        (lambda model: model.fit(data()[0]), "requires y"),
    ],
)
def test_weights_are_refused_with_the_reason(call, sentence):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b", "c"]), budget=BUDGET)
    with pytest.raises(errors.InvalidValue, match=sentence):
        call(model)
    assert model.statement().spends == ()


def test_unknown_arguments_are_type_errors():
    with pytest.raises(TypeError, match="unexpected keyword argument 'bugdet'"):
        rt.ContinualClassifier(**MISSPELT)


def test_what_is_fixed_cannot_be_set_after_the_model_is_made(tmp_path):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a"]), budget=BUDGET)
    model.set_params(budget=rt.Budget(epsilon=3.0, delta=1e-5), labels=rt.PublicLabels(["a", "b", "c"]))
    model.learn_task(*data(), name="march")
    for name, value in {
        "budget": BUDGET,
        "labels": rt.PublicLabels(["a"]),
        "path": tmp_path,
        "memory": rt.Memory(vault=tmp_path),
    }.items():
        with pytest.raises(errors.InvalidValue, match=f"Expected the {name} that the model was made with"):
            model.set_params(**{name: value})
    with pytest.raises(errors.InvalidValue, match="whole values"):
        model.set_params(budget__epsilon=9.0)
    assert model.spent()["budget"] == 3.0
    model.set_params(budget=rt.Budget(epsilon=3.0, delta=1e-5), learner=rt.Cosine(), noise=NoiseSource.from_os())
    model.learn_task(*data(), name="april")


# --- copies


def by_joblib(model: rt.ContinualClassifier, tmp_path: Path) -> rt.ContinualClassifier:
    joblib.dump(model, tmp_path / "model.joblib")
    again: rt.ContinualClassifier = joblib.load(tmp_path / "model.joblib")
    return again


COPIES: dict[str, Callable[[rt.ContinualClassifier, Path], rt.ContinualClassifier]] = {
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),  # noqa: S301
    "joblib": by_joblib,
    "a copy of a copy": lambda model, _: copy.deepcopy(pickle.loads(pickle.dumps(model))),  # noqa: S301
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("kept", ["in memory", "in a folder"])
def test_copies_only_predict(way, kept, tmp_path):
    model = learned(None if kept == "in memory" else tmp_path / "model", noise=NoiseSource.seeded(1))
    other, (x, y) = COPIES[way](model, tmp_path), data(seed=2)
    assert (other.predict(x) == model.predict(x)).all()
    assert np.array_equal(other.predict_proba(x), model.predict_proba(x))
    assert other.score(x, y) == model.score(x, y)
    for verb in (
        lambda: other.learn_task(x, y, name="april"),
        lambda: other.extend_labels(["d"]),
        lambda: other.private_score(x, y, epsilon=0.1, name="test"),
        lambda: other.save(tmp_path / "saved"),
        other.spent,
        other.privacy_statement,
    ):
        with pytest.raises(errors.LedgerError, match="This is a copy of a model"):
            verb()
    with pytest.raises(errors.InvalidValue, match="it cannot change"):
        other.set_params(budget=rt.Budget(epsilon=9.0, delta=1e-5))
    assert "ContinualClassifier" in other._repr_html_()
    assert [spend.task for spend in model.learn_task(x, y, name="april").statement().spends] == ["march", "april"]
    assert len(other.releases) == 1


def test_a_copy_after_a_spend_without_a_release_has_no_budget():
    """The ledger has a row, the model has no release: a copy must not begin anew."""
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a"]), budget=BUDGET)
    assert model.statement().spends == ()  # the ledger exists from here on
    with pytest.raises(errors.LedgerError, match="copy of a model"):
        copy.deepcopy(model).learn_task(np.ones((3, 2)), ["a"] * 3)


def test_what_has_not_begun_is_copied_whole(tmp_path):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b", "c"]), budget=BUDGET)
    copies = (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), clone(model), clone(learned()))  # noqa: S301
    for other in copies:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.ReticentWarning)  # of what they cost together
            assert other.fit(*data()).score(*data(seed=2)) > 0.9


def test_showing_a_model_makes_none(tmp_path):
    model = rt.ContinualClassifier(budget=BUDGET, path=tmp_path / "model")
    assert "ContinualClassifier" in model._repr_html_()
    assert not (tmp_path / "model").exists()


# --- scikit-learn's own checks


def test_failing_checks_of_scikit_learn_are_those_in_the_docs(monkeypatch):
    """With noise from a seed, so that no check fails by chance; a budget so large that every class is released."""
    monkeypatch.setattr(NoiseSource, "from_os", classmethod(lambda _: NoiseSource.seeded(0)))
    model = rt.ContinualClassifier(labels=rt.ReleasedLabels(class_size=3), budget=rt.Budget(epsilon=99.0, delta=0.9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(model, on_skip=None, on_fail=None)
    text = (DOCS / "sklearn.md").read_text(encoding="utf-8")
    assert len(found) > 40
    listed = set(re.findall(r"`(check_\w+)`", text)) - {"check_estimator"}
    assert {one["check_name"] for one in found if one["status"] != "passed"} == listed
