"""A task whose label space is a public part of the model's labels: learned as the paper says, or refused unspent."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import reticent as rt
from reticent import errors
from reticent.gate.noise import NoiseSource
from reticent.lab.baselines.oracles import LabelOracle, experiment
from reticent.lab.baselines.sequential import Naive
from reticent.privacy import events
from reticent.released.release import Release
from tests.cli.command import refused, reticent
from tests.conftest import ALPHA

BUDGET = rt.Budget(epsilon=8.0, delta=1e-5)
SPACE = ["a", "b", "c", "d"]
WIDTH = 8
PEFT = rt.PeftEnsemble(task_size=200, epochs=2)
LEARNERS = [rt.Cosine(), rt.Cosine.paper(), PEFT, rt.PeftEnsemble.paper(adapter=rt.encoders.last_layer, task_size=200)]
names = lambda learner: type(learner).__name__ + (".paper" if getattr(learner, "keep_all", False) else "")  # noqa: E731


def examples(found: str, each: int = 60, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    centres = np.random.default_rng(7).normal(size=(26, WIDTH)) * 2
    draw = np.random.default_rng(seed)
    x = np.concatenate([centres[ord(label) - 97] + draw.normal(size=(each, WIDTH)) for label in found])
    return x.astype(np.float32), [label for label in found for _ in range(each)]


def rows_of(release: Release) -> list[int]:
    return [int(row) for row in release.parameters["rows"]]


def sums(x: np.ndarray, y: list[Any], label: str) -> np.ndarray:
    unit = x.astype(np.float64) / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
    total: np.ndarray = unit[np.array([one == label for one in y])].sum(axis=0)
    return total


@pytest.mark.parametrize("learner", LEARNERS, ids=names)
def test_a_task_releases_its_own_labels_alone(learner):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(SPACE), learner=learner, budget=BUDGET)
    model.learn_task(*examples("ab"), name="march", labels=["b", "a"])
    model.learn_task(*examples("bcd", seed=1), name="april", labels=["b", "d"])
    assert [rows_of(release) for release in model.releases] == [[0, 1], [1, 3]]
    assert model.classes_.tolist() == SPACE
    answers = set(model.predict(examples("abcd", seed=2)[0]).tolist())
    assert "c" not in answers  # none of its examples counted
    assert {"a", "d"} <= answers


@pytest.mark.parametrize("learner", [rt.Cosine.paper(), rt.Cosine(centre=False)], ids=names)
def test_sums_of_a_part_are_the_papers(learner):
    """s_o is as before where o is not in O_t, else more by the sum of its examples and noise of the usual deviation."""
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(SPACE, remap={"c": "d", "a": "c"}), learner=learner, budget=BUDGET
    )
    whole = rt.ContinualClassifier(labels=rt.PublicLabels(["b", "d"]), learner=learner, budget=BUDGET)
    x, y = examples("abcd", 40)
    found = model.learn_task(x, y, name="march", labels=["b", "d"]).releases[-1]
    alone = whole.learn_task(x, y, name="march").releases[-1]
    assert isinstance(found.event, events.Gaussian)
    sigma = found.event.noise_multiplier
    assert found.event == alone.event  # what it costs is what these labels alone cost
    moved = ["d" if label == "c" else label for label in y]  # c goes to d; a goes to c, which is no label of the task

    def is_noise(labels: list[str]) -> bool:
        rest = found.parameters["sums"] - np.stack([sums(x, labels, label) for label in "bd"])
        energy = float(np.square(rest / sigma).sum())
        return bool(ALPHA < stats.chi2.cdf(energy, rest.size) < 1 - ALPHA)

    assert is_noise(moved)
    assert not is_noise(y)  # where examples of c were dropped


def test_a_taxonomy_climbs_to_the_labels_of_the_task():
    tree = rt.Taxonomy.from_edges([("E10", "E08-E13"), ("E11", "E08-E13")], otherwise="other")
    policy = rt.PublicLabels(["E10", "E11", "E08-E13", "other"], remap=tree)
    part = policy.of_task(["E10", "E08-E13"], policy.space)
    assert [part.resolve(label, policy.space) for label in ("E10", "E11", "I20")] == ["E10", "E08-E13", None]
    assert part.rows(["E10", "E11", "I20"], policy.space).tolist() == [0, 2, -1]
    assert policy.resolve("E11", policy.space) == "E11"  # the policy itself is as it was


@pytest.mark.parametrize("learner", LEARNERS[:2], ids=names)
def test_labels_that_were_not_in_a_task_get_no_noise(learner):
    """What the paper's oracle gains by reading the data: here it is public which labels a task may have."""

    def accuracy(narrow: bool) -> float:
        policy = rt.PublicLabels([f"{label}" for label in "abcdefghijkl"])
        low = rt.Budget(epsilon=0.6, delta=1e-5)
        model = rt.ContinualClassifier(labels=policy, learner=learner, budget=low, noise=NoiseSource.seeded(3))
        for t in range(6):
            mine = "abcdefghijkl"[2 * t : 2 * t + 2]
            model.learn_task(*examples(mine, 30, t), name=f"{t}", labels=list(mine) if narrow else None)
        return model.score(*examples("abcdefghijkl", 30, 99))

    assert accuracy(True) > accuracy(False)


# --- refused, and nothing spent


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (["a", "e"], "among the public labels"),
        ([], "at least one label"),
        (["a", "a"], "distinct labels"),
        ("ab", "a list of labels"),
        ({"a": 1}, "a list of labels"),
        (7, "a list of labels"),
        ([None], "not None or NaN"),
    ],
)
def test_labels_of_a_task_are_refused(tmp_path, labels, sentence):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(SPACE), budget=BUDGET, path=tmp_path / "model")
    with pytest.raises(errors.InvalidValue, match=sentence) as error:
        model.learn_task(*examples("ab"), name="march", labels=labels)
    assert "'e'" not in str(error.value)
    assert not model.statement().spends
    assert model.learn_task(*examples("ab"), name="march", labels=["a", "b"]).releases


def test_released_labels_have_no_part():
    model = rt.ContinualClassifier(labels=rt.ReleasedLabels(), budget=BUDGET)
    with pytest.raises(errors.InvalidValue, match="Expected labels= with PublicLabels"):
        model.learn_task(*examples("ab"), labels=["a"])
    assert not model.statement().spends


def test_the_labels_of_the_examples_are_no_part():
    """The same object; labels that merely are equal pass, since only who chose them knows where they are from."""
    x, y = examples("ab")
    model = rt.ContinualClassifier(labels=rt.PublicLabels(SPACE), budget=BUDGET)
    for private in (y, np.array(y)):
        with pytest.raises(errors.InvalidValue, match="chosen in public, got the labels of the examples"):
            model.learn_task(x, private, labels=private)
    assert not model.statement().spends
    assert model.learn_task(x, y, labels=list(dict.fromkeys(y))).releases


def test_memory_has_no_part(tmp_path):
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(SPACE),
        budget=BUDGET,
        path=tmp_path / "model",
        memory=rt.Memory(vault=tmp_path / "vault"),
    )
    with pytest.raises(errors.InvalidValue, match="without memory"):
        model.learn_task(*examples("ab"), labels=["a"])
    assert not model.statement().spends


def test_a_learner_that_does_not_narrow_is_refused():
    model = rt.ContinualClassifier(labels=rt.PublicLabels(SPACE), learner=Naive(PEFT), budget=BUDGET)
    with pytest.raises(errors.InvalidValue, match="Naive does not say that it narrows"):
        model.learn_task(*examples("ab"), labels=["a"])
    assert not model.statement().spends


@pytest.mark.parametrize("learner", [rt.Cosine(), PEFT], ids=names)
def test_a_part_of_thousands_is_refused(learner):
    space = [f"{i}" for i in range(3_000)]
    model = rt.ContinualClassifier(labels=rt.PublicLabels(space), learner=learner, budget=BUDGET)
    with pytest.raises(errors.InvalidValue, match="at most 2,000 labels for one task"):
        model.learn_task(*examples("ab"), labels=space[:2_001])
    assert not model.statement().spends
    assert rows_of(model.learn_task(*examples("ab"), labels=space[5:7]).releases[-1]) == [5, 6]


# --- neighbours; a twin that reads the part off the data is noticed


def support(model: rt.ContinualClassifier, x: np.ndarray, y: list[str], **given: Any) -> Any:
    release = model.learn_task(x, y, name="march", **given).releases[-1]
    return rows_of(release), {name: value.shape for name, value in release.parameters.items()}, release.event


def test_neighbours_have_the_same_part_and_a_twin_that_reads_it_off_the_data_has_not():
    x, y = examples("ab")
    more = np.concatenate([x, x[:1]]), [*y, "c"]
    policy = rt.PublicLabels(SPACE)

    def ours() -> rt.ContinualClassifier:
        return rt.ContinualClassifier(labels=policy, budget=BUDGET)

    given: dict[str, Any] = {"labels": ["a", "b", "c"]}
    assert support(ours(), x, y, **given) == support(ours(), more[0], more[1], **given)
    twins = [experiment(LabelOracle(), policy, budget=BUDGET) for _ in range(2)]
    assert support(twins[0], x, y) != support(twins[1], more[0], more[1])


# --- the command line


def test_learn_takes_a_file_of_labels(tmp_path):
    (tmp_path / "all.txt").write_text("a\nb\nc\n")
    (tmp_path / "few.txt").write_text("c\na\n")
    (tmp_path / "other.txt").write_text("a\nz\n")
    x, y = examples("abc", 20)
    lines = ["y," + ",".join(f"f{i}" for i in range(WIDTH))]
    lines += [f"{label}," + ",".join(f"{value:.4f}" for value in row) for row, label in zip(x, y, strict=True)]
    (tmp_path / "march.csv").write_text("\n".join(lines))
    budget = ["--epsilon", "8", "--delta", "1e-5", "--tasks-per-person", "1"]
    model = tmp_path / "model"
    made = reticent("init", model, *budget, "--labels", tmp_path / "all.txt", "--encoder", "none")
    assert made.returncode == 0, made.stderr
    learn = ["learn", tmp_path / "march.csv", "--model", model, "--label", "y", "--each-row-is-a-person"]
    learn += ["--features", ",".join(f"f{i}" for i in range(WIDTH))]
    sentence = refused(reticent(*learn, "--labels", tmp_path / "other.txt"))
    assert "among the public labels of the model. Nothing was spent." in sentence
    assert not rt.load(model).statement().spends
    done = reticent(*learn, "--labels", tmp_path / "few.txt")
    assert done.returncode == 0, done.stderr
    assert rows_of(rt.load(model).releases[-1]) == [0, 2]
