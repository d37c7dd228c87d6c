"""Public labels beside released ones: beyond 2,000 known ones, blocks that stand out are published alone."""

from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.gate.sparse import ALL_KEPT
from reticent.privacy import events
from reticent.released import standing, sums
from reticent.released.release import Release
from reticent.released.standing import STANDING

WIDTH, MANY = 32, 5_000
BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
DRAW = np.random.default_rng(6)
COMMON = np.eye(1, WIDTH)[0]
MEANS = {name: COMMON + DRAW.normal(size=WIDTH) / 6 for name in ("flu", "gout", "mumps", "label 7")}


def examples(**sizes: int) -> tuple[Any, list[str]]:
    names = [name.replace("_", " ") for name, size in sizes.items() for _ in range(size)]
    return np.stack([MEANS[name] + DRAW.normal(size=WIDTH) / 12 for name in names]), names


def model(learner: rt.Cosine | None = None, policy: Any = None, public: int = MANY) -> rt.ContinualClassifier:
    """Two released labels, then so many public ones."""
    made = rt.ContinualClassifier(
        labels=rt.ReleasedLabels() if policy is None else policy, learner=learner or rt.Cosine(), budget=BUDGET
    )
    made.learn_task(*examples(flu=400, gout=300), name="first")
    assert made.classes_.tolist() == ["flu", "gout"]
    return made.extend_labels([f"label {i}" for i in range(public)])


def rows(release: Release) -> list[int]:
    return list(release.parameters["rows"].tolist())


def along(release: Release, row: int, name: str) -> float:
    """The cosine of a published sum with the mean of a class."""
    block = release.parameters["sums"][rows(release).index(row)].astype(np.float64)
    return float(block @ MEANS[name] / np.linalg.norm(block) / np.linalg.norm(MEANS[name]))


KINDS = [None, rt.ReleasedLabels(selection=events.OptimalSelection, share=0.2)]


@pytest.mark.parametrize("policy", KINDS, ids=["joint", "selection"])
def test_public_labels_beside_released_ones_are_kept_where_they_stand_out(policy):
    """Also once features are mirrored, and beside a label that becomes known: sums point where their classes do."""
    made, found = model(policy=policy), 2 + 7
    for task in range(3):
        made.learn_task(*examples(flu=200, label_7=300, mumps=300 if task == 2 else 1), name=f"task {task}")
        mine = made.releases[-1]
        assert 100 < len(rows(mine)) < 1_000
        assert rows(mine) == sorted(set(rows(mine)))
        assert {0, 1, found} <= set(rows(mine))  # gout has no examples: a released label is never given up
        assert along(mine, 0, "flu") > 0.9
        assert along(mine, found, "label 7") > 0.9
        assert mine.parameters["noise"][:2].tolist() == [mine.parameters["noise"][0]] * 2
    assert made.classes_[-1] == "mumps"
    assert rows(made.releases[-1])[-1] == 2 + MANY
    assert along(made.releases[-1], 2 + MANY, "mumps") > 0.9
    x, y = examples(flu=30, gout=30, mumps=30, label_7=30)
    assert np.mean(made.predict(x) == y) > 0.9


def test_new_labels_carry_their_own_noise():
    made = model()
    made.learn_task(*examples(mumps=400), name="mumps")
    event, noise = made.releases[-1].event, made.releases[-1].parameters["noise"]
    assert isinstance(event, events.JointGaussian)
    weight = np.sqrt(1 - event.count_weight)
    expected = np.array([event.noise_multiplier, event.noise_multiplier / weight], np.float32)
    assert noise[[0, -1]].tolist() == expected.tolist()
    assert np.all(noise[:-1] == expected[0])


@pytest.mark.parametrize(
    ("learner", "policy", "public", "expected"),
    [
        (rt.Cosine(), None, ALL_KEPT - 2, ALL_KEPT),
        (rt.Cosine(keep_all=True), None, ALL_KEPT + 1, ALL_KEPT + 3),
        (rt.Cosine.paper(), rt.ReleasedLabels.paper(), ALL_KEPT + 1, 1),
        (rt.Cosine(), rt.ReleasedLabels.paper(), ALL_KEPT + 1, 1),
    ],
    ids=["few", "keep_all", "paper", "labels of the paper"],
)
def test_where_every_block_is_published_as_before(learner, policy, public, expected):
    made = model(learner, policy, public)
    made.learn_task(*examples(flu=400), name="second")
    assert len(rows(made.releases[-1])) == expected


@pytest.mark.parametrize(("public", "centred"), [(ALL_KEPT - 1, True), (ALL_KEPT, True), (ALL_KEPT + 1, False)])
def test_one_label_more_than_are_kept_is_sparse(public, centred):
    """Whichever way they became known; what is common is taken off unless more than that many may be empty."""
    made = model(public=public)
    made.learn_task(*examples(flu=400), name="second")
    assert len(rows(made.releases[-1])) < ALL_KEPT / 2
    assert ("centre" in made.releases[-1].parameters) == centred


def test_with_memory_every_row_is_published(tmp_path):
    """A row that is left out could not cancel noise later."""
    made = rt.ContinualClassifier(
        labels=rt.ReleasedLabels(),
        budget=BUDGET,
        path=tmp_path / "model",
        memory=rt.Memory(vault=tmp_path / "vault", horizon=4),
    )
    made.extend_labels([f"label {i}" for i in range(ALL_KEPT + 1)])
    made.learn_task(*examples(label_7=300), name="first")
    assert rows(made.releases[-1]) == list(range(ALL_KEPT + 1))


def test_thin_released_labels_can_win_in_a_huge_space():
    """A hundred examples in one task, released by their count."""
    made = model()
    made.learn_task(*examples(mumps=100), name="thin")
    assert np.mean(made.predict(examples(mumps=50)[0]) == "mumps") > 0.5
    labels = made.directory.model.labels
    learned = [release for release in made.releases if release.parameters]
    present = sums.blocks_of(learned, np.array([0, 1, 5, 2 + MANY]), labels).present
    assert present is not None
    assert present.tolist() == [True, True, False, True]


# --- labels that were all released by their counts

RELEASED, EACH = ALL_KEPT + 500, 90
CENTRES = COMMON + np.random.default_rng(8).normal(size=(RELEASED, WIDTH)) / 3


def of_classes(classes: Any, each: int) -> tuple[Any, list[str]]:
    x = np.repeat(CENTRES[classes], each, axis=0)
    return x + DRAW.normal(size=x.shape) / 30, [f"class {c:05d}" for c in np.repeat(classes, each)]


@pytest.fixture(scope="module")
def many_released() -> rt.ContinualClassifier:
    made = rt.ContinualClassifier(labels=rt.ReleasedLabels(), budget=rt.Budget(epsilon=4.0, delta=1e-5))
    made.learn_task(*of_classes(np.arange(RELEASED), EACH), name="first")
    assert len(made.classes_) == RELEASED
    return made


def test_released_labels_of_any_number_take_the_sparse_path(many_released):
    """The newest thousand are followed, others are kept where they stand out; every label can be predicted."""
    known = {label: row for row, label in enumerate(many_released.classes_.tolist())}
    last, x = RELEASED - 1, of_classes(np.arange(0, RELEASED, 7), 2)
    many_released.learn_task(*of_classes(np.array([3, last]), 200), name="second")
    found = rows(many_released.releases[-1])
    assert {known["class 00003"], known[f"class {last:05d}"]} <= set(found)
    assert STANDING <= len(found) < STANDING + 500
    assert np.mean(many_released.predict(x[0]) == x[1]) > 0.9


def test_one_example_changes_no_support_of_released_labels(many_released):
    """A label that was given up and has one example is kept as rarely as one without: the law is that of noise."""
    known = {label: row for row, label in enumerate(many_released.classes_.tolist())}
    followed_now = set(standing.followed(many_released.releases, many_released.directory.model.labels).tolist())
    quiet = [label for label, row in known.items() if row not in followed_now]
    assert len(quiet) > RELEASED - STANDING - 500
    with_one, without = quiet[::2], quiet[1::2]
    x, y = of_classes(np.array([int(label[-5:]) for label in with_one]), 1)
    many_released.learn_task(x, y, name="one each")
    found = set(rows(many_released.releases[-1]))
    share = [np.mean([known[label] in found for label in some]) for some in (with_one, without)]
    assert 0.05 < share[1] < 0.25  # 300 of 2,500 blocks of noise
    assert share[0] < share[1] + 0.12
