"""One run: every kind of learner and label space, measured as a slow and obvious computation measures it."""

import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import encoders, errors
from reticent.encoders.adapters import last_layer
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.lab.baselines.oracles import LabelOracle, NoPrivacy, OracleHeads, experiment
from reticent.lab.baselines.sequential import BUFFER, Desai, Naive
from reticent.lab.bench import one_run
from reticent.lab.bench.measures import Assigned
from reticent.lab.bench.one_run import policy_of, result_of
from reticent.lab.bench.run import Run
from reticent.lab.bench.versions import version_of
from reticent.lab.bench.workspace import Workspace
from reticent.lab.data import datasets
from reticent.lab.data.datasets import Data, MissingData
from reticent.lab.data.streams import Stream
from reticent.privacy import events
from reticent.released.aggregate import AGGREGATES
from reticent.released.naming import names_of
from reticent.sensitive.learners import Learner
from tests.lab.tiny import CLASSES, DATA, TASKS, WIDTH, Given, a_run, write_features

BUDGET = rt.Budget(epsilon=8.0, delta=1e-5)
NAMES = [f"class {i}" for i in range(CLASSES)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one_run")
    return Workspace(write_features(folder / "data"), folder / "out")


def measured(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what no seed decides: times and processes."""
    kept = {key: value for key, value in result.items() if key not in ("seconds", "environment", "spent")}
    return {**kept, "spent": result["spent"]["epsilon"]}


# --- every kind of run

KINDS = [
    *({"learner": learner} for learner in ("cosine-paper", "cosine", "peft")),
    *({"learner": learner, "tasks": 2} for learner in ("naive", "desai", "noncl")),
    *({"learner": "cosine", "labels": labels} for labels in ("oracle", "public-10x", "public-1000x", "released")),
    {"learner": "cosine-paper", "labels": "released", "share": 10.0},
    *({"learner": "peft", "labels": labels, "tasks": 2} for labels in ("oracle", "public-10x", "public-1000x")),
    *({"learner": "peft", "labels": "released", "share": share, "tasks": 2} for share in (None, 10.0)),
    *({"learner": learner, "epsilon": None} for learner in ("cosine-paper", "cosine", "peft", "naive", "desai")),
    {"learner": "peft", "labels": "oracle", "epsilon": None},
    {"learner": "cosine", "labels": "released", "ratio": 50.0},
    {"learner": "cosine", "memory": "vault", "ratio": 100.0, "blurry": 100.0},
    {"learner": "cosine", "memory": "recurring", "labels": "released"},
]


@pytest.mark.parametrize("fields", KINDS, ids=lambda fields: " ".join(map(str, fields.values())))
def test_every_kind_of_run(place, fields):
    wanted = a_run(**fields)
    result = result_of(wanted, place)
    json.dumps(result, allow_nan=False)
    assert (result["status"], result["error"], result["format"]) == ("done", None, one_run.FORMAT)
    assert Run(**result["run"]) == wanted
    # it says that it is not private, whatever it spent
    assert result["private"] is False
    assert result["note"].startswith("NOT PRIVATE")
    assert "NOT PRIVATE" in result["spent"]["statement"]
    # the matrix is lower triangular, and everything else follows from it
    matrix = np.array(result["matrix"], dtype=float)
    assert matrix.shape == (wanted.tasks, wanted.tasks)
    assert result["accuracy"] == pytest.approx(matrix[-1].mean())
    if wanted.labels == "public-1000x" and "cosine" in wanted.learner:  # measured after the last task alone
        assert np.isnan(matrix[:-1]).all()
        assert result["forgetting"] is None
    else:
        assert (np.isnan(matrix) == np.triu(np.ones_like(matrix, dtype=bool), 1)).all()
        assert result["curve"] == pytest.approx([matrix[t, : t + 1].mean() for t in range(wanted.tasks)])
        best = np.nanmax(matrix[:-1, :-1], axis=0)
        assert result["forgetting"] == pytest.approx((best - matrix[-1, :-1]).mean())
    assert result["accuracy"] > (0.1 if wanted.learner in ("naive", "desai") else 0.25)
    # the budget holds
    if wanted.epsilon is None or wanted.labels == "oracle":
        assert result["spent"]["epsilon"] is None
        assert "infinity" in result["spent"]["statement"]
    else:
        assert 0.9 * wanted.epsilon < result["spent"]["epsilon"] <= wanted.epsilon
    tasks = [row["task"] for row in result["spent"]["ledger"] if row["task"] != BUFFER]
    assert tasks == [f"task {t + 1}" for t in range(wanted.tasks)]
    # what is there for some kinds only
    assert (set(result["aggregations"]) == {"argmax", "median", "entropy", "pooled"}) == (
        wanted.learner in ("peft", "noncl")
    )
    assert (result["classes"] is not None) == (wanted.labels == "released" and wanted.memory == "none")
    if wanted.labels != "released":
        assert result["known"] == CLASSES
    for size, known, planned in result["classes"] or []:
        assert size == 40
        assert isinstance(known, bool)
        assert 0 <= planned <= 1
    assert len(result["overall"]) == wanted.tasks
    assert not [*(place.out / "unfinished").glob("*")]


def test_the_same_seed_gives_the_same_numbers_and_another_one_others(place):
    once, again, other = (result_of(a_run(seed=seed, epsilon=1.0), place) for seed in (0, 0, 1))
    assert measured(once) == measured(again)
    assert once["matrix"] != other["matrix"]
    heads = [result_of(a_run(learner="peft", tasks=1), place) for _ in range(2)]
    assert measured(heads[0]) == measured(heads[1])
    assert "0x" not in heads[0]["digests"]["learner"]  # an address would differ in every process


def test_a_result_says_what_it_was_measured_on(place):
    result = result_of(a_run(), place)
    assert result["digests"]["data"] == place.digest(a_run())
    assert len(result["digests"]["data"]) == 64
    assert result["version"] == version_of("cosine")
    assert result["environment"]["versions"]["numpy"] == np.__version__
    assert set(result["seconds"]) == {"learn", "evaluate", "processor"}


def test_labels_released_were_planned_with_these_chances(place):
    """Classes of 40: at epsilon 8 the mechanism takes all; at 0.2 none."""
    many = result_of(a_run(labels="released", epsilon=8.0), place)
    assert many["known"] == CLASSES
    assert [entry[1] for entry in many["classes"]] == [True] * CLASSES
    assert min(entry[2] for entry in many["classes"]) > 0.99
    none = result_of(a_run(labels="released", epsilon=0.2), place)
    assert none["known"] == 0
    assert max(entry[2] for entry in none["classes"]) < 0.01
    assert none["accuracy"] == 0
    heads = result_of(a_run(learner="peft", labels="released", epsilon=0.2, tasks=1), place)
    assert (heads["known"], heads["accuracy"], set(heads["aggregations"].values())) == (0, 0, {0.0})


# --- an independent, slow computation


def learned_slowly(wanted: Run, learner: Learner, place: Workspace) -> tuple[rt.ContinualClassifier, np.ndarray]:
    """Learns task after task with the public interface, and asks `predict` for every task after every task."""
    data = place.load(wanted)
    stream = Stream(tasks=wanted.tasks, ratio=wanted.ratio / 100, seed=wanted.seed)
    homes = stream.homes(data.labels)
    if wanted.epsilon is None or wanted.labels == "oracle":
        model = experiment(learner, rt.ReleasedLabels(), budget=BUDGET)
    else:
        policy = rt.ReleasedLabels() if wanted.labels == "released" else rt.PublicLabels(NAMES)
        model = rt.ContinualClassifier(learner=learner, labels=policy, budget=BUDGET)
    values = np.full((wanted.tasks, wanted.tasks), np.nan)
    for t, (name, x, y) in enumerate(stream.split(data.inputs, data.labels)):
        model.set_params(noise=NoiseSource.seeded(int(wanted.digest, 16) % 2**60 + t))
        model.learn_task(x, y.tolist(), name=name)
        for i in range(t + 1):
            rows = [row for row, label in enumerate(data.unseen_labels) if homes[label] == i]
            values[t, i] = model.score(data.unseen_inputs[rows], data.unseen_labels[rows].tolist())
    return model, values


PEFT = rt.PeftEnsemble(adapter=last_layer, task_size=CLASSES * 40 // TASKS)


@pytest.mark.parametrize(
    ("fields", "learner"),
    [
        ({"learner": "cosine"}, rt.Cosine()),
        ({"learner": "cosine-paper", "ratio": 50.0}, rt.Cosine.paper()),
        ({"learner": "cosine", "labels": "released", "ratio": 100.0}, rt.Cosine()),
        ({"learner": "cosine-paper", "labels": "oracle"}, LabelOracle(rt.Cosine.paper().rule)),
        ({"learner": "cosine", "epsilon": None}, NoPrivacy(rt.Cosine().rule)),
        ({"learner": "peft", "seed": 1}, PEFT),
        ({"learner": "peft", "labels": "released", "tasks": 2}, replace(PEFT, task_size=120)),
        ({"learner": "peft", "labels": "oracle"}, OracleHeads(PEFT)),
        ({"learner": "naive"}, Naive(PEFT)),
        ({"learner": "desai", "tasks": 2}, Desai(replace(PEFT, task_size=108), 2, seed=0)),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_the_accuracy_matrix_is_what_predict_says(place, fields, learner):
    wanted = a_run(**fields)
    _, values = learned_slowly(wanted, learner, place)
    assert np.array(result_of(wanted, place)["matrix"], dtype=float) == pytest.approx(values, nan_ok=True)


def test_aggregations_equal_a_classifier_with_that_aggregation(place):
    wanted = a_run(learner="peft", epsilon=8.0)
    found, data = result_of(wanted, place)["aggregations"], place.load(wanted)
    for name, aggregate in AGGREGATES.items():
        model, _ = learned_slowly(wanted, replace(PEFT, aggregate=aggregate), place)
        assert found[name] == pytest.approx(model.score(data.unseen_inputs, data.unseen_labels.tolist())), name
    assert len(set(found.values())) > 1  # else this test could not fail


def test_aggregations_are_average_accuracies_over_tasks(tmp_path):
    """As the paper's caption says; a task with many test examples counts like any other."""
    whole = clusters()
    kept = np.concatenate([np.flatnonzero(whole.unseen_labels == f"leaf {i}")[: i + 1] for i in range(10)])
    data = replace(whole, unseen_inputs=whole.unseen_inputs[kept], unseen_labels=whole.unseen_labels[kept])
    found = result_of(a_run(data="clusters", learner="peft", tasks=5, epsilon=0.3), Given(tmp_path, tmp_path, data))
    assert found["aggregations"]["pooled"] == pytest.approx(found["accuracy"])
    assert found["accuracy"] != pytest.approx(found["overall"][-1])  # else this test could not fail


# --- a hierarchy, homes, and what cannot be measured


def clusters(**others: Any) -> Data:
    draw = np.random.default_rng(5)
    centres = draw.normal(size=(10, WIDTH))
    y, y_test = np.repeat(np.arange(10), 60), np.repeat(np.arange(10), 10)
    names = np.array([f"leaf {i}" for i in range(10)])
    x, x_test = (centres[i] + draw.normal(0, 0.6, size=(len(i), WIDTH)) for i in (y, y_test))
    return Data("clusters", x.astype(np.float32), names[y], x_test.astype(np.float32), names[y_test], **others)


PARENTS = {f"leaf {i}": f"branch {i // 5}" for i in range(10)}


def given(tmp_path: Path, data: Data) -> Given:
    return Given(tmp_path, tmp_path / "out", data)


@pytest.mark.parametrize(
    ("labels", "size", "gone"),
    [("remap-parent", 10, "branch"), ("remap-unknown", 9, "unknown"), ("remap-drop", 8, None)],
)
def test_remapping_takes_a_fifth_of_the_labels_as_not_public(labels, size, gone):
    data = clusters(parents=PARENTS)
    policy = policy_of(a_run(labels=labels), data)
    assert isinstance(policy, rt.PublicLabels)
    lost = sorted(set(PARENTS) - set(policy.labels))
    assert (len(policy.labels), len(lost)) == (size, 2)
    for label in lost:
        expected = PARENTS[label] if gone == "branch" else gone
        assert policy.resolve(label, policy.space) == expected
    assert policy_of(a_run(labels=labels, seed=1), data) != policy
    assert [p for p in policy.labels if p in PARENTS] == sorted(set(PARENTS) - set(lost))


@pytest.mark.parametrize("labels", ["remap-parent", "remap-unknown", "remap-drop"])
def test_hierarchies_are_measured_on_public_labels_and_on_parents(tmp_path, labels):
    data = clusters(parents=PARENTS)
    wanted = a_run(data="clusters", labels=labels, learner="cosine")
    result = result_of(wanted, given(tmp_path, data))
    policy = policy_of(wanted, data)
    assert isinstance(policy, rt.PublicLabels)
    model = rt.ContinualClassifier(labels=policy, budget=BUDGET)
    for t, (name, x, y) in enumerate(Stream(tasks=TASKS, seed=0).split(data.inputs, data.labels)):
        model.set_params(noise=NoiseSource.seeded(int(wanted.digest, 16) % 2**60 + t))
        model.learn_task(x, y.tolist(), name=name)
    answers = [str(answer) for answer in model.predict(data.unseen_inputs)]
    truth = [str(label) for label in data.unseen_labels]
    public = [(a, b) for a, b in zip(answers, truth, strict=True) if b in policy.labels]
    assert result["public"] == pytest.approx(np.mean([a == b for a, b in public]))
    assert result["accuracy"] == pytest.approx(result["curve"][-1])
    assert result["accuracy"] < result["public"]  # a label that is not public is never the answer
    right = [PARENTS.get(a, a) == PARENTS[b] for a, b in zip(answers, truth, strict=True)]
    assert result["parent"] == pytest.approx(np.mean(right))
    assert result["accuracy"] > 0.5


def test_remapping_to_parents_finds_more_parents_than_unknown(tmp_path):
    by_labels = {
        labels: result_of(a_run(data="clusters", labels=labels), given(tmp_path, clusters(parents=PARENTS)))["parent"]
        for labels in ("remap-parent", "remap-unknown")
    }
    assert by_labels["remap-parent"] > by_labels["remap-unknown"]


def test_a_hierarchy_is_needed():
    with pytest.raises(errors.InvalidValue, match="clusters has no hierarchy"):
        policy_of(a_run(labels="remap-parent"), clusters())


def test_public_labels_are_as_many_as_the_name_says():
    for times in (10, 1000):
        policy = policy_of(a_run(labels=f"public-{times}x"), clusters())
        assert isinstance(policy, rt.PublicLabels)
        assert len(policy.labels) == 10 * times
        assert set(clusters().labels.tolist()) < set(policy.labels)


def test_shares_are_in_percent():
    assert policy_of(a_run(labels="released", share=2.5), clusters()) == rt.ReleasedLabels.paper(share=0.025)
    assert policy_of(a_run(labels="released"), clusters()) == rt.ReleasedLabels()


def test_data_may_say_which_labels_come_together(tmp_path):
    home = {f"leaf {i}": i % 5 for i in range(10)}
    result = result_of(a_run(data="clusters", tasks=5), given(tmp_path, clusters(home=home)))
    assert len(result["matrix"]) == 5
    orders = set()
    for seed in range(4):
        assigned = Assigned(a_run(tasks=5, seed=seed), clusters(home=home), clusters().labels)
        together = {assigned.homes[f"leaf {i}"] == assigned.homes[f"leaf {i + 5}"] for i in range(5)}
        assert together == {True}
        assert sorted(assigned.homes[f"leaf {i}"] for i in range(5)) == list(range(5))
        assert assigned.task.tolist() == [assigned.homes[label] for label in clusters().labels.tolist()]
        orders.add(tuple(assigned.homes.items()))
    assert len(orders) > 1


def test_a_task_without_test_examples_is_refused(tmp_path):
    """Accuracy would be the mean of nothing."""
    with pytest.raises(errors.InvalidValue, match="Use fewer tasks"):
        result_of(a_run(data="clusters", tasks=11), given(tmp_path, clusters()))
    home = {f"leaf {i}": i % 5 for i in range(10)}
    with pytest.raises(errors.InvalidValue, match="test examples in each of the 10 tasks"):
        result_of(a_run(data="clusters", tasks=10), given(tmp_path, clusters(home=home)))


def test_labels_that_only_the_test_data_has_are_left_out(tmp_path):
    data = clusters()
    x, y = data.unseen_inputs, np.concatenate([data.unseen_labels[:-1], ["never seen"]])
    result = result_of(
        a_run(data="clusters"), given(tmp_path, dataclasses.replace(data, unseen_inputs=x, unseen_labels=y))
    )
    assert result["accuracy"] > 0.5


def test_one_task_forgets_nothing(place):
    result = result_of(a_run(learner="noncl", tasks=1), place)
    assert result["forgetting"] is None
    assert len(result["matrix"]) == 1


# --- learners of the user's own


@pytest.mark.parametrize("name", ["mine", "Mine", "made"])
def test_a_custom_learner(place, name):
    """An object, a class or a function: all are the same as ours here, with noise of their own."""
    result = result_of(a_run(learner=f"tests.lab.learners:{name}"), place)
    assert result["status"] == "done"
    assert result["accuracy"] == pytest.approx(result_of(a_run(), place)["accuracy"], abs=0.2)


@pytest.mark.parametrize("name", ["tests.lab.learners:Nobody", "tests.lab.nowhere:Mine"])
def test_own_learners_that_cannot_be_imported_are_refused(place, name):
    with pytest.raises(errors.InvalidValue, match=f"Expected a learner at {name}"):
        result_of(a_run(learner=name), place)


def test_a_learner_with_labels_of_its_own_has_no_planned_chances(place):
    result = result_of(a_run(learner="tests.lab.learners:Guesses", labels="released"), place)
    assert (result["classes"], result["known"]) == (None, CLASSES)


def test_a_learner_that_overspends_is_refused(place):
    with pytest.raises(errors.BudgetExceeded):
        result_of(a_run(learner="tests.lab.learners:Overspends"), place)


def test_one_head_for_all_tasks_needs_public_labels(place):
    for learner in ("naive", "desai"):
        with pytest.raises(errors.InvalidValue, match="public labels"):
            result_of(a_run(learner=learner, labels="released"), place)


# --- features and settings that are kept


def test_features_are_encoded_once(tmp_path):
    place = Workspace(write_features(tmp_path / "data"), tmp_path / "out")
    result_of(a_run(), place)
    (file,) = (tmp_path / "out" / "features").glob("*.npy")
    before = file.stat().st_mtime_ns
    stored = np.load(file)
    data = place.load(a_run())
    assert (stored == np.concatenate([data.inputs, data.unseen_inputs])).all()
    result_of(a_run(seed=1), place)
    assert file.stat().st_mtime_ns == before
    assert not list(file.parent.glob("*.part*"))


def test_missing_data_says_what_to_do(tmp_path):
    with pytest.raises(MissingData, match=r"needs cifar100_efficientnet_lite0.npz in the data folder \(--data\)"):
        result_of(a_run(), Workspace(tmp_path, tmp_path / "out"))
    with pytest.raises(MissingData, match="Expected a CSV file"):
        result_of(a_run(data=str(tmp_path / "no.csv")), Workspace(tmp_path, tmp_path / "out"))


def test_features_alone_cannot_be_trained_through(place):
    with pytest.raises(errors.InvalidValue, match="has features alone"):
        result_of(a_run(learner="peft", adapter="film"), place)


@pytest.mark.slow
def test_the_papers_peft_is_tuned_once(tmp_path):
    place = Workspace(write_features(tmp_path / "data"), tmp_path / "out")
    first = result_of(a_run(learner="peft-paper"), place)
    (file,) = (tmp_path / "out" / "tuned").glob("*.json")
    settings, before = json.loads(file.read_text()), file.stat().st_mtime_ns
    assert settings["for"] == [DATA, 8.0, 0, "last_layer", TASKS, 0.0]
    assert f"clip_norm={settings['clip_norm']!r}" in first["digests"]["learner"]
    assert settings["tuning"] in first["spent"]["statement"]
    again = result_of(a_run(learner="peft-paper", labels="released", share=10.0), place)
    assert again["status"] == "done"
    assert file.stat().st_mtime_ns == before


# --- runs that were killed


@pytest.fixture
def half_way(tmp_path):
    """A model with one task learned, on disk."""
    x = np.repeat(np.eye(2, dtype=np.float32), 50, axis=0)
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(["a", "b"]), budget=BUDGET, path=tmp_path / "model", noise=NoiseSource.seeded(0)
    )
    model.learn_task(x, ["a"] * 50 + ["b"] * 50, name="task 1")
    return model


def test_what_was_spent_on_the_killed_task_is_voided(half_way):
    gaussian = events.Gaussian(noise_multiplier=4.0)
    with Ledger.open(half_way.path) as ledger:
        lost = [ledger.spend(gaussian, task=task, private=False) for task in (BUFFER, "task 2")]
    one_run.void_unpublished(half_way.path)
    model = rt.load(half_way.path)
    voided = {spend.row: spend.voided for spend in model.statement().spends}
    assert [row for row, reason in voided.items() if reason == "killed before its release"] == lost
    one_run.void_unpublished(half_way.path)  # nothing is left to void
    model.learn_task(np.eye(2, dtype=np.float32), ["a", "b"], name="task 2")


WORDS = ["red", "green", "blue", "lamp", "cat", "dog", "tree", "sun"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A transformer of two layers with random weights, and texts that it tells apart."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["[PAD]", "[UNK]", *WORDS])}, unk_token="[UNK]"))  # noqa: S106
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)  # noqa: S106
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=10, max_position_embeddings=8, **sizes)).save_pretrained(folder)
    inputs = [f"{word} {other}" for word in WORDS[:4] for other in WORDS for _ in range(2)]
    labels = np.array([text.split()[0] for text in inputs])
    return Data("texts", inputs, labels, inputs[::2], labels[::2], f"hf:{folder}")


def test_names_are_read_by_the_encoder_of_the_texts(texts, tmp_path, monkeypatch):
    """No accuracy is compared: how much names help depends on the random weights. Features come from a file."""
    place, models = given(tmp_path, texts), {}
    wanted, plain = (a_run(data="texts", tasks=2, names=names) for names in (True, False))
    new = one_run._model

    def kept(run, *others):
        models[run.names] = new(run, *others)
        return models[run.names]

    monkeypatch.setattr(one_run, "_model", kept)
    for run in (wanted, plain):
        result_of(run, place)
    labels = sorted(set(texts.labels.tolist()))
    read = encoders.hf(texts.encoder.removeprefix("hf:"))(labels)
    rows, found = names_of(models[True].releases)
    assert models[True].classes_[rows].tolist() == labels
    np.testing.assert_allclose(found, read / np.linalg.norm(read, axis=1, keepdims=True), atol=1e-5)
    assert not len(names_of(models[False].releases)[0])
    reader, features = place.reader(wanted), place.features(wanted)
    np.testing.assert_array_equal(reader(texts.inputs[:5]), features[:5])
    np.testing.assert_allclose(reader(["red", texts.inputs[1]])[1], features[1])
    assert np.isfinite(reader(["red"])).all()


class Interrupted(BaseException):
    """As if the process ended here."""


@pytest.mark.slow
def test_a_run_through_the_encoder_resumes_where_it_was_killed(texts, tmp_path, monkeypatch):
    wanted = a_run(data="texts", learner="desai", adapter="film", tasks=2)
    whole = result_of(wanted, given(tmp_path / "whole", texts))
    place = given(tmp_path / "killed", texts)
    learn, learned = Desai.learn_task, []

    def killed(self: Desai, task: Any, *arguments: Any, **others: Any) -> Any:
        learned.append(task.name)
        release = learn(self, task, *arguments, **others)
        if learned == ["task 1", "task 2"]:
            raise Interrupted  # spent and trained, not released
        return release

    monkeypatch.setattr(Desai, "learn_task", killed)
    with pytest.raises(Interrupted):
        result_of(wanted, place)
    folder = place.out / "unfinished" / wanted.digest
    before = {file.name: file.read_bytes() for file in folder.glob("releases/*.safetensors")}
    assert len(before) == 1
    again = result_of(wanted, place)
    assert learned == ["task 1", "task 2", "task 2"]
    assert measured(again) == measured(whole)
    rows = [(row["task"], row["voided"]) for row in again["spent"]["ledger"]]
    lost = "killed before its release"
    assert rows == [("task 1", None), (BUFFER, lost), ("task 2", lost), (BUFFER, None), ("task 2", None)]
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{"epsilon": None}, {"labels": "oracle"}], ids=["no privacy", "oracle"])
def test_runs_without_limit_also_train_through_the_encoder(texts, tmp_path, fields):
    result = result_of(a_run(data="texts", learner="peft", adapter="film", tasks=2, **fields), given(tmp_path, texts))
    assert result["spent"]["epsilon"] is None
    assert "NOT PRIVATE" in result["spent"]["statement"]


# --- with the real encoder


def write_texts(file: Path) -> Path:
    topics = {"money": "my bank account", "weather": "rain and wind", "food": "a cake recipe", "travel": "a train trip"}
    rows = [f"{label},{text} number {i}" for label, text in topics.items() for i in range(20)]
    file.write_text("\n".join(["topic,words", *rows]))
    return file


@pytest.mark.slow
def test_a_custom_csv_file(tmp_path):
    file = write_texts(tmp_path / "mine.csv")
    result = result_of(
        a_run(data=str(file), text="words", label="topic", tasks=2), Workspace(tmp_path, tmp_path / "out")
    )
    assert result["accuracy"] > 0.8
    assert sum(sum(map(bool, row)) for row in result["matrix"]) <= 3
    with pytest.raises(MissingData, match=r"columns of mine.csv"):
        result_of(a_run(data=str(file), text="wrods", label="topic", tasks=2), Workspace(tmp_path, tmp_path / "out"))


@pytest.mark.posix
@pytest.mark.slow
def test_a_killed_process_that_trained_minilm_resumes(tmp_path):
    file = write_texts(tmp_path / "mine.csv")
    fields = asdict(a_run(data=str(file), text="words", label="topic", tasks=2, learner="peft", adapter="film"))
    place, wanted = Workspace(tmp_path, tmp_path / "out"), Run(**fields)
    code = (
        "import sys, json; from pathlib import Path; from reticent.lab.bench.one_run import result_of; "
        "from reticent.lab.bench.workspace import Workspace; from reticent.lab.bench.run import Run; "
        "result_of(Run(**json.loads(sys.argv[1])), Workspace(Path(sys.argv[2]), Path(sys.argv[2]) / 'out'))"
    )
    started = subprocess.Popen([sys.executable, "-c", code, json.dumps(fields), str(tmp_path)])
    manifest = place.out / "unfinished" / wanted.digest / "manifest.json"
    while started.poll() is None and (not manifest.exists() or not json.loads(manifest.read_text())["releases"]):
        time.sleep(0.05)
    started.send_signal(signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL, "it was done before it could be killed"
    released = {f.name: f.stat().st_mtime_ns for f in manifest.parent.glob("releases/*.safetensors")}
    assert len(released) == 1
    result = result_of(wanted, place)
    spent = [(row["task"], row["voided"] is None) for row in result["spent"]["ledger"]]
    assert [task for task, counts in spent if counts] == ["task 1", "task 2"]
    assert measured(result) == measured(result_of(wanted, Workspace(tmp_path, tmp_path / "other")))


def test_a_folder_that_was_half_removed_is_no_dead_end(tmp_path, monkeypatch):
    """A manifest without its ledger is refused as a model, and a ledger without releases cannot be loaded."""
    wanted, data = a_run(adapter="film"), datasets.load(DATA, write_features(tmp_path / "data"))
    place = Given(tmp_path / "data", tmp_path / "out", data)
    monkeypatch.setattr(one_run, "encoder_of", lambda *_: None)
    path = place.out / "unfinished" / wanted.digest

    def killed(_: Path) -> None:
        raise KeyboardInterrupt

    assert one_run._model(wanted, data, rt.Cosine(), place, True).directory.path == path
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            one_run.forget(path)
    assert (path / "manifest.json").exists()
    assert one_run._model(wanted, data, rt.Cosine(), place, True).directory.path == path
