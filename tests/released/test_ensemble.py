import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from reticent import LabelSpace, errors
from reticent.encoders import last_layer, lora
from reticent.privacy import events
from reticent.released import aggregate
from reticent.released.aggregate import Logits
from reticent.released.ensemble import Ensemble
from reticent.released.release import Release

SPACE = LabelSpace(("a", "b", "c", "d"))


def models(seed: int = 0, n: int = 30) -> list[Logits]:
    draw = np.random.default_rng(seed)
    sets = ([0, 1], [1, 2, 3], [0, 3])
    return [Logits(np.array(rows), draw.normal(size=(n, len(rows))).astype(np.float32)) for rows in sets]


def test_argmax_takes_the_largest_logit_of_any_model():
    parts, scores = models(), aggregate.argmax(models(), np.arange(4))
    for i in range(len(scores)):
        for label in range(4):
            mine = [m.values[i, list(m.rows).index(label)] for m in parts if label in m.rows]
            assert scores[i, label] == max(mine)


def test_median_takes_each_models_median_off():
    shifted = [Logits(m.rows, m.values + 100 * k) for k, m in enumerate(models())]
    np.testing.assert_allclose(
        aggregate.median(shifted, np.arange(4)), aggregate.median(models(), np.arange(4)), atol=1e-4
    )


def test_entropy_follows_its_equation():
    parts, scores = models(), aggregate.entropy(models(), np.arange(4))
    for i in range(len(scores)):
        doubt = []
        for m in parts:
            p = softmax(m.values[i].astype(float))
            doubt.append(-np.sum(p * np.log(p)))
        weights = np.exp(-np.array(doubt)) / np.exp(-np.array(doubt)).sum()
        for label in range(4):
            mine = [
                w * m.values[i, list(m.rows).index(label)]
                for w, m in zip(weights, parts, strict=True)
                if label in m.rows
            ]
            assert scores[i, label] == pytest.approx(sum(mine), abs=1e-5)


@pytest.mark.parametrize("rule", [aggregate.argmax, aggregate.median, aggregate.entropy])
def test_a_model_without_labels_changes_nothing(rule):
    empty = Logits(np.zeros(0, np.int64), np.zeros((30, 0), np.float32))
    np.testing.assert_array_equal(rule([*models(), empty], np.arange(4)), rule(models(), np.arange(4)))


def release(rows: list[int], seed: int) -> Release:
    draw = np.random.default_rng(seed)
    parameters = {
        "rows": np.array(rows, np.int32),
        "head.weight": draw.normal(size=(len(rows), 3)).astype(np.float32),
        "head.bias": draw.normal(size=len(rows)).astype(np.float32),
    }
    return Release(task=f"{seed}", labels=LabelSpace(()), parameters=parameters, event=events.Public(), private=True)


def test_ensemble_scores_with_every_head():
    releases = [release([0, 1], 1), release([1, 3], 2)]
    scorer = Ensemble(length=2.0).scorer(releases, SPACE)
    assert scorer.rows.tolist() == [0, 1, 3]
    x = np.random.default_rng(3).normal(size=(5, 3))
    v = 2 * x / np.linalg.norm(x, axis=1, keepdims=True)
    one, two = (v @ r.parameters["head.weight"].T + r.parameters["head.bias"] for r in releases)
    slow = np.stack([one[:, 0], np.maximum(one[:, 1], two[:, 0]), two[:, 1]], axis=1)
    np.testing.assert_allclose(scorer.score(scorer.embed(x, None)), slow, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", [aggregate.argmax, aggregate.median, aggregate.entropy, lambda m, r: m[-1].values])
def test_heads_are_looked_at_one_after_the_other(rule):
    """Their logits together would be 120 MB."""
    labels, width, heads = 500, 8, 30
    draw, names = np.random.default_rng(0), LabelSpace(tuple(range(labels)))
    releases = [
        replace(
            release([0], t),
            parameters={
                "rows": np.arange(labels, dtype=np.int32),
                "head.weight": draw.normal(size=(labels, width)).astype(np.float32),
                "head.bias": draw.normal(size=labels).astype(np.float32),
            },
        )
        for t in range(heads)
    ]
    x = draw.normal(size=(2_000, width)).astype(np.float32)
    scorer = Ensemble(aggregate=rule).scorer(releases, names)
    tracemalloc.start()
    scores = scorer.score(x)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10 * scores.nbytes
    logits = [
        Logits(np.arange(labels), x[:50] @ p["head.weight"].T.astype(np.float32) + p["head.bias"].astype(np.float32))
        for p in (r.parameters for r in releases)
    ]
    np.testing.assert_allclose(scores[:50], rule(logits, np.arange(labels)), rtol=1e-4, atol=1e-4)


def test_what_cannot_be_encoded_scores_zero():
    scorer = Ensemble().scorer([release([0, 1], 1)], SPACE)
    x = np.array([[np.nan, 0, 0], [np.inf, 1, 0]])
    assert scorer.score(scorer.embed(x, None)).tolist() == [[0, 0], [0, 0]]


def test_ensemble_refuses_features_of_another_width():
    scorer = Ensemble().scorer([release([0, 1], 1)], SPACE)
    with pytest.raises(errors.InvalidValue, match="width 3"):
        scorer.score(scorer.embed(np.ones((2, 4)), None))


@pytest.mark.parametrize(
    "rule", [Ensemble(), Ensemble(lora(rank=2), aggregate.median), Ensemble(last_layer, length=3.0)]
)
def test_ensembles_survive_json(rule):
    assert Ensemble.from_json(rule.to_json()) == rule


def test_a_custom_aggregation_is_passed_again():
    own = Ensemble(aggregate=lambda parts, rows: aggregate.argmax(parts, rows))
    with pytest.raises(errors.InvalidValue, match=r"load\(path, learner=...\)"):
        Ensemble.from_json(own.to_json())
