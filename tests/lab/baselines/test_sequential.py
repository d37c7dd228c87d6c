"""Naive, and Desai et al.: what they spend, what they forget."""

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.gate.noise import NoiseSource
from reticent.lab.baselines.oracles import experiment, without_noise
from reticent.lab.baselines.sequential import Desai, Naive, projected
from reticent.privacy import accounting

BUDGET = rt.Budget(epsilon=4.0, delta=1e-5)
FAST = rt.PeftEnsemble(task_size=600, epochs=6)
SPACE = rt.PublicLabels(list("abcd"))


def data(labels: str, each: int, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    centres = np.random.default_rng(7).normal(size=(26, 12)) * 3
    draw = np.random.default_rng(seed)
    x = np.concatenate([centres[ord(label) - 97] + draw.normal(size=(each, 12)) for label in labels])
    return x.astype(np.float32), [label for label in labels for _ in range(each)]


def stream(model: rt.ContinualClassifier) -> rt.ContinualClassifier:
    return model.learn_task(*data("ab", 300), name="march").learn_task(*data("cd", 300), name="april")


def test_naive_follows_the_last_task():
    """The same inputs under other names: what was learned first is overwritten."""
    x, y = data("ab", 300)
    model = rt.ContinualClassifier(labels=SPACE, learner=Naive(FAST), budget=BUDGET)
    assert model.learn_task(x, y, name="march").score(*data("ab", 50, seed=1)) > 0.9
    model.learn_task(x, [{"a": "c", "b": "d"}[label] for label in y], name="april")
    assert model.score(*data("ab", 50, seed=1)) < 0.1


def test_naive_begins_where_the_last_task_ended():
    model = rt.ContinualClassifier(labels=SPACE, learner=Naive(FAST), budget=rt.Budget(epsilon=50.0, delta=1e-5))
    model.learn_task(*data("ab", 300), name="march").learn_task(np.zeros((0, 12), np.float32), [], name="empty")
    first, second = (release.parameters["head.weight"] for release in model.releases)
    alone = np.corrcoef(first.ravel().astype(float), second.ravel().astype(float))[0, 1]
    assert alone > 0.5  # an empty task adds noise to the model before, it does not begin anew


def test_desai_keeps_a_share_of_every_class_apart():
    learner = Desai(FAST, tasks=2, share=0.1)
    model = experiment(learner, SPACE, budget=BUDGET)
    stream(model)
    labels = [label for _, part in learner.buffer for label in part]
    assert sorted(labels) == [0] * 30 + [1] * 30 + [2] * 30 + [3] * 30
    assert "raw examples" in learner.statement
    assert model.score(*data("cd", 50, seed=1)) > 0.8


def test_desai_is_accounted_as_in_the_paper():
    learner = Desai(FAST, tasks=10)
    training, memory = learner.events(BUDGET, rate=0.2, steps=30)
    assert (training.steps, memory.steps) == (30, 9 * 30)
    assert memory.noise_multiplier > training.noise_multiplier
    for event in (training, memory):  # each for other persons: parallel
        assert accounting.epsilon(event, BUDGET.delta) == pytest.approx(BUDGET.epsilon, rel=1e-3)
        assert accounting.within(event, BUDGET)
    model = experiment(learner, SPACE, budget=BUDGET)
    stream(model)
    assert [spend.task for spend in model.statement().spends] == ["march", "memory buffer", "april"]
    assert model.statement().now.epsilon == pytest.approx(BUDGET.epsilon, rel=1e-3)


def test_projection_never_raises_the_loss_of_the_buffer():
    draw = np.random.default_rng(0)
    for _ in range(100):
        g, reference = draw.normal(size=(2, 9))
        moved = projected(g, reference)
        assert moved @ reference >= -1e-12
        if g @ reference >= 0:
            assert moved is g
        else:
            assert moved @ reference == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("make", [lambda p: p, Naive, lambda p: Desai(p, tasks=2)])
def test_every_learner_also_trains_without_privacy(make):
    model = stream(experiment(make(without_noise(FAST)), SPACE, budget=BUDGET))
    assert model.score(*data("cd", 50, seed=1)) > 0.95
    assert "infinity" in model.privacy_statement()
    with pytest.raises(errors.BudgetExceeded):
        stream(rt.ContinualClassifier(labels=SPACE, learner=make(without_noise(FAST)), budget=BUDGET))


@pytest.mark.parametrize("make", [Naive, lambda p: Desai(p, tasks=2)])
def test_a_model_from_a_file_is_trained_further_as_it_would_have_been(make, tmp_path):
    """A file has the parameters in another order than the gradients."""
    (x, y), (more, names) = data("ab", 60), data("cd", 60)
    last = []
    for stored in (False, True):
        model = rt.ContinualClassifier(
            labels=SPACE, learner=make(FAST), budget=BUDGET, path=tmp_path / str(stored), noise=NoiseSource.seeded(1)
        )
        model.learn_task(x, y, name="march")
        if stored:
            learner = make(FAST)
            if isinstance(learner, Desai):
                learner.remember(x, SPACE.rows(y, SPACE.space))
            model = rt.load(tmp_path / str(stored), learner=learner)
        model.set_params(noise=NoiseSource.seeded(2)).learn_task(more, names, name="april")
        last.append(model.releases[-1].parameters)
    assert {name: value.tolist() for name, value in last[0].items()} == {
        name: value.tolist() for name, value in last[1].items()
    }


def test_one_head_needs_public_labels():
    model = rt.ContinualClassifier(labels=rt.ReleasedLabels(), learner=Naive(FAST), budget=BUDGET)
    with pytest.raises(errors.InvalidValue, match="public labels"):
        stream(model)
    assert model.statement().spends == ()
