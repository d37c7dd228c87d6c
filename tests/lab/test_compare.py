"""rt.compare: learners side by side on public data."""

import importlib.util
import json
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors

BUDGET = rt.Budget(epsilon=8.0, delta=1e-5)


def proxy(each: int = 150, classes: int = 6, width: int = 24) -> tuple[np.ndarray, list[str]]:
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(classes, width)) * 2
    x = np.concatenate([centres[k] + draw.normal(size=(each, width)) for k in range(classes)])
    return x.astype(np.float32), [f"code {k}" for k in range(classes) for _ in range(each)]


def test_compares_both_learners():
    answer = rt.compare(proxy(), BUDGET, tasks=3)
    assert {trial.learner for trial in answer.trials} == {"cosine", "peft"}
    assert answer.best == answer.trials[0].learner
    assert answer.trials[0].accuracy >= answer.trials[1].accuracy
    for trial in answer.trials:
        assert 0.8 < trial.accuracy <= 1
        assert -1 <= trial.forgetting <= 1
        assert trial.seconds > 0
    kept = {trial.learner: trial.storage for trial in answer.trials}
    # three tasks of six rows: sums, noise and rows, and a centre; weights, biases and rows, and decoys' mean and noise
    assert kept == {"cosine": 3 * (6 * (4 * 24 + 4 + 4) + 4 * 24), "peft": 3 * (6 * (4 * 24 + 4 + 4) + 4 * 24 + 8)}
    assert json.loads(json.dumps(answer.json()))["best"] == answer.best
    assert "accuracy" in str(answer)


def test_the_same_seed_gives_the_same_answer():
    one, two = (rt.compare(proxy(), BUDGET, tasks=2, learners={"c": rt.Cosine()}) for _ in range(2))
    assert one.trials[0].accuracy == two.trials[0].accuracy
    assert one.trials[0].forgetting == two.trials[0].forgetting


def test_custom_learners_and_labels_are_accepted():
    learners = {"ours": rt.Cosine(), "the paper's": rt.Cosine.paper()}
    answer = rt.compare(proxy(), BUDGET, tasks=2, learners=learners, labels=rt.ReleasedLabels())
    assert {trial.learner for trial in answer.trials} == set(learners)
    assert answer.trials[0].accuracy > 0.8


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_an_encoder_is_trained_through_where_a_learner_can():
    import torch

    from reticent.encoders.adapters import film

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(24, 16), torch.nn.LayerNorm(16))
    encoder = rt.encoders.wrap(module, width=16, name="tiny", probe=np.ones(24, np.float32))
    learners: dict[str, Any] = {"film": rt.PeftEnsemble(adapter=film, task_size=300, epochs=2), "cosine": rt.Cosine()}
    answer = rt.compare(proxy(), BUDGET, tasks=2, learners=learners, encoder=encoder)
    kept = {trial.learner: trial.storage for trial in answer.trials}
    # a head, its rows, 32 FiLM parameters, and the mean and noise of its decoys
    assert kept["film"] == 2 * (4 * (6 * 16 + 6) + 4 * 6 + 4 * 32 + 4 * 16 + 8)
    assert min(trial.accuracy for trial in answer.trials) > 0.4


def test_compare_refuses():
    x, y = proxy()
    with pytest.raises(errors.InvalidValue, match="as many labels as inputs"):
        rt.compare((x, y[:-1]), BUDGET, tasks=2)
    with pytest.raises(errors.InvalidValue, match="at least one"):
        rt.compare((x[:0], []), BUDGET, tasks=2)
