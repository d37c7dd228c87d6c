"""Labels of huge spaces that keep their blocks: which ones, how many, and for how long."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2

from reticent import Budget, ContinualClassifier, Cosine, PublicLabels
from reticent.gate.noise import NoiseSource
from reticent.labels import LabelSpace
from reticent.privacy import events
from reticent.released import denoise
from reticent.released import standing as module
from reticent.released.common import common_direction
from reticent.released.release import Release
from reticent.released.standing import ALL_KEPT, STANDING, counted_rows, followed, live_rows, standing
from reticent.released.sums import Sums

WIDTH, NOISE = 12, 2.0


def release(rows: Any, sums: Any, noise: float = NOISE) -> Release:
    parameters = {
        "rows": np.asarray(rows, np.int32),
        "sums": np.asarray(sums, np.float32),
        "noise": np.full(len(rows), noise, np.float32),
    }
    return Release(task="t", labels=LabelSpace(()), parameters=parameters, event=events.Public(), private=True)


def of_noise(rows: Any, seed: int = 0) -> Release:
    """Blocks of pure noise that passed a threshold."""
    draw = np.random.default_rng([seed, len(rows)])
    directions = draw.standard_normal((len(rows), WIDTH))
    radius = np.sqrt(chi2.isf(0.01 * draw.random(len(rows)), WIDTH))
    return release(rows, NOISE * directions / np.linalg.norm(directions, axis=1)[:, None] * radius[:, None])


def by_hand(releases: list[Release], space: int) -> list[int]:
    """The rule, one label at a time."""
    blocks: dict[int, list[Any]] = {}
    for made in releases:
        found = made.parameters
        for row, block, noise in zip(found["rows"], found["sums"], found["noise"], strict=True):
            blocks.setdefault(int(row), []).append(block.astype(float) / noise)
    chance = {
        row: min(
            chi2.sf(np.sum(np.sum(mine, axis=0) ** 2) / len(mine), WIDTH),
            len(mine) * chi2.sf(max(np.sum(block**2) for block in mine), WIDTH),
        )
        for row, mine in blocks.items()
    }
    common = common_direction(releases, WIDTH)
    if common is not None:
        for row, mine in blocks.items():
            chance[row] = min(chance[row], ndtr(-(np.sum(mine, axis=0) @ common) / np.sqrt(len(mine))))
    best = sorted(chance, key=lambda row: (chance[row], row))[:STANDING]
    return sorted(set(best) | {row for row, p in chance.items() if p * space <= 1})


@pytest.mark.parametrize("entries", [1 << 24, 100 * WIDTH])
def test_standing_is_its_rule(entries, monkeypatch):
    """Also where the sums over tasks are held in parts."""
    monkeypatch.setattr(module, "_ENTRIES", entries)
    draw, space = np.random.default_rng(3), 50_000
    releases = [of_noise(np.sort(draw.choice(4_000, 900, replace=False)), seed) for seed in range(4)]
    found = standing(releases, space)
    assert found.tolist() == by_hand(releases, space)
    assert STANDING <= len(found) < len(np.unique(np.concatenate([r.parameters["rows"] for r in releases])))


@pytest.mark.parametrize("space", [1_500, ALL_KEPT])
def test_small_spaces_lose_no_label(space):
    assert standing([of_noise(np.arange(space))], space).tolist() == list(range(space))
    assert standing([], space).tolist() == standing([], 10**6).tolist() == []


def test_noise_is_given_up_again():
    """After many tasks of new noise no more labels stand than may."""
    releases = [of_noise(np.arange(400 * t, 400 * (t + 1)), t) for t in range(10)]
    found = standing(releases, 10**6)
    assert STANDING <= len(found) <= STANDING + 10
    assert len(np.unique(found // 400)) == 10  # of every task: not the first ones alone


def test_labels_beyond_doubt_stand_for_good():
    """One strong block, then noise in a hundred tasks, among thousands of others."""
    draw = np.random.default_rng(5)
    releases = [release([7], np.full((1, WIDTH), 4 * NOISE))]
    releases += [release([7], NOISE * draw.standard_normal((1, WIDTH))) for _ in range(100)]
    releases += [of_noise(np.arange(10, 6_000))]
    assert 7 in standing(releases, 10**6)


def test_thin_labels_stand_by_their_sum_over_tasks():
    """Ten blocks, none of them stronger than the noise of thousands of others."""
    thin = np.full((1, WIDTH), 0.9 * NOISE)
    others = of_noise(np.arange(10, 6_000))
    assert 7 not in standing([release([7], thin), others], 10**6)
    assert 7 in standing([*[release([7], thin)] * 10, others], 10**6)


def test_releases_of_huge_spaces_are_bounded():
    """Task after task: as many blocks as stand, the new noise, and no more; whatever the size of the space."""
    space = 10_000
    model = ContinualClassifier(
        labels=PublicLabels([f"c{i}" for i in range(space)]),
        learner=Cosine(),
        budget=Budget(epsilon=1.0, delta=1e-5),
        noise=NoiseSource.seeded(4),
    )
    x = np.random.default_rng(1).standard_normal((40, 16))
    for t in range(6):
        model.learn_task(x, ["c5"] * 40, name=f"task {t}")
    sizes = [len(made.parameters["rows"]) for made in model.releases]
    assert 200 < sizes[0] < 400
    assert all(size < STANDING + 400 for size in sizes)
    assert sizes[-1] > STANDING


def named(made: Release, *labels: str, parameters: bool = True) -> Release:
    space = LabelSpace(labels)
    return dataclasses.replace(made, labels=space, parameters=made.parameters if parameters else {})


def test_released_labels_are_never_given_up():
    """A block as weak as noise, among thousands that are stronger; declared public, it is given up."""
    space = LabelSpace((*(f"c{i}" for i in range(6_000)), "declared", "second", "first"))
    weak, others = np.full((2, WIDTH), 0.1), of_noise(np.arange(10, 6_000))
    releases = [named(others, "declared", parameters=False), named(release([6_001, 6_002], weak), "second", "first")]
    assert counted_rows(releases, space).tolist() == [6_001, 6_002]
    assert counted_rows([releases[0]], space).tolist() == counted_rows([], space).tolist() == []
    live = live_rows([*releases, others], space)
    assert live.tolist() == [*standing([*releases, others], len(space)).tolist(), 6_001, 6_002]
    assert live.dtype == np.int64
    assert 6_001 not in live_rows([named(releases[1], "declared"), others], space)


def test_labels_that_do_not_stand_cannot_win_and_cost_nothing():
    """A label that was given up is learned, but not combined; where all labels have blocks none is given up."""
    strong = np.eye(1, WIDTH) * 50 * NOISE
    releases = [release([3], strong), of_noise(np.arange(10, 3_010))]
    combined = []

    def counting(blocks):
        combined.append(len(blocks.sums))
        return denoise.total(blocks)

    space = LabelSpace(tuple(range(20_000)))
    scorer = Sums(counting).scorer(releases, space)
    assert combined == [STANDING]
    assert 3 in scorer.rows
    assert len(scorer.rows) + len(scorer.rest) == 3_001
    everything = [of_noise(np.arange(3_000))]
    assert len(Sums(counting).scorer(everything, LabelSpace(tuple(range(3_000)))).rows) == 3_000


# --- what the next release keeps


SPACE = LabelSpace(tuple(f"c{i}" for i in range(10_000)))
DRAW = np.random.default_rng(9)


def stream(sizes: list[float], row: int = 7) -> list[Release]:
    """One label in every release, with so many examples in each, in units of the noise of one coordinate."""
    blocks = [NOISE * (size * np.eye(1, WIDTH) + DRAW.standard_normal((1, WIDTH))) for size in sizes]
    return [release([row], block) for block in blocks]


CROWD = release(np.arange(100, 100 + STANDING), np.full((STANDING, WIDTH), 10 * NOISE))  # newer, and beyond doubt


def test_labels_that_do_not_come_back_are_given_up():
    """A label beyond doubt in one task, then nothing: followed while few are newer, later in few streams of many."""
    quiet = [50.0, *[0.0] * 10]
    assert all(7 in followed(stream(quiet), SPACE) for _ in range(20))
    after = [7 in followed([*stream(quiet), CROWD], SPACE) for _ in range(200)]
    assert np.mean(after) < 0.4  # noise looks like 0.2 of them by its energy, and again along what is common
    assert 7 not in followed([*stream([50.0]), CROWD], SPACE)
    assert len(followed([*stream([50.0]), CROWD], SPACE)) == STANDING
    assert all(7 in live_rows([*stream(quiet), CROWD], SPACE) for _ in range(5))  # it can still win


@pytest.mark.parametrize("later", [[2.0] * 16, [*[0.0] * 16, 30.0]], ids=["thinly", "in force"])
def test_labels_that_come_back_are_followed(later):
    assert all(7 in followed([*stream([50.0, *later]), CROWD], SPACE) for _ in range(20))


def test_labels_in_doubt_are_followed_while_they_are_among_the_best():
    """As before: they need blocks to stand out by their sum."""
    thin = [release([7], np.full((1, WIDTH), 0.5 * NOISE))] * 20
    assert 7 in followed(thin, SPACE)
    others = of_noise(np.arange(10, 6_000))
    assert followed([others], SPACE, common_direction([others], WIDTH)).tolist() == standing([others], 10_000).tolist()
    assert len(followed([others], SPACE)) == STANDING
    assert followed([], SPACE).tolist() == []
    small = LabelSpace(SPACE.labels[:ALL_KEPT])
    assert followed([release([7], np.zeros((1, WIDTH)))], small).tolist() == [7]


def test_releases_are_bounded_by_what_is_new():
    """However many labels were released by their counts: the newest are followed, and those that come back."""
    known = LabelSpace(tuple(f"n{i}" for i in range(9_000)))
    made = release(np.arange(9_000), np.full((9_000, WIDTH), 3 * NOISE))
    first = dataclasses.replace(made, labels=known)
    assert counted_rows([first], known).tolist() == list(range(9_000))
    assert len(followed([first], known)) == STANDING
    strong = release([8_500], 30 * NOISE * np.eye(1, WIDTH))
    found = followed([first, strong], known)
    assert 8_500 in found
    assert len(found) <= STANDING + 1
    newer = release([8_501], 9 * NOISE * np.ones((1, WIDTH)))  # stronger than its first: it is the newest now
    assert followed([first, newer], known).tolist() == [*range(STANDING - 1), 8_501]
    assert found.tolist() == sorted(set(found.tolist()))


def test_rows_of_released_labels_are_found_in_any_order():
    """Beside each other or not: a release of somebody else may name labels that were known."""
    known = LabelSpace(("a", "b", "c", "d"))
    for labels, rows in ((("b", "c"), [1, 2]), (("b", "d", "c"), [1, 2, 3]), (("d", "a"), [0, 3])):
        made = dataclasses.replace(release([0], np.zeros((1, WIDTH))), labels=LabelSpace(labels))
        assert counted_rows([made], known).tolist() == rows
