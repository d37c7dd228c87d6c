import json
import os

import numpy as np
import pytest

from reticent import (
    Budget,
    ContinualClassifier,
    PublicLabels,
    ReleasedLabels,
    Taxonomy,
    errors,
    load,
    stored_policies,
)
from reticent.numerics import text_files
from reticent.privacy import accounting, count_weights, events, selection

BUDGET = Budget(epsilon=1.0, delta=1e-5)
ICD = [("E10.2", "E10"), ("E10", "E08-E13"), ("E08-E13", "4"), ("G35", "G35-G37")]


def test_taxonomy_maps_to_nearest_ancestor():
    icd = Taxonomy.from_edges(ICD)
    assert icd.nearest("E10.2", {"E10", "4"}) == "E10"
    assert icd.nearest("E10.2", {"4"}) == "4"
    assert icd.nearest("E10", {"E10"}) == "E10"
    assert icd.nearest("G35", {"4"}) is None
    assert Taxonomy.from_edges(ICD, otherwise="unknown").nearest("G35", {"4"}) == "unknown"


def test_taxonomy_from_csv(tmp_path):
    file = tmp_path / "edges.csv"
    file.write_text("child,parent\nE10.2,E10\nE10,E08-E13\n")
    assert Taxonomy.from_csv(file).nearest("E10.2", {"E08-E13"}) == "E08-E13"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(errors.InvalidValue, match="columns child and parent"):
        Taxonomy.from_csv(file)


@pytest.mark.parametrize("edges", [[("a", "b"), ("b", "a")], [("a", "a")], [("a", "b"), ("a", "c")]])
def test_bad_taxonomies_are_refused(edges):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        Taxonomy.from_edges(edges)


@pytest.mark.parametrize(
    "remap", [Taxonomy.from_edges(ICD), {"E10.2": "E10"}, lambda label: label.split(".")[0]], ids=["tree", "dict", "f"]
)
def test_remaps(remap):
    policy = PublicLabels(["E10", "E11"], remap=remap)
    known = set(policy.labels)
    assert policy.resolve("E10.2", known) == "E10"
    assert policy.resolve("E11", known) == "E11"
    assert policy.resolve("Z99", known) is None


@pytest.mark.parametrize("label", [None, float("nan"), ["E10"], {"E10": 1}, 7, "", object()])
def test_private_labels_never_raise(label):
    """A remap that fails on a label would reveal that there was such a label."""
    policy = PublicLabels(["E10"], remap=lambda name: name.upper())
    assert policy.resolve(label, {"E10"}) is None


def test_a_target_outside_the_space_is_dropped():
    assert PublicLabels(["a"], remap={"b": "c"}).resolve("b", {"a"}) is None
    assert PublicLabels(["a"], remap=Taxonomy.from_edges([], otherwise="c")).resolve("b", {"a"}) is None


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize(
    "policy",
    [
        PublicLabels(["a"]),
        ReleasedLabels(),
        ReleasedLabels(class_size=2000),
        ReleasedLabels(selection=events.OptimalSelection),
        ReleasedLabels.paper(share=0.2),
    ],
)
def test_what_a_policy_spends_is_within_the_budget(policy, n, m):
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=n, examples_per_person=m)
    if isinstance(policy, PublicLabels):
        event: events.Event = policy.sums(budget)
    else:
        event = policy.joint(budget) if policy.selection is None else events.compose(*policy.selection_and_sums(budget))
    assert accounting.within(event, budget)


@pytest.mark.parametrize(
    "bad",
    [
        {"share": 0.1},
        {"selection": events.OptimalSelection, "count_weight": 0.1},
        {"count_weight": 0.1, "class_size": 100},
        {"count_weight": 0.0},
        {"class_size": 1},
        {"selection": events.OptimalSelection, "share": 1.0},
        {"selection": events.Gaussian},
        {"selection": events.BinaryTest},
    ],
)
def test_bad_policies_are_refused(bad):
    with pytest.raises(errors.InvalidValue, match="Expected"):
        ReleasedLabels(**bad)


def test_bad_public_labels_are_refused():
    with pytest.raises(errors.InvalidValue, match="one string"):
        PublicLabels("E10")
    with pytest.raises(errors.InvalidValue, match="distinct"):
        PublicLabels(["a", "a"])
    with pytest.raises(errors.InvalidValue, match="remap"):
        PublicLabels(["a"], remap=7)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidValue, match="No count weight"):
        ReleasedLabels(class_size=3).joint(Budget(epsilon=1.0, delta=1e-5))
    with pytest.raises(errors.InvalidValue, match="public superset"):
        ReleasedLabels().joint(Budget(epsilon=1.0, delta=0.0))


@pytest.mark.parametrize(
    "policy",
    [
        PublicLabels(["a", 7]),
        PublicLabels(["a"], remap={"b": "a"}),
        PublicLabels(["a"], remap=Taxonomy.from_edges([("b", "a")], otherwise="a")),
        PublicLabels([("a", 1)], remap=Taxonomy.from_edges([(("b", 2), ("a", 1))], otherwise=("a", 1))),
        PublicLabels([("a", 1)], remap={("b", 2): ("a", 1)}),
        ReleasedLabels(class_size=50),
        ReleasedLabels.paper(share=0.3),
        *(ReleasedLabels(selection=row.event) for row in selection.TABLE),
    ],
)
def test_policies_survive_json(policy):
    labels = policy.labels if isinstance(policy, PublicLabels) else ()
    stored = json.loads(json.dumps([stored_policies.to_json(policy, BUDGET), stored_policies.public_json(policy)]))
    assert stored_policies.from_json(stored[0], labels, stored[1]) == policy


def test_the_weight_is_fixed_when_a_model_is_made(tmp_path, monkeypatch):
    """A default is written down: another default later, or a model read elsewhere, changes nothing."""
    made = ContinualClassifier(labels=ReleasedLabels(), budget=BUDGET, path=tmp_path / "model")
    weight = ReleasedLabels().weight(BUDGET)
    assert made.directory.settings["policy"]["count_weight"] == weight != count_weights.WITHOUT_RECORD
    monkeypatch.setattr(count_weights, "default_count_weight", lambda budget, horizon=None: 0.4)
    again = load(tmp_path / "model")
    assert again.labels == ReleasedLabels(count_weight=weight)
    assert again.labels.joint(BUDGET).count_weight == weight
    again.learn_task(np.eye(3), ["a", "b", "c"], name="first")
    event = again.releases[0].event
    assert isinstance(event, events.JointGaussian)
    assert event.count_weight == weight


def test_models_without_a_recorded_weight_keep_the_old_one():
    stored = {"kind": "released", "count_weight": None, "class_size": None, "remember": True, "selection": None}
    older = stored_policies.from_json({**stored, "share": None}, (), {})
    assert older == ReleasedLabels(count_weight=0.1)
    sized = stored_policies.from_json({**stored, "class_size": 100, "share": None}, (), {})
    assert sized == ReleasedLabels(class_size=100)
    assert stored_policies.to_json(sized, BUDGET)["count_weight"] is None


def test_memory_asks_for_its_own_weight():
    assert stored_policies.to_json(ReleasedLabels(), BUDGET, horizon=120)[
        "count_weight"
    ] == count_weights.default_count_weight(BUDGET, horizon=120)
    assert ReleasedLabels(count_weight=0.3).weight(BUDGET, horizon=120) == 0.3


def test_public_labels_are_indexed_once():
    policy = PublicLabels(["a", "b"])
    assert policy.space.labels is policy.labels
    assert policy == PublicLabels(["a", "b"])
    assert "space" not in repr(policy)


# --- files of public labels


@pytest.mark.parametrize(
    "content", [b"E10\nE11\n", b"\xef\xbb\xbfE10\nE11", b"E10\r\nE11\r\n", b"\n\nE10\n\nE11\n  \n", b"E10\rE11"]
)
def test_label_files_are_read_or_refused(tmp_path, content):
    """With a byte order mark the first label was another one, and accuracy fell from 1 to 0.5 in silence."""
    file = tmp_path / "labels.txt"
    file.write_bytes(content)
    assert PublicLabels.from_file(file).labels == ("E10", "E11")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"E10 \nE11\n", "Line 1 of .* has blanks around"),
        (b"E10\n\tE11\n", "Line 2 of .* has blanks around"),
        (b"E10\nE11\xe2\x80\x8b\n", "Line 2 of .* cannot be seen"),
        (b"E10\nE\x0011\n", "Line 2 of .* cannot be seen"),
        (b"E10\tdiabetes\n", "Line 1 of .* cannot be seen"),
        (b"", "got none"),
        (b"\xef\xbb\xbf \n\n", "got none"),
        (b"E10\nE11\n\nE10\n", "Lines 1 and 4 of .* are the same label"),
        ("café\n".encode("latin-1"), "is not UTF-8"),
        ("E10\nE11\n".encode("utf-16"), "is not UTF-8"),
    ],
)
def test_label_files_that_could_not_match_are_refused(tmp_path, content, sentence):
    file = tmp_path / "labels.txt"
    file.write_bytes(content)
    with pytest.raises(errors.InvalidValue, match=sentence):
        PublicLabels.from_file(file)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"child,parent\na,b\nb,a\n", "without cycles"),
        (b"child,parent\na,a\n", "without cycles"),
        (b"child,parent\na,b\na,c\n", "one parent for each label"),
        (b"child,parent\na\n", "Expected 2 cells in line 2"),
        (b"child,parent\na,b ,c\n", "Expected 2 cells in line 2"),
        (b"child,parent\na,b \n", "Line 2 of .* has blanks around"),
        (b"child,child,parent\na,b,c\n", "columns child and parent"),
        (b"", "columns child and parent"),
        (b"child,parent\na," + b"x" * 200_000 + b"\n", "does not parse"),
        ("child,parent\ncafé,b\n".encode("latin-1"), "is not UTF-8"),
        ("child,parent\n" + "".join(f"{i},{i + 1}\n" for i in range(1_001)), "at most 1000 levels"),
    ],
)
def test_taxonomies_are_refused_with_a_sentence(tmp_path, content, sentence):
    file = tmp_path / "icd.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(errors.InvalidValue, match=sentence):
        Taxonomy.from_csv(file)


def test_a_taxonomy_with_a_byte_order_mark_is_read(tmp_path):
    file = tmp_path / "icd.csv"
    file.write_bytes(b"\xef\xbb\xbfchild,parent\r\nE10.2,E10\r\n\r\n")
    assert Taxonomy.from_csv(file).parents == {"E10.2": "E10"}


@pytest.mark.posix
def test_public_files_are_regular_and_of_limited_size(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(errors.InvalidValue, match="No file at"):
        PublicLabels.from_file(tmp_path / "pipe.txt")
    monkeypatch.setattr(text_files, "LARGEST", 10)
    (tmp_path / "labels.txt").write_text("E10\n" * 3)
    with pytest.raises(errors.InvalidValue, match="at most"):
        PublicLabels.from_file(tmp_path / "labels.txt")


def test_labels_that_no_file_can_hold_are_dropped():
    """A released one raised after its spend."""
    assert PublicLabels(["a"], remap=lambda _: "a").resolve("caf\udce9", {"a"}) is None
    with pytest.raises(errors.InvalidValue, match="Expected labels"):
        PublicLabels(["caf\udce9"])
