"""Public labels beside released ones: beyond 2,000 that may be empty, blocks that stand out are published alone."""

from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.gate.sparse import ALL_KEPT
from reticent.privacy import events
from reticent.released import sums
from reticent.released.release import Release

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
    expected = np.float32([event.noise_multiplier, event.noise_multiplier / np.sqrt(1 - event.count_weight)])
    assert noise[[0, -1]].tolist() == expected.tolist()
    assert np.all(noise[:-1] == expected[0])


@pytest.mark.parametrize(
    ("learner", "policy", "public", "expected"),
    [
        (rt.Cosine(), None, ALL_KEPT, ALL_KEPT + 2),
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


def test_one_label_more_than_are_kept_is_sparse():
    """Released labels are not counted: two of the known ones are sure to have had examples."""
    made = model(public=ALL_KEPT + 1)
    made.learn_task(*examples(flu=400), name="second")
    assert len(rows(made.releases[-1])) < ALL_KEPT / 2
    assert "centre" not in made.releases[-1].parameters


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


def test_thin_released_labels_can_win_in_a_huge_space(monkeypatch):
    """A hundred examples in one task, released by their count."""
    made = model()
    made.learn_task(*examples(mumps=100), name="thin")
    found = []
    monkeypatch.setattr(sums, "blocks_of", lambda *given: found.append(real(*given)) or found[-1])
    predicted = made.predict(examples(mumps=50)[0])
    assert np.mean(predicted == "mumps") > 0.5
    (blocks, *_) = found
    assert blocks.present.tolist() == [True, True, *[False] * (len(blocks.present) - 3), True]


real = sums.blocks_of
