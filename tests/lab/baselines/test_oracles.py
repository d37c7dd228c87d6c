import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.encoders.adapters import last_layer
from reticent.lab.baselines.oracles import LabelOracle, NoPrivacy, OracleHeads, base_dataset, experiment, without_noise
from reticent.lab.baselines.sequential import Naive
from reticent.lab.data.streams import Stream
from reticent.privacy import accounting, events
from reticent.sensitive.learners.learner import Learner

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
LABELS = np.repeat(np.arange(12), 150)
FEATURES = np.eye(12)[LABELS] * 2 + np.random.default_rng(0).normal(size=(1800, 12)) * 0.7


PEFT = rt.PeftEnsemble(adapter=last_layer, task_size=450, epochs=4)


def learned(learner: Learner, ratio: float = 0.0) -> rt.ContinualClassifier:
    model = experiment(learner, rt.ReleasedLabels(), budget=BUDGET)
    for name, x, y in Stream(tasks=4, ratio=ratio, seed=2).split(FEATURES, LABELS):
        model.learn_task(x, y, name=name)
    return model


@pytest.mark.parametrize("learner", [NoPrivacy(), LabelOracle(), OracleHeads(PEFT)])
def test_baselines_say_they_are_not_private(learner):
    model = learned(learner)
    assert "NOT PRIVATE" in model.privacy_statement()
    assert "infinity" in model.privacy_statement()
    assert sorted(model.classes_) == list(range(12))
    assert not any(r.private for r in model.releases)


def test_exact_sums_are_the_plain_cosine_classifier():
    model = learned(NoPrivacy(), ratio=0.5)
    unit = FEATURES / np.linalg.norm(FEATURES, axis=1, keepdims=True)
    sums = np.array([unit[i == LABELS].sum(axis=0) for i in range(12)])
    plain = (unit @ (sums / np.linalg.norm(sums, axis=1, keepdims=True)).T).argmax(axis=1)
    assert np.mean(model.predict(FEATURES).astype(int) == plain) > 0.999


def test_the_oracle_updates_only_what_occurs():
    model = learned(LabelOracle())
    assert [len(r.parameters["rows"]) for r in model.releases] == [3, 3, 3, 3]
    assert model.score(FEATURES, LABELS) > 0.8


def test_heads_of_the_oracle_have_exactly_the_labels_of_their_task():
    model = learned(OracleHeads(without_noise(PEFT)), ratio=0.5)
    names = list(model.classes_)
    for (_, _, y), release in zip(
        Stream(tasks=4, ratio=0.5, seed=2).split(FEATURES, LABELS), model.releases, strict=True
    ):
        rows = release.parameters["rows"]
        assert {names[row] for row in rows} == set(y.tolist())
        assert rows.tolist() == sorted(rows.tolist())
        assert release.parameters["head.weight"].shape == (len(rows), 12)
    assert model.score(FEATURES, LABELS) > 0.4  # chance is a twelfth: each row is the label it says


def test_heads_of_the_oracle_pay_for_their_training():
    model = learned(OracleHeads(PEFT))
    for release in model.releases:
        assert isinstance(release.event, events.Composed)
        training, oracle = release.event.parts
        assert accounting.epsilon(training, BUDGET.delta) == pytest.approx(BUDGET.epsilon, rel=1e-3)
        assert oracle == events.NonPrivate()
    assert model.statement().now.epsilon == float("inf")


@pytest.mark.parametrize("learner", [NoPrivacy(), LabelOracle(), OracleHeads(PEFT)])
def test_ordinary_ledgers_refuse_non_private_learners(learner):
    model = rt.ContinualClassifier(learner=learner, labels=rt.ReleasedLabels(), budget=BUDGET)
    with pytest.raises(errors.BudgetExceeded):
        model.learn_task(FEATURES, LABELS, name="march")


@pytest.mark.parametrize("learner", [rt.Cosine(), rt.Cosine.paper(), PEFT, Naive(PEFT)], ids=lambda x: type(x).__name__)
def test_base_dataset_is_not_private(learner):
    """Its labels came from the data, and releases said private=True."""
    labels = base_dataset(LABELS)
    model = experiment(learner, labels, budget=BUDGET)
    model.learn_task(FEATURES, LABELS, name="march")
    assert [release.private for release in model.releases] == [False]
    assert not any(spend.private for spend in model.statement().spends)
    assert model.spent() == {**model.spent(), "epsilon": float("inf"), "private": False}
    assert "NOT PRIVATE" in model.privacy_statement()
    assert "Now         What one person has lost has no bound." in model.privacy_statement()


def test_base_dataset_is_refused_by_models(tmp_path):
    """Only the lab's own ledger accepts labels from the data."""
    for path in (None, tmp_path / "model"):
        model = rt.ContinualClassifier(labels=base_dataset(LABELS), budget=BUDGET, path=path)
        with pytest.raises(errors.InvalidValue, match="labels that are public"):
            model.learn_task(FEATURES, LABELS, name="march")
    assert not (tmp_path / "model").exists()


def test_base_dataset_is_every_label_there_is():
    assert base_dataset(["b", None, "a", "b", 3]).labels == (3, "a", "b")
