"""Features of names: made of public and released labels alone, before the spend where they can be, and stored once."""

from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors, stored_policies
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.labels import LabelSpace
from reticent.released import naming, store
from reticent.released.naming import Naming, names_of
from reticent.sensitive.task import Task
from reticent.testing import check_learner
from tests.reading import WIDTH, WITHOUT_TEXT, WORDS
from tests.stored import BUDGET

LABELS = ("lost_card", "E10", "card_arrival")
NAMES = {"E10": "type 1 diabetes"}
X = [f"{word} {i % 3}" for word in ("lost my card", "sugar", "where is it") for i in range(300)]
Y = [label for label in LABELS for _ in range(300)]


def unit(text: str) -> Any:
    row = WORDS([text])[0].astype(np.float64)
    return (row / np.linalg.norm(row)).astype(np.float32)


def learned(policy: rt.PublicLabels | rt.ReleasedLabels, path: Any = None, **settings: Any) -> rt.ContinualClassifier:
    settings = {"encoder": WORDS, "learner": rt.Cosine(), **settings}
    model = rt.ContinualClassifier(labels=policy, budget=BUDGET, path=path, **settings)
    return model.learn_task(X, Y, name="march")


def named(model: rt.ContinualClassifier) -> dict[Any, Any]:
    rows, features = names_of(model.releases)
    return {model.classes_[row]: feature for row, feature in zip(rows, features, strict=True)}


def test_names_of_public_labels_are_stored_once(tmp_path):
    model = learned(rt.PublicLabels(LABELS, names=NAMES), tmp_path / "model")
    found = named(model)
    assert list(found) == list(LABELS)
    for label, text in (("lost_card", "lost card"), ("E10", "type 1 diabetes"), ("card_arrival", "card arrival")):
        np.testing.assert_array_equal(found[label], unit(text))
    again = rt.load(tmp_path / "model", encoder=WORDS)
    assert again.labels == rt.PublicLabels(LABELS, names=NAMES)
    again.learn_task(X, Y, name="april")
    assert [len(release.parameters["named"]) for release in again.releases] == [3, 0]
    assert names_of(again.releases)[0].tolist() == [0, 1, 2]


def test_names_of_released_labels_are_stored(tmp_path):
    model = learned(rt.ReleasedLabels(names=NAMES), tmp_path / "model")
    assert set(model.classes_) == set(LABELS)
    np.testing.assert_array_equal(named(model)["E10"], unit("type 1 diabetes"))
    again = rt.load(tmp_path / "model", encoder=WORDS).labels
    assert again is not None
    assert again.names == NAMES


def test_a_function_of_names_is_not_stored(tmp_path):
    model = learned(rt.ReleasedLabels(names=lambda _: "type 1 diabetes"), tmp_path / "model")
    assert len(named(model)) == 1  # a name that another label has is none
    again = rt.load(tmp_path / "model", encoder=WORDS).labels
    assert again is not None
    assert again.names is None


def test_only_released_labels_are_asked():
    asked: list[Any] = []
    policy = rt.ReleasedLabels(names=asked.append)  # which returns None
    model = rt.ContinualClassifier(labels=policy, budget=BUDGET, encoder=WORDS)
    model.learn_task([*X, "rare"], [*Y, "a rare diagnosis"], name="march")
    assert asked
    assert set(asked) == set(LABELS) == set(model.classes_)


def test_pending_labels_are_not_asked(tmp_path):
    """The vault keeps what is known of them, and a function of names may ask somebody else."""
    asked: list[Any] = []
    model = rt.ContinualClassifier(
        labels=rt.ReleasedLabels(names=asked.append),
        budget=BUDGET,
        encoder=WORDS,
        path=tmp_path / "model",
        memory=rt.Memory(vault=tmp_path / "vault"),
    )
    for month in ("march", "april"):
        model.learn_task([*X, "rare"], [*Y, "a rare diagnosis"], name=month)
    assert set(asked) == set(LABELS) == set(model.classes_)


def test_labels_added_later_are_named():
    model = learned(rt.PublicLabels(LABELS))
    model.extend_labels(["stolen_card", "E11"]).learn_task(X, Y, name="april")
    np.testing.assert_array_equal(named(model)["stolen_card"], unit("stolen card"))
    assert "E11" not in named(model)


def test_titles_name_labels_that_are_added_later(tmp_path):
    taxonomy = rt.Taxonomy({}, titles={"E10": "type 1 diabetes", "E11": "type 2 diabetes"})
    learned(rt.PublicLabels(["E10"], taxonomy), tmp_path / "model")
    model = rt.load(tmp_path / "model", encoder=WORDS).extend_labels(["E11"]).learn_task(X, Y, name="april")
    np.testing.assert_array_equal(named(model)["E11"], unit("type 2 diabetes"))


def test_features_of_the_user_are_stored():
    features = np.zeros((3, WIDTH))
    features[0, 2], features[2, 1] = 2.0, 1e30
    model = rt.ContinualClassifier(labels=rt.PublicLabels(LABELS, name_features=features), budget=BUDGET)
    model.learn_task(WORDS(X), Y, name="march").extend_labels(["late"]).learn_task(WORDS(X), Y, name="april")
    assert {label: row.argmax() for label, row in named(model).items()} == {"lost_card": 2, "card_arrival": 1}
    np.testing.assert_allclose(np.linalg.norm(names_of(model.releases)[1], axis=1), 1, rtol=1e-6)


def test_large_spaces_name_what_was_learned(monkeypatch):
    monkeypatch.setattr(naming, "ALL_NAMED", 2)
    space = LabelSpace(LABELS)
    first = Naming.of_known(rt.PublicLabels(LABELS), WORDS, space, (), width=WIDTH)
    assert not len(first.ready[0])
    found = first.arrays(space, np.array([2]))
    assert found["named"].tolist() == [2]
    np.testing.assert_array_equal(found["names"], [unit("card arrival")])


# --- who reads no names


@pytest.mark.parametrize("policy", [rt.PublicLabels(LABELS), rt.ReleasedLabels()])
def test_models_without_names_release_what_they_did(policy):
    """The paper's modes, features as input, and encoders of anything but texts."""
    plain = {"rows", "sums", "noise"}
    (paper,) = learned(policy, learner=rt.Cosine.paper()).releases
    assert set(paper.parameters) == plain
    (release,) = learned(policy, encoder=WITHOUT_TEXT).releases
    assert set(release.parameters) == {*plain, "centre"}
    (release,) = rt.ContinualClassifier(labels=policy, budget=BUDGET).learn_task(WORDS(X), Y).releases
    assert set(release.parameters) == {*plain, "centre"}


# --- bad input


@pytest.mark.parametrize(
    ("policy", "encoder", "sentence"),
    [
        (rt.PublicLabels(["a"], names={"a": "first"}), None, "Expected an encoder that reads texts"),
        (rt.PublicLabels(["a"], names={"a": "first"}), WITHOUT_TEXT, "Expected an encoder that reads texts"),
        (rt.PublicLabels(["a"], names={"a": "first"}), lambda texts: texts, "Expected an encoder that reads texts"),
        (rt.ReleasedLabels(names={"a": "first"}), None, "Expected an encoder that reads texts"),
        (rt.ReleasedLabels(names=str), None, "Expected an encoder that reads texts"),
        (rt.PublicLabels(["a"], name_features=np.ones((1, 3))), None, "name_features of 16 columns.*got 3"),
        (rt.PublicLabels(["a"], name_features=np.ones((1, 3))), WORDS, "name_features of 16 columns.*got 3"),
    ],
)
def test_bad_names_are_refused_before_the_spend(policy, encoder, sentence):
    known = policy.space if isinstance(policy, rt.PublicLabels) else LabelSpace(())
    with Ledger.create(None, BUDGET) as ledger:
        task = Task(X if encoder else WORDS(X), Y, name="march")
        read = (lambda texts: WORDS(texts)) if encoder is not None and encoder not in (WORDS, WITHOUT_TEXT) else encoder
        with pytest.raises(errors.InvalidValue, match=sentence):
            rt.Cosine().learn_task(task, policy, known=known, encoder=read, gate=Gate(ledger))
        assert not ledger.statement().spends


def test_names_that_cannot_be_used_make_no_folder(tmp_path):
    policy = rt.PublicLabels(LABELS, names=NAMES)
    with pytest.raises(errors.InvalidValue, match="reads texts"):
        learned(policy, tmp_path / "model", encoder=None)
    assert not (tmp_path / "model").exists()


def test_names_that_fail_after_the_spend_are_none():
    """The task is paid for, so it is published; the next one tries again."""
    down = True

    def name(label: object) -> str:
        if down:
            raise OSError("the service of names is down")
        return f"a name for {label}"

    model = learned(rt.ReleasedLabels(names=name))
    assert not named(model)
    down = False
    assert set(named(model.learn_task(X, Y, name="april"))) == set(LABELS)


def test_an_encoder_that_fails_after_the_spend_is_no_loss(monkeypatch):
    naming_ = Naming.of_known(rt.ReleasedLabels(), WORDS, LabelSpace(()), (), width=WIDTH)
    monkeypatch.setattr(type(WORDS), "__call__", lambda *_: 1 / 0)
    found = naming_.arrays(LabelSpace(LABELS), np.arange(3))
    assert found["named"].shape == (0,)
    assert found["names"].shape == (0, WIDTH)


# --- one private row changes nothing


@pytest.mark.parametrize(
    "policy",
    [rt.PublicLabels(["a", "b", "c"], names={"a": "first one", "b": "second one"}), rt.ReleasedLabels(names=str)],
)
def test_learners_with_names_pass_the_suite(policy):
    def task(labels: Any, name: str) -> Task:
        return Task([f"text of {label}" for label in labels], labels, name=name)

    policies = [
        policy if isinstance(policy, rt.PublicLabels) else rt.ReleasedLabels(names=lambda label: f"label {label}")
    ]
    check_learner(rt.Cosine(), policies=policies, make_task=task, encoder=WORDS)


def test_one_row_changes_no_name():
    policy = rt.ReleasedLabels(names=NAMES)
    names = []
    for x, y in ((X, Y), (X[1:], Y[1:]), ([*X, "rare"], [*Y, "rare diagnosis"])):
        model = rt.ContinualClassifier(labels=policy, budget=BUDGET, encoder=WORDS).learn_task(x, y, name="march")
        names.append([array.tobytes() for array in names_of(model.releases)])
    assert names[0] == names[1] == names[2]


# --- stored names


def test_older_models_have_no_names(tmp_path):
    entry = store.write_labels(tmp_path, LabelSpace(LABELS), {"remap": None})
    labels, public = store.read_labels(tmp_path, entry)
    assert stored_policies.from_json({"kind": "public"}, labels, public) == rt.PublicLabels(LABELS)


@pytest.mark.parametrize(
    "names",
    [7, {"a": "b"}, [["a"]], [["a", 7]], [["a", ["x"]]], [["other", "x"]], [["a", ""]], [["a", "x" * 2_001]], "ab"],
)
def test_names_of_a_hostile_file_are_refused(tmp_path, names):
    entry = store.write_labels(tmp_path, LabelSpace(("a", "b")), {"remap": None, "names": names})
    with store.readable(tmp_path / store.LABELS):
        found = store.read_labels(tmp_path, entry)
    with pytest.raises(errors.InvalidValue, match=r"Expected|cannot be|is empty"), store.readable(tmp_path):
        stored_policies.from_json({"kind": "public"}, *found)
