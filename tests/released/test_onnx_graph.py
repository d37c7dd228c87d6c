"""The exported scorer against the model that it was made of, in onnxruntime."""

import json
from dataclasses import replace

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.labels import LabelSpace
from reticent.privacy import events
from reticent.released import onnx_graph
from reticent.released.aggregate import AGGREGATES
from reticent.released.denoise import total
from reticent.released.ensemble import Ensemble
from reticent.released.evidence import by_evidence
from reticent.released.heads import BIAS, DECOY, NOISE, ROWS, WEIGHT
from reticent.released.model import Model
from reticent.released.release import Release
from reticent.released.sums import Sums

onnxruntime = pytest.importorskip("onnxruntime", reason="runs the exported graph: reticent[onnx]")
onnx = pytest.importorskip("onnx", reason="makes the graph: reticent[onnx]")

WIDTH = 24
LABELS = LabelSpace(tuple("abcdefg"))


def release(task, rows, **more) -> Release:
    found = {**more, ROWS: np.array(rows, np.int64)}
    return Release(task=task, labels=LabelSpace(()), event=events.Public(), private=True, parameters=found)


def sums(task, rng, rows, centre=None) -> Release:
    about = {"sums": rng.normal(size=(len(rows), WIDTH)) * 30, "noise": np.full(len(rows), 3.0)}
    about |= {} if centre is None else {"centre": centre}
    return release(task, rows, **{name: value.astype(np.float32) for name, value in about.items()})


def head(task, rng, rows) -> Release:
    about = {
        WEIGHT: rng.normal(size=(len(rows), WIDTH)),
        BIAS: rng.normal(size=len(rows)),
        NOISE: np.array([0.1, 0.05]),
        DECOY: rng.normal(size=WIDTH) / 10,
    }
    return release(task, rows, **{name: value.astype(np.float32) for name, value in about.items()})


def cosine(combine=by_evidence, centre=False, labels=LABELS) -> Model:
    rng = np.random.default_rng(1)
    at = rng.normal(size=WIDTH) / 10 if centre else None
    return Model(labels, Sums(combine), (sums("march", rng, range(5)), sums("april", rng, range(7), centre=at)))


def peft(aggregate="pooled", length=10.0, labels=LABELS) -> Model:
    rng = np.random.default_rng(2)
    tasks = (head("march", rng, [0, 2, 3]), head("april", rng, [1, 2, 3, 5]), head("may", rng, [4]))
    return Model(labels, Ensemble(aggregate=AGGREGATES[aggregate], length=length), tasks)


MODELS = {
    **{f"cosine {combine.__name__}": cosine(combine) for combine in (by_evidence, total)},
    "cosine with a centre": cosine(centre=True),
    **{f"peft {name}": peft(name) for name in AGGREGATES},
    "peft without a length": peft(length=None),
}


def run(content: bytes, features):
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"features": features}), strict=True))


def some_features() -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.concatenate([rng.normal(size=(500, WIDTH)), onnx_graph.probes(WIDTH)]).astype(np.float32)


@pytest.mark.parametrize("name", MODELS)
def test_onnx_gives_the_labels_and_scores_of_the_model(name):
    model, features = MODELS[name], some_features()
    found = run(onnx_graph.scorer(model), features)
    expected, rows = model.scores(features, None), model.top(features, None, 1)[0][:, 0]
    np.testing.assert_allclose(found["scores"], expected, rtol=2e-5, atol=2e-5)
    assert found["row"].tolist() == rows.tolist()
    assert found["label"].tolist() == model.names(rows).tolist()


@pytest.mark.parametrize("name", MODELS)
def test_exports_are_checked_in_a_runtime(name):
    content = onnx_graph.scorer(MODELS[name])
    assert onnx_graph.check(content, MODELS[name]) < 1e-5


@pytest.mark.parametrize(("mine", "other"), [("cosine total", "cosine with a centre"), ("peft argmax", "peft median")])
def test_a_graph_of_another_model_is_noticed(mine, other):
    """The twins: as many labels, other scores."""
    with pytest.raises(errors.ReticentError, match="differs from the model"):
        onnx_graph.check(onnx_graph.scorer(MODELS[mine]), MODELS[other])


def test_rows_that_cannot_be_scored_have_no_label():
    features = np.ones((4, WIDTH), np.float32)
    features[0], features[1, 3], features[2] = np.nan, np.inf, 0
    for name, unknown in (("cosine total", [True, True, True, False]), ("peft argmax", [True, True, False, False])):
        found = run(onnx_graph.scorer(MODELS[name]), features)
        assert (found["row"] == -1).tolist() == unknown
        assert (found["label"] == rt.UNKNOWN).tolist() == unknown
        assert np.isnan(found["scores"]).all(axis=1).tolist() == unknown


def test_labels_of_any_kind_are_in_the_metadata():
    labels = LabelSpace((1, 2.5, ("a", 3), "text", 7, 8, 9))
    content = onnx_graph.scorer(cosine(labels=labels))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    assert len(json.loads(about["labels"])) == 7
    assert [output.name for output in session.get_outputs()] == ["scores", "row"]  # no text for what is none


def test_a_graph_of_seeded_noise_says_so():
    model = cosine()
    seeded = replace(model, releases=tuple(replace(release, private=False) for release in model.releases))
    assert "NOT PRIVATE" in onnx.load_from_string(onnx_graph.scorer(seeded)).doc_string
    assert onnx.load_from_string(onnx_graph.scorer(model)).doc_string == ""


class OwnRule:
    def scorer(self, releases, labels):
        raise NotImplementedError

    def to_json(self):
        return {"kind": "own"}


def own_merge(models, rows):
    return AGGREGATES["argmax"](models, rows)


def adapted() -> Model:
    model = peft()
    more = replace(model.releases[0], parameters={**model.releases[0].parameters, "film.scale": np.ones(3, np.float32)})
    return replace(model, releases=(more, *model.releases[1:]))


REFUSED = {
    "adapters": (adapted, "adapt theirs"),
    "own rule": (lambda: Model(LABELS, OwnRule()), "a rule of your own"),
    "own aggregation": (lambda: replace(peft(), rule=Ensemble(aggregate=own_merge)), "one of your own"),
    "nothing learned": (lambda: Model(LABELS, Sums()), "knows a label"),
    "no heads": (lambda: Model(LABELS, Ensemble()), "knows a label"),
    "too many labels": (lambda: Model(LabelSpace(tuple(range(100_001))), Sums()), "at most 100,000 labels"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_exported_is_refused(case):
    make, sentence = REFUSED[case]
    with pytest.raises(errors.InvalidValue, match=sentence):
        onnx_graph.scorer(make())
