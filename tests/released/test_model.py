import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.encoders import wrapped
from reticent.labels import LabelSpace
from reticent.privacy import events
from reticent.released import denoise
from reticent.released.aggregate import AGGREGATES
from reticent.released.ensemble import Ensemble
from reticent.released.evidence import by_evidence
from reticent.released.model import Model, Scorer, learned_rows
from reticent.released.release import Release
from reticent.released.sums import Sums

SPACE = LabelSpace(("a", "b", "c"))
RULES: dict[str, Sums | Ensemble] = {
    **{combine.__name__: Sums(combine) for combine in (by_evidence, denoise.total)},
    **{name: Ensemble(aggregate=aggregate) for name, aggregate in AGGREGATES.items()},
    "scaled": Ensemble(length=2.0),
}
BAD = {
    "NaN": [np.nan, 1.0, 0.0],
    "infinity": [np.inf, 1.0, 0.0],
    "minus infinity": [0.0, -np.inf, 0.0],
    "all NaN": [np.nan] * 3,
}


def model_of(rule: Sums | Ensemble) -> Model:
    draw, releases = np.random.default_rng(0), []
    for t in range(2):
        parameters = {
            "rows": np.arange(3, dtype=np.int32),
            "sums": (50 * np.eye(3) + draw.normal(size=(3, 3))).astype(np.float32),
            "noise": np.ones(3, np.float32),
        }
        if isinstance(rule, Ensemble):
            weight = (5 * np.eye(3)).astype(np.float32)
            parameters = {"rows": parameters["rows"], "head.weight": weight, "head.bias": np.ones(3, np.float32)}
            parameters |= {"head.noise": np.array([0.1, 0.01], np.float32), "head.decoy": np.zeros(3, np.float32)}
        new = Release(task=f"{t}", labels=LabelSpace(()), parameters=parameters, event=events.Public(), private=True)
        releases.append(new)
    return Model(SPACE, rule, tuple(releases))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_scored_is_unknown(rule, bad):
    """Not the first label, which scores of zero everywhere would choose."""
    model = model_of(RULES[rule])
    x = np.array([[0.0, 1.0, 0.0], BAD[bad], [0.0, 0.0, 1.0]])
    assert model.names(model.top(x, None, 1)[0][:, 0]).tolist() == ["b", rt.UNKNOWN, "c"]
    assert model.names(model.top(x, None, 4)[0])[1].tolist() == [rt.UNKNOWN] * 4
    assert model.answers(x, None).tolist() == [1, -1, 2]
    scores = model.scores(x, None)
    assert np.isnan(scores[1]).all()
    assert np.isfinite(scores[[0, 2]]).all()
    asked = wrapped.wrap(lambda rows: np.array(rows), width=3, name="itself")
    assert model.answers(x, asked).tolist() == [1, -1, 2]
    assert model.answers([list(x[0]), "text where numbers belong", None], asked).tolist() == [1, -1, -1]


@pytest.mark.parametrize("rule", ["by_evidence", "total"])
@pytest.mark.parametrize("row", [[0.0] * 3, [1e300, 0.0, 0.0]])
def test_what_has_no_direction_is_unknown(rule, row):
    """Learning leaves such rows out too."""
    assert model_of(RULES[rule]).answers(np.array([row]), None).tolist() == [-1]


def test_a_row_without_features_has_no_label_where_none_may_win():
    model = Model(SPACE, Sums(lambda blocks: np.zeros(blocks.sums.shape[::2])), model_of(Sums()).releases)
    assert model.top(np.array([[np.nan] * 3, [1.0, 0.0, 0.0]]), None, 1)[0].tolist() == [[-1], [0]]


@pytest.mark.parametrize(
    "inputs",
    [
        [["a", "b", "c"]],
        np.array([[b"1", b"2", b"3"]]),
        np.array([["2026-01-01"] * 3], dtype="datetime64[D]"),
        np.array([[1j, 0, 0]]),
        [[1.0, 2.0, 3.0], [1.0]],
        [1.0, 2.0, 3.0],
        "text",
        np.zeros((2, 3, 3)),
    ],
    ids=["texts", "bytes", "dates", "complex", "several lengths", "one dimension", "a text", "three dimensions"],
)
def test_what_are_no_numbers_is_refused(inputs):
    for rule in (Sums(), Ensemble()):
        with pytest.raises(errors.InvalidValue, match="Expected features"):
            model_of(rule).answers(inputs, None)


def test_objects_that_are_no_numbers_are_unknown():
    cells = np.array([[0, 1, 0], [None, 1, 0], ["x", 1, 0], [0, 0, "1"]], dtype=object)
    assert model_of(Sums()).answers(cells, None).tolist() == [1, -1, -1, 2]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_few_scores_at_a_time_give_the_same_answers(rule, k, monkeypatch):
    model, x = model_of(RULES[rule]), np.random.default_rng(1).normal(size=(40, 3))
    x[3], x[5] = 0, np.nan
    whole, chances = model.best(x, None, k, weighed=True), model.probabilities(x, None)
    monkeypatch.setattr("reticent.released.model._SCORES", 20)
    monkeypatch.setattr("reticent.released.model._FEWEST", 1)
    monkeypatch.setattr("reticent.released.model._CHANCES", 4)
    blocks = model.best(x, None, k, weighed=True)
    np.testing.assert_array_equal(blocks.rows, whole.rows)
    np.testing.assert_allclose(blocks.scores, whole.scores, rtol=1e-6)
    np.testing.assert_allclose(blocks.chances, whole.chances, rtol=1e-6)
    np.testing.assert_allclose(model.probabilities(x, None), chances, rtol=1e-6)
    np.testing.assert_array_equal(model.answers_to(model.prepared(x, None)), whole.rows[:, 0])
    assert model.best(x[:0], None, k).rows.shape == (0, k)


def test_a_million_labels_are_scored_few_examples_at_a_time():
    class Wide:
        def scorer(self, releases, labels):
            return Scorer(np.arange(1 << 20), np.zeros(0, np.int64), lambda x, _: x, self.score)

        def to_json(self):
            return {}

        def score(self, x):
            assert len(x) <= 64
            return np.repeat(x, 1 << 20, axis=1)

    model = Model(LabelSpace(()), Wide())
    assert model.top(np.arange(70, dtype=np.float32)[:, None], None, 3)[0].tolist() == [[0, 1, 2]] * 70


def test_rows_of_different_types_are_told_apart():
    """Releases of other makers may hold any whole numbers: these two have the same bytes."""
    empty, event = LabelSpace(()), events.Gaussian(noise_multiplier=1.0)
    releases = [
        Release(task="march", labels=empty, parameters={"rows": rows}, event=event, private=True)
        for rows in (np.array([1, 2], np.uint16), np.array([1 + (2 << 16)], np.int32))
    ]
    assert learned_rows(releases).tolist() == [1, 2, 1 + (2 << 16)]
