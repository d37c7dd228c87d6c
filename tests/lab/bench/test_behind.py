"""Where ours is behind: over all pairs of methods in the same cell."""

from typing import Any

import pytest

from reticent.lab.bench.behind import TUNED, behind_table, pairs
from reticent.lab.bench.run import Run
from tests.lab.tiny import by_digest, done


def results(accuracies: dict[str, float], **fields: Any) -> list[dict[str, Any]]:
    return [
        done(Run(data="clinc150", learner=learner, seed=seed, **fields), accuracy)
        for learner, accuracy in accuracies.items()
        for seed in range(3)
    ]


def test_every_pair_of_methods_is_compared():
    made = pairs(
        by_digest(results({"cosine": 0.5, "peft": 0.6, "cosine-paper": 0.55, "peft-paper": 0.7, "naive": 0.9}))
    )
    found = {(pair.cell.learner, pair.theirs): round(pair.points) for pair in made}
    assert found == {
        ("cosine", "cosine-paper"): 5,
        ("cosine", "peft-paper"): 20,
        ("peft", "cosine-paper"): -5,
        ("peft", "peft-paper"): 10,
    }


def test_only_equal_cells_are_compared():
    mine = [done(Run(data="clinc150", learner="cosine"), 0.1)]
    others: list[dict[str, Any]] = [
        {"data": "icd10cm"},
        {"labels": "oracle"},
        {"epsilon": 8.0},
        {"ratio": 50.0},
        {"persons": 3},
    ]
    for other in others:
        theirs = done(Run(**{"data": "clinc150", "learner": "cosine-paper", **other}), 0.9)
        assert pairs(by_digest([*mine, theirs])) == []


def test_names_and_memory_are_not_in_the_comparison():
    named = done(Run(data="clinc150", learner="cosine", names=True), 0.1)
    assert pairs(by_digest([named, done(Run(data="clinc150", learner="cosine-paper"), 0.9)])) == []


def test_the_papers_best_share_counts_and_ours_has_none():
    released: dict[str, Any] = {"labels": "released"}
    theirs = [done(Run(data="clinc150", learner="cosine-paper", share=s, **released), s / 100) for s in (20.0, 60.0)]
    mine = [done(Run(data="clinc150", learner="cosine", **released), 0.5)]
    split = [done(Run(data="clinc150", learner="cosine", share=20.0, **released), 0.1)]
    (pair,) = pairs(by_digest([*theirs, *mine, *split]))
    assert [pair.ours, pair.paper] == pytest.approx([50.0, 60.0])


def test_one_disjoint_stream_stands_for_all_ratios_of_the_papers_cosine_among_many_labels():
    many: dict[str, Any] = {"labels": "public-1000x"}
    theirs = done(Run(data="clinc150", learner="cosine-paper", **many), 0.6)
    mine = done(Run(data="clinc150", learner="cosine", ratio=50.0, **many), 0.5)
    (pair,) = pairs(by_digest([theirs, mine]))
    assert (pair.cell.ratio, round(pair.points)) == (50.0, 10)


def test_more_than_half_a_point_is_listed_the_same_method_first():
    close = by_digest(results({"cosine": 0.5, "cosine-paper": 0.505}))
    assert behind_table(close).rows == ()
    assert "1 pairs" in behind_table(close).caption
    table = behind_table(by_digest(results({"cosine": 0.5, "cosine-paper": 0.506, "peft-paper": 0.6})))
    assert [(row[5], row[6], row[8]) for row in table.rows] == [
        ("Cosine Classifier, 50.6", "0.6", "not known"),
        ("PEFT Ensemble, 60.0", "10.0", "another method; choose PEFT Ensemble there"),
    ]


def test_a_reason_that_is_known_is_named_and_told_below():
    made = [
        done(Run(data="digits", learner=learner, tasks=5, epsilon=epsilon, seed=seed), accuracy)
        for learner, accuracy in (("peft", 0.5), ("peft-paper", 0.7))
        for epsilon in (1.0, 8.0)
        for seed in range(2)
    ]
    table = behind_table(by_digest(made))
    assert {row[2]: row[8] for row in table.rows} == {"8": "steps too large for few labels", "1": TUNED}
    assert table.notes[0].startswith("Steps too large for few labels: ")
    assert behind_table({}).notes == ()


@pytest.mark.parametrize(
    ("paper", "reason"),
    [
        ((0.50, 0.52, 0.57), "3 seeds do not tell it from chance"),
        ((0.52, 0.53, 0.52), "not known"),
        ((0.6,), "one seed, which does not tell it from chance"),
    ],
    ids=["far apart", "close together", "one seed"],
)
def test_differences_that_seeds_do_not_tell_from_chance_say_so(paper, reason):
    mine = [done(Run(data="clinc150", learner="cosine", seed=seed), 0.5) for seed in range(len(paper))]
    theirs = [done(Run(data="clinc150", learner="cosine-paper", seed=s), value) for s, value in enumerate(paper)]
    (row,) = behind_table(by_digest([*mine, *theirs])).rows
    assert row[8] == reason


def test_ours_is_compared_with_the_papers_method_through_the_encoder():
    theirs = [done(Run(data="clinc150", learner="peft-paper", adapter="film", seed=seed), 0.9) for seed in range(2)]
    mine = [done(Run(data="clinc150", learner="peft", seed=seed), 0.5) for seed in range(3)]
    through = [done(Run(data="clinc150", learner="peft", adapter="film", seed=seed), 0.8) for seed in range(2)]
    found = {row[1]: (row[5], row[8]) for row in behind_table(by_digest([*theirs, *mine, *through])).rows}
    assert found == {
        "disjoint, 10 tasks": (
            "PEFT Ensemble, film, 90.0",
            "trained through the encoder; choose adapter=film there",
        ),
        "disjoint, 10 tasks, film": ("PEFT Ensemble, 90.0", TUNED),
    }


def test_medians_are_of_the_seeds_that_both_have():
    mine = [done(Run(data="clinc150", learner="cosine", seed=s), v) for s, v in enumerate((0.5, 0.5, 0.9, 0.9, 0.9))]
    theirs = [done(Run(data="clinc150", learner="cosine-paper", seed=seed), 0.6) for seed in range(2)]
    (pair,) = pairs(by_digest([*mine, *theirs]))
    assert [pair.ours, pair.paper] == pytest.approx([50.0, 60.0])
    assert pairs(by_digest([mine[4], *theirs])) == []
