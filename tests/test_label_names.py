"""What a label is called: the user's word for it, a public title, or what the label says by itself."""

import copy
import pickle
from typing import cast

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from reticent import PublicLabels, ReleasedLabels, Taxonomy, errors, label_names, labels
from tests.encoders.samples import installed

DIABETES = {"E10": "Type 1 diabetes", "E11": "Type 2 diabetes"}


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("card_arrival", "card arrival"),
        ("card-arrival", "card arrival"),
        ("cardArrival", "card Arrival"),
        ("a card", "a card"),
        ("Größe", "Größe"),
        ("skin/rash", "skin rash"),
        ("type 2 diabetes", "type 2 diabetes"),
        ("lost_or_stolen_card", "lost or stolen card"),
    ],
)
def test_labels_that_say_something_are_their_names(label, name):
    assert label_names.said_by(label) == name == PublicLabels([label]).name(label) == ReleasedLabels().name(label)


@pytest.mark.parametrize(
    "label",
    [
        "E11.9",
        "E08-E13",
        "7",
        "c12",
        "n01440764",
        "",
        "__",
        "no",
        "class_7",
        "topic 12",
        7,
        0.5,
        ("a", "diagnosis"),
        "B2B",
    ],
)
def test_labels_that_say_nothing_have_no_name(label):
    assert label_names.said_by(label) is None
    assert ReleasedLabels().name(label) is None


@hypothesis.given(st.text() | st.integers() | st.floats() | st.tuples(st.text()))
def test_any_label_may_be_asked_for_its_name(label):
    """A released label that made it raise would lose a task that was paid for."""
    for name in (label_names.said_by(label), ReleasedLabels(names=lambda found: cast("str", found)).name(label)):
        assert name is None or (name and name == name.strip() and name.isprintable() and len(name) <= 2_000)


def test_names_that_are_missing_follow_the_rule():
    policy = PublicLabels(["E10", "lost_card", "7"], names={"E10": " Type 1 diabetes "})
    assert [policy.name(label) for label in policy.labels] == ["Type 1 diabetes", "lost card", None]


def test_titles_of_a_taxonomy_are_names():
    taxonomy = Taxonomy({"E10": "E08-E13"}, titles={"E08-E13": "Diabetes mellitus", "E10": "Type 1 diabetes"})
    policy = PublicLabels(["E08-E13", "E10", "G35"], taxonomy, names={"E10": "Diabetes of children"})
    assert [policy.name(label) for label in policy.labels] == ["Diabetes mellitus", "Diabetes of children", None]
    with pytest.raises(errors.InvalidValue, match="Expected titles"):
        Taxonomy({}, titles={"a": 7})  # type: ignore[dict-item]
    for again in (copy.deepcopy(taxonomy), pickle.loads(pickle.dumps(taxonomy))):  # noqa: S301
        assert again == taxonomy


@installed("simple_icd_10_cm")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_icd_has_its_titles():
    icd = Taxonomy.icd10cm()
    assert ReleasedLabels(names=icd.titles).names == icd.titles  # each of them can be a name
    policy = PublicLabels(["E08-E13", "E11.9"], icd)
    assert policy.name("E08-E13") == "Diabetes mellitus"
    assert policy.name("E11.9") == "Type 2 diabetes mellitus without complications"


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ({"E10": ""}, "The name of label 'E10' is empty"),
        ({"E10": "  "}, "The name of label 'E10' is empty"),
        ({"E10": "Diabetes", "E11": "Diabetes "}, "Labels 'E10' and 'E11' have the same name"),
        ({"E12": "Diabetes"}, "'E12' is none of them"),
        ({"E10": 7}, "name of label 'E10' cannot be used. Expected a text"),
        ({"E10": "two\nlines"}, "name of label 'E10' cannot be used. .* one line"),
        ({"E10": "\u202e"}, "name of label 'E10' cannot be used. .* visible"),
        ({"E10": "x" * 2_001}, "name of label 'E10' cannot be used. .* at most 2000 characters"),
        ([("E10", "Diabetes")], "names as a dict"),
    ],
)
def test_bad_names_are_refused(names, sentence):
    with pytest.raises(errors.InvalidValue, match=sentence):
        PublicLabels(["E10", "E11"], names=names)


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        (np.ones((3, 4)), "one row for each of 2 labels, in their order; got 3"),
        (np.ones(2), "shape"),
        (np.ones((2, 0)), "shape"),
        ([["a"], ["b"]], "shape"),
        ([[1.0], [1.0, 2.0]], "shape"),
        ([[1.0], [np.nan]], "finite"),
        ([[1.0], [np.inf]], "finite"),
        ([[1.0], [1e300]], "finite"),
        (np.array([[1.0], [1e300]]), "finite"),
    ],
)
def test_bad_name_features_are_refused(features, sentence):
    with pytest.raises(errors.InvalidValue, match=sentence):
        PublicLabels(["a", "b"], name_features=features)


def test_names_are_texts_or_features():
    with pytest.raises(errors.InvalidValue, match="not both"):
        PublicLabels(["a"], names={"a": "first"}, name_features=np.ones((1, 2)))


def test_policies_with_names_are_values():
    """A model refuses another policy than its own, and a clone has an equal one."""
    features = np.eye(2)
    policy = PublicLabels(["a", "b"], name_features=features)
    features[0] = 7  # a copy is kept
    assert policy == PublicLabels(["a", "b"], name_features=np.eye(2)) == copy.deepcopy(policy)
    assert hash(policy) == hash(copy.deepcopy(policy))
    assert policy != PublicLabels(["a", "b"], name_features=-np.eye(2))
    assert policy != PublicLabels(["a", "b"])
    assert PublicLabels(["a"], names={"a": "first"}) != PublicLabels(["a"], names={"a": "other"})
    assert ReleasedLabels(names={"a": "first"}) != ReleasedLabels(names={"a": "other"})
    with pytest.raises(ValueError, match="read-only"):
        policy.name_features[0] = 1  # type: ignore[index]


# --- released labels


@pytest.mark.parametrize("answer", [7, "", "two\nlines", b"bytes", "x" * 2_001, "\ud800", ["list"], float("nan")])
def test_answers_that_are_no_names_are_none(answer):
    assert ReleasedLabels(names=lambda _: answer).name("lost_card") is None


def test_names_of_released_labels():
    def fails(label: labels.Label) -> str:
        raise KeyError(label)

    assert ReleasedLabels(names=fails).name("lost_card") is None
    assert ReleasedLabels(names=lambda _: None).name("lost_card") == "lost card"
    assert ReleasedLabels(names=DIABETES).name("E10") == "Type 1 diabetes"
    assert ReleasedLabels(names=DIABETES).name("lost_card") == "lost card"
    assert ReleasedLabels(names={"a": "one", "b": "one"}).name("a") == "one"  # whole vocabularies repeat themselves
    with pytest.raises(errors.InvalidValue, match="The name of label 'a' is empty"):
        ReleasedLabels(names={"a": ""})
    with pytest.raises(errors.InvalidValue, match="names as a dict"):
        ReleasedLabels(names=7)  # type: ignore[arg-type]


# --- files


def test_names_are_read_from_a_file(tmp_path):
    (tmp_path / "labels.txt").write_text("E10\nE11\nlost_card\n")
    (tmp_path / "names.csv").write_bytes(b'\xef\xbb\xbfname,label,more\n"Type 1, diabetes",E10,x\n\nType 2,E11,y\n')
    policy = PublicLabels.from_file(tmp_path / "labels.txt", names=tmp_path / "names.csv")
    assert [policy.name(label) for label in policy.labels] == ["Type 1, diabetes", "Type 2", "lost card"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("code,name\nE10,x\n", "columns label and name"),
        ("label,name\nE10,\n", "The name of label 'E10' is empty"),
        ("label,name\nE10,one\nE10,two\n", "Line 3 of .* has a name already"),
        ("label,name\nE10 ,one\n", "Line 2 of .* has blanks around"),
        ("label,name\nE10\n", "Expected 2 cells in line 2"),
        ("label,name\nE12,other\n", "'E12' is none of them"),
        ("label,name\nE10,one\nE11,one\n", "the same name"),
    ],
)
def test_bad_files_of_names_are_refused(tmp_path, content, sentence):
    (tmp_path / "labels.txt").write_text("E10\nE11\n")
    (tmp_path / "names.csv").write_text(content)
    with pytest.raises(errors.InvalidValue, match=sentence):
        PublicLabels.from_file(tmp_path / "labels.txt", names=tmp_path / "names.csv")
