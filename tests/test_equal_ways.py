"""Pairs of ways that must be equal: label kinds, containers, memory and disk, copies, files, ONNX, HTTP, commands."""

import copy
import functools
import io
import json
import pickle
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
import pytest

import reticent as rt
from reticent import encoders, errors, serving
from reticent.gate.mechanisms import GaussianSum
from reticent.labels import UNKNOWN, canonical
from reticent.released import aggregate, onnx_graph
from reticent.report.measured import measure
from reticent.sensitive import scoring
from tests.cli.command import EACH, reticent
from tests.test_label_types import COLUMNS, NUMBERS, X, Y

KINDS: dict[str, list[Any]] = {
    "texts": ["E10", "E11", "G35", "Z99"],
    "texts of numbers": ["101", "7", "-2", "2.5"],
    "Unicode": ["é", "日本", "naïve 🙂", "ß"],
    "numbers": [101, 7, -2, 0],
    "large numbers": [2**70, -(2**70), 2**63, 1],
    "NumPy numbers": list(np.array([101, 7, -2, 0])),
    "small NumPy numbers": list(np.array([101, 7, 3, 0], np.uint8)),
    "whole floats": [1.0, 2.0, -3.0, 0.0],
    "NumPy floats": list(np.array([0.5, 2.0, -3.25, 1e300])),
    "NumPy texts": list(np.array(["a", "b", "c", "d"])),
    "truth": [True, False, 2, 3],
    "NumPy truth": [np.True_, np.False_, "a", "b"],
    "mixed": [1, "a", 2.5, ("b", 3)],
    "tuples": [(np.int64(1), "a"), (2.0, "b"), (True, "c"), ("d",)],
}
LEARNERS: dict[str, Any] = {
    "cosine": rt.Cosine(),
    "cosine paper": rt.Cosine.paper(),
    **{f"peft {name}": rt.PeftEnsemble(task_size=600, aggregate=rule) for name, rule in aggregate.AGGREGATES.items()},
}
CASES = [*((kind, "cosine") for kind in KINDS), *(("mixed", name) for name in LEARNERS if name != "cosine")]
cases = pytest.mark.parametrize(("kind", "learner"), CASES)
BUDGET = rt.Budget(epsilon=20.0, delta=1e-5)
WIDTH = 4
ASKED = np.concatenate([np.eye(WIDTH), -np.eye(WIDTH), np.random.default_rng(1).normal(size=(20, WIDTH)), [[0.0] * 4]])


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Of six labels three have examples, and the last two were added when all was learned."""

    @functools.cache
    def made(kind: str, learner: str) -> Any:
        labels = KINDS[kind]
        path = tmp_path_factory.mktemp("ways") / "model"
        model = rt.ContinualClassifier(
            labels=rt.PublicLabels(labels), learner=LEARNERS[learner], budget=BUDGET, path=path
        )
        y = [label for label in labels[:3] for _ in range(200)]
        model.learn_task(np.repeat(np.eye(3, WIDTH), 200, axis=0), y, name="march", each_row_is_a_person=True)
        return model.extend_labels(["never", np.int64(12345)] if "NumPy" in kind else ["never", 12345])

    return made


def answers(model: Any, x: Any = ASKED) -> list[str]:
    """Everything that a model says, with its types."""
    top, chances = model.top_k_proba(x, 9)
    found = [model.classes_, model.predict(x), model.predict_top_k(x, 9), top, chances, model.predict_proba(x)]
    return [repr(array.tolist()) for array in (*found, model.decision_function(x), model.predict(x, abstain=0.6))]


def as_json(values: Any) -> Any:
    return json.loads(json.dumps(values.tolist() if isinstance(values, np.ndarray) else values))


def have_one_order(model: Any) -> None:
    """All ways to ask have one order of labels, best first; a tie is told in the order of the labels."""
    released = model.directory.model
    space = released.labels
    top, proba, scores = (
        model.predict_top_k(ASKED, len(space)),
        model.predict_proba(ASKED),
        model.decision_function(ASKED),
    )
    predicted = model.predict(ASKED).tolist()
    assert released.names(released.answers(ASKED, None)).tolist() == predicted  # those of `private_score`
    for answer, best, chances, row in zip(predicted, top, proba, scores, strict=True):
        if np.isnan(row).all():
            assert {*best, answer} == {UNKNOWN}
            assert np.isnan(chances).all()
            continue
        order = [space.row(canonical(label)) for label in best if label != UNKNOWN]
        may_win = np.count_nonzero(row > -np.inf)
        assert answer == best[0]
        assert order[:may_win] == np.argsort(-row, kind="stable")[:may_win].tolist()
        assert not chances[row == -np.inf].any()
        assert (np.diff(chances[order]) <= 0).all()


@cases
def test_all_ways_to_ask_a_model_agree(kind, learner, learned):
    model = learned(kind, learner)
    have_one_order(model)
    never = [model.directory.model.labels.row(label) for label in ("never", 12345)]
    assert (model.decision_function(ASKED[:-1])[:, never] == -np.inf).all()
    said = answers(model)
    stored = rt.load(model.path)
    joblib.dump(stored, file := io.BytesIO())
    file.seek(0)
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.deepcopy(stored), joblib.load(file)]  # noqa: S301
    for same in (stored, *copies):
        assert answers(same) == said


@cases
def test_http_says_what_the_model_says(kind, learner, learned):
    testclient = pytest.importorskip("starlette.testclient", reason="reticent[serve]")
    model = learned(kind, learner)
    client = testclient.TestClient(serving.app(model))
    labels = as_json(list(model.directory.model.labels.labels))
    assert client.get("/labels").json() == {"total": 6, "start": 0, "labels": labels}
    assert client.get("/labels?start=2&count=2").json()["labels"] == labels[2:4]
    assert [client.get(f"/{name}").status_code for name in ("health", "statement")] == [200, 200]
    asked = {"inputs": ASKED.tolist()}
    assert client.post("/predict", json=asked).json() == {"labels": as_json(model.predict(ASKED))}
    top, chances = model.top_k_proba(ASKED, 6)
    answer = client.post("/predict", json={**asked, "top": 6, "proba": True}).json()
    assert answer["labels"] == as_json(top)
    assert answer["probabilities"] == [[None if c != c else c for c in row] for row in chances.tolist()]


@cases
def test_onnx_says_what_the_model_says(kind, learner, learned):
    runtime = pytest.importorskip("onnxruntime", reason="reticent[onnx]")
    model = learned(kind, learner)
    content = onnx_graph.scorer(model.directory.model)
    onnx_graph.check(content, model.directory.model)
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(names, {"features": ASKED.astype(np.float32)}), strict=True))
    labels, scores = json.loads(session.get_modelmeta().custom_metadata_map["labels"]), model.decision_function(ASKED)
    assert labels == as_json(list(model.directory.model.labels.labels))
    np.testing.assert_allclose(found["scores"], scores, atol=1e-4)  # infinities and NaN in the same places
    best = [UNKNOWN if row < 0 else labels[row] for row in found["row"]]
    assert best == as_json(model.predict(ASKED))
    assert found.get("label", np.array(best, dtype=object)).tolist() == best


@cases
def test_the_command_says_what_the_model_says(kind, learner, learned, tmp_path):
    model = learned(kind, learner)
    top, chances = model.top_k_proba(ASKED, 6)
    np.savez(tmp_path / "new.npz", x=ASKED)
    words = ["predict", tmp_path / "new.npz", "--model", model.path, "--top-k", 6, "--proba"]
    facts = json.loads(reticent(*words, "--json").stdout)
    assert facts["labels"] == as_json(top)
    assert facts["probabilities"] == [[None if c != c else round(c, 6) for c in row] for row in chances.tolist()]
    for ending in (".csv", ".parquet"):
        assert reticent(*words, "-o", tmp_path / f"out{ending}").returncode == 0
    csv = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)
    parquet = pd.read_parquet(tmp_path / "out.parquet")
    for i, name in enumerate(["label", *(f"label_{i}" for i in range(2, 7))]):
        assert csv[name].tolist() == parquet[name].tolist() == [str(label) for label in top[:, i]]


@pytest.mark.parametrize("learner", ["cosine", "peft pooled"])
def test_a_huge_space_has_one_order(learner):
    labels = [f"label {i}" for i in range(5_000)]
    model = rt.ContinualClassifier(labels=rt.PublicLabels(labels), learner=LEARNERS[learner], budget=BUDGET)
    y = [label for label in labels[40:43] for _ in range(300)]
    model.learn_task(np.repeat(np.eye(3, WIDTH), 300, axis=0), y, name="march", each_row_is_a_person=True)
    have_one_order(model)
    assert answers(copy.deepcopy(model)) == answers(model)
    runtime = pytest.importorskip("onnxruntime", reason="reticent[onnx]")
    content = onnx_graph.scorer(model.directory.model)
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"features": ASKED.astype(np.float32)})
    np.testing.assert_allclose(scores, model.decision_function(ASKED), atol=1e-4)


def lengths(texts: list[str]) -> Any:
    return np.array([[len(text), text.count("a"), 1.0] for text in texts])


@pytest.mark.parametrize("code", ["function", "module"])
def test_models_with_own_encoders_can_be_copied(code):
    """What `wrap` made could not be pickled."""
    if code == "module":
        torch = pytest.importorskip("torch", reason="reticent[torch]")
    own, inputs = (lengths, ["a", "bb", "aaaa"]) if code == "function" else (torch.nn.Linear(3, 3), list(np.eye(3)))
    encoder = encoders.wrap(own, width=3, name="own", probe=inputs[0])
    model = rt.ContinualClassifier(encoder=encoder, labels=rt.PublicLabels(["a", "b", "c"]), budget=BUDGET)
    model.learn_task(inputs * 30, ["a", "b", "c"] * 30, name="march", each_row_is_a_person=True)
    said = answers(model, inputs)
    assert answers(pickle.loads(pickle.dumps(model)), inputs) == answers(copy.deepcopy(model), inputs) == said  # noqa: S301


# --- learning: a number and its text are one label, wherever labels are named

SPACES: list[Any] = [[101, 7, 25], ["101", "7", "25"], np.array([101, 7, 25]), [101.0, 7.0, 25.0], [101, "7", 25.0]]
SPACES += [["101.0", "7.0", "25.0"], pd.Series([101, 7, 25])]
SPELLINGS = [102, "102", np.int64(102), np.int16(102), 102.0, np.float32(102), "102.0", np.str_("102")]


def one_of_texts(label: Any) -> Any:
    return {"102": "7", "203": "25"}[label]


def one_of_numbers(label: Any) -> Any:
    return {102: 7, 203: 25}[label]


REMAPS: dict[str, Any] = {
    "dict of numbers": {102: 7},
    "dict of texts": {"102": "7"},
    "dict of both": {102: "7"},
    "dict of NumPy": {np.int64(102): np.int64(7)},
    "taxonomy of numbers": rt.Taxonomy({102: 7}),
    "taxonomy of texts": rt.Taxonomy({"102": "7"}),
    "taxonomy of both": rt.Taxonomy({"102": 9.0, "9": 8, 8: "7"}),
    "edges of NumPy": rt.Taxonomy.from_edges([(np.int64(102), np.int64(7))]),
    "otherwise": rt.Taxonomy({}, otherwise="7"),
    "function of texts": one_of_texts,
    "function of numbers": one_of_numbers,
    "function of anything": lambda label: 7,
}


@pytest.mark.parametrize("remap", REMAPS)
@pytest.mark.parametrize("space", range(len(SPACES)))
def test_remaps_take_a_number_and_its_text_for_one_label(space, remap):
    policy = rt.PublicLabels(SPACES[space], remap=REMAPS[remap])
    assert [policy.space.row(policy.resolve(label, policy.space)) for label in SPELLINGS] == [1] * len(SPELLINGS)
    part = policy.of_task(["101", 7], policy.space)
    assert [policy.space.row(part.resolve(label, policy.space)) for label in SPELLINGS] == [1] * len(SPELLINGS)


def test_a_function_is_asked_the_same_whatever_type_a_column_has():
    """It is one of the labels: what it is asked for may not hang on the container."""
    for labels, asked in ((["7", "other"], ["102", 102]), ([7, "other"], [102, "102"])):
        for cell in SPELLINGS:
            given: list[Any] = []
            rt.PublicLabels(labels, remap=given.append).resolve(cell, set(labels))
            assert repr(given) == repr(asked)


@pytest.mark.parametrize("remap", ["taxonomy of texts", "dict of both", "function of texts"])
@pytest.mark.parametrize("column", COLUMNS)
def test_remapped_columns_of_any_type_are_learned(column, remap):
    """With a taxonomy of texts every row was dropped, and the budget spent."""
    remaps: dict[str, Any] = {
        "taxonomy of texts": rt.Taxonomy({"102": "7", "103": "25"}),
        "dict of both": {102: "7", "103": 25},
    }
    policy = rt.PublicLabels([101, 7, 25], remap=remaps.get(remap, lambda label: {"102": "7", "103": "25"}[label]))
    model = rt.ContinualClassifier(labels=policy, budget=rt.Budget(epsilon=8.0, delta=1e-5))
    model.learn_task(X, COLUMNS[column](), name="march", each_row_is_a_person=True)
    assert model.predict(np.eye(3)).tolist() == [101, 7, 25]


def test_names_and_titles_take_a_number_and_its_text_for_one_label(tmp_path):
    (tmp_path / "names.csv").write_text("label,name\n101,acute\n7,chronic\n")
    read = rt.PublicLabels(["101", "7"]).from_file
    (tmp_path / "labels.txt").write_text("101\n7\n")
    from_file = read(tmp_path / "labels.txt", names=tmp_path / "names.csv")
    titles = {101: "acute", "7": "chronic"}
    for labels in ([101, 7], ["101", "7"], [101.0, np.int64(7)]):
        for named in (rt.PublicLabels(labels, names=titles), rt.PublicLabels(labels, rt.Taxonomy({}, titles=titles))):
            assert [named.name(label) for label in named.labels] == ["acute", "chronic"]
    assert [from_file.name(label) for label in from_file.labels] == ["acute", "chronic"]


@pytest.mark.parametrize("learner", ["cosine", "peft pooled"])
def test_policies_of_numpy_numbers_are_stored(learner, tmp_path):
    """JSON has none of them: TypeError, and no model."""
    seven, more = np.int64(7), np.int64(102)
    tree = rt.Taxonomy({more: seven}, titles={seven: "chronic"}, otherwise=seven)
    remaps: list[Any] = [{more: seven}, tree]
    for i, remap in enumerate(remaps):
        policy = rt.PublicLabels(np.array([101, 7]), remap=remap, names={np.int64(101): "acute"})
        encoder = encoders.wrap(lengths, width=3, name="lengths", probe="a text")
        made = rt.ContinualClassifier(
            labels=policy, learner=LEARNERS[learner], budget=BUDGET, encoder=encoder, path=tmp_path / f"{i}"
        )
        assert made.statement().spends == ()
        assert rt.load(tmp_path / f"{i}", encoder=encoder).labels == policy


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ("bcd", "got one string"),
        (b"bcd", "got one string"),
        ({"b": 1}, "got dict"),
        (7, "got int"),
        ([101, "101"], "101 and '101': a number and its text are one label"),
        (["7.0", 7], "are one label"),
        ([np.int64(7), np.str_("7")], "are one label"),
        ([True, "True"], "are one label"),
        (["7", "7.0"], "'7.0' and '7': a number and its text are one label"),
        (["1", "True"], "are one label"),
        (["b", "b"], "distinct"),
        (["b", UNKNOWN], "other than <unknown>"),
        ([None], "not None or NaN"),
        (["b", " "], "not blank"),
    ],
)
def test_labels_that_could_not_be_meant_are_refused_everywhere(labels, sentence, tmp_path):
    """ "bcd" were b, c and d; examples were split over 101 and "101"."""
    policy = rt.PublicLabels(["a"])
    model = rt.ContinualClassifier(labels=policy, budget=BUDGET, path=tmp_path / "model")
    for way in (rt.PublicLabels, model.extend_labels, lambda found: policy.of_task(found, policy.space)):
        with pytest.raises(errors.InvalidValue, match=sentence):
            way(labels)
    assert model.classes_.tolist() == ["a"]
    assert model.statement().spends == ()


@pytest.mark.parametrize(("known", "more"), [([101], "101"), (["101"], 101), (["7.0"], np.int64(7)), ([7], 7.0)])
def test_a_label_that_is_known_in_another_spelling_is_not_added(known, more):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(known), budget=BUDGET)
    assert model.extend_labels([more, "new"]).classes_.tolist() == [*known, "new"]


def test_a_model_whose_labels_could_not_be_meant_is_still_read(tmp_path):
    """Made before they were refused, by way of a space, which is taken as it is."""
    labels = (101, "101", UNKNOWN)
    made = rt.ContinualClassifier(labels=rt.PublicLabels(rt.LabelSpace(labels)), budget=BUDGET, path=tmp_path / "model")
    made.learn_task(np.repeat(np.eye(3), 200, axis=0), [y for y in labels for _ in range(200)], name="march")
    stored = rt.load(tmp_path / "model")
    assert stored.predict(np.eye(3)).tolist() == [*labels]
    assert stored.score(np.eye(3), [*labels]) == 2 / 3


@pytest.mark.parametrize("remap", [dict, rt.Taxonomy])
def test_a_model_whose_tables_have_two_spellings_is_still_read(remap, tmp_path, monkeypatch):
    """Made before they were refused, as `labels` are above."""
    budget, path = rt.Budget(epsilon=1.0, delta=1e-5), tmp_path / "model"
    with monkeypatch.context() as before:
        before.setattr("reticent.labels._refuse_two_spellings", lambda labels: None)
        policy = rt.PublicLabels(["a", "b"], remap=remap({101: "a", "101": "a", "7.0": "b", "7": "b"}))
        made = rt.ContinualClassifier(labels=policy, budget=budget, path=path)
        made.learn_task(np.eye(2), ["a", "b"], name="march")
    stored = rt.load(path)
    assert stored.predict(np.eye(2)).tolist() == made.predict(np.eye(2)).tolist()
    kept = stored.directory.policy
    assert isinstance(kept, rt.PublicLabels)
    resolved = [kept.resolve(cell, kept.space) for cell in (101, "101", 101.0, 7, "7.0", 8)]
    assert resolved == ["a", "a", "a", "b", "b", None]


@pytest.mark.parametrize("table", [{101: "a", "101": "b"}, {None: "a"}, {float("nan"): "a"}], ids=str)
def test_tables_with_two_spellings_of_a_label_are_refused(table):
    for make in (
        lambda: rt.PublicLabels(["a", "b"], remap=table),
        lambda: rt.Taxonomy(table),
        lambda: rt.Taxonomy({}, titles=table),
        lambda: rt.ReleasedLabels(names=table),
    ):
        with pytest.raises(errors.InvalidValue, match=r"one label|not None or NaN"):
            make()
    with pytest.raises(errors.InvalidValue, match="without cycles"):
        rt.Taxonomy({"1": 2, "2": 1})


@pytest.mark.parametrize("column", ["abb", b"abb"])
def test_a_string_is_no_column(column):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=BUDGET)
    for ask in (model.learn_task, functools.partial(model.private_score, epsilon=1.0)):
        with pytest.raises(errors.InvalidValue, match="labels as a column"):
            ask(np.eye(3), column, name="march", each_row_is_a_person=True)
        with pytest.raises(errors.InvalidValue, match="inputs as a column"):
            ask(column, ["a", "b", "b"], name="march", each_row_is_a_person=True)
    assert model.statement().spends == ()


# --- accuracy: one rule


@pytest.mark.parametrize("space", [NUMBERS, [str(label) for label in NUMBERS]], ids=["numbers", "texts"])
def test_ways_to_measure_accuracy_agree(space, monkeypatch, tmp_path):
    """Rows without a label counted in two of them, and <unknown> was right where the model does not know."""
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(space), budget=rt.Budget(epsilon=8.0, delta=1e-5, tasks_per_person=9)
    )
    model.learn_task(X, Y, name="march", each_row_is_a_person=True)
    x = np.concatenate([np.eye(3), np.zeros((2, 3)), np.eye(3), np.eye(3)])
    truth = [101, "102", 103.0, UNKNOWN, None, None, float("nan"), UNKNOWN, 101, "E99", "103"]  # 3 right + 103 of 6
    drawn: list[int] = []

    class Recorded(GaussianSum):
        def __call__(self, value: Any, *, rng: Any) -> Any:
            drawn.extend(value)
            return super().__call__(value, rng=rng)

    monkeypatch.setattr(scoring, "GaussianSum", Recorded)
    model.private_score(x, truth, epsilon=0.1, name="test", each_row_is_a_person=True)
    found = measure(zip(model.predict(x), truth, strict=True), known=model.classes_)
    assert (found.all.right, found.all.n, found.unknown.n) == (5, 6, 1)
    assert drawn[0] / drawn[1] == found.all.accuracy == model.score(x, truth) == 5 / 6
    weights = np.arange(1.0, len(truth) + 1)
    assert model.score(x, truth, sample_weight=weights) == model.score(
        x[[0, 1, 2, 8, 9, 10]], [101, 102, 103, 101, "E99", 103], [1, 2, 3, 9, 10, 11]
    )
    for nothing in ([None], [UNKNOWN]):
        with pytest.raises(errors.InvalidValue, match="with a label"):
            model.score(np.zeros((1, 3)), nothing)
        with pytest.raises(errors.InvalidValue, match="with a label"):
            measure([(UNKNOWN, *nothing)], known=model.classes_)


def test_commands_measure_what_the_model_measures(tmp_path):
    """With rows without a label, in a file that can say so."""
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(NUMBERS),
        budget=rt.Budget(epsilon=20.0, delta=1e-5, tasks_per_person=2),
        path=tmp_path / "model",
    )
    model.learn_task(pd.DataFrame(X, columns=list("abc")), Y, name="march", each_row_is_a_person=True)
    frame = pd.DataFrame(np.tile(X, (4, 1)), columns=list("abc")).assign(code=pd.array(np.tile(Y, 4), "Int64"))
    frame.loc[::2, "code"] = None
    frame.to_parquet(tmp_path / "test.parquet")
    words = ["--model", model.path, "--features", "a,b,c", "--label", "code", "--json"]
    public = json.loads(reticent("evaluate", tmp_path / "test.parquet", *words, "--public").stdout)
    noisy = json.loads(reticent("evaluate", tmp_path / "test.parquet", *words, EACH, "--epsilon", 7).stdout)
    assert (public["accuracy"], public["n"]) == (1.0, 1_200)
    assert model.score(frame[list("abc")], frame.code) == 1.0
    assert noisy["accuracy"] > 0.9
