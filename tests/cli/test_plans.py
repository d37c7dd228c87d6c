"""plan backwards, accuracy by a data set of similar shape, and the page, on the command line."""

import itertools
import json
from importlib import resources

import pytest

from reticent import Budget
from reticent.privacy import expected, planning
from reticent.privacy.backwards import budget_to_release
from reticent.privacy.count_weights import default_count_weight
from tests.cli.command import refused, reticent


def test_plan_finds_the_epsilon_for_a_class_size():
    words = ["plan", "--release", 50, "--class-size", 40, "--tasks", 12]
    done = reticent(*words)
    solved = budget_to_release(Budget(epsilon=1.0, delta=1e-5), 50).epsilon
    first = f"Classes of 50 are released with probability 0.99 from epsilon {solved} on, at delta 1e-05"
    assert " ".join(done.stdout.split()).startswith(first), done.stderr
    assert "if no person is in more than 1 task, with at most 1 example in each" in " ".join(done.stdout.split())
    facts = json.loads(reticent(*words, "--json").stdout)
    assert facts["epsilon"] == solved
    assert [c["size"] for c in facts["classes"]] == [50, 40]
    assert facts["classes"][0]["release_probability"] >= 0.99
    assert facts["release"] == {"class_size": 50, "chance": 0.99}
    half = json.loads(reticent(*words, "--chance", 0.5, "--json").stdout)
    assert half["epsilon"] < solved
    often = json.loads(reticent(*words, "--tasks-per-person", 3, "--json").stdout)
    assert often["epsilon"] > solved


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "--epsilon E, or --release N"),
        ("--epsilon 1 --release 50", "--epsilon E, or --release N"),
        ("--epsilon 1 --chance 0.5", "--release N with --chance"),
        ("--release 0", "release >= 1"),
        ("--release 50 --chance 1", "chance < 1"),
        ("--release 50 --delta 0", "without a public superset"),
        ("--release 50 --mechanism optimal --share auto", "Expected a number for --share with --release"),
        ("--release 1", "No epsilon below 100"),
        ("--epsilon 1 --like mnist", "Expected --like with one of clinc150"),
        ("--epsilon 1 --html page.txt", "ends in .html"),
        ("--epsilon 1 --html no/where.html", "Cannot write"),
    ],
)
def test_backwards_refusals_print_one_line(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(reticent("plan", *words.split()))
    assert list(tmp_path.iterdir()) == []


def test_accuracy_to_expect_is_a_curve_over_epsilon():
    words = ["plan", "--epsilon", 3, "--class-size", 100, "--like", "clinc150"]
    shown = json.loads(reticent(*words, "--json").stdout)["like"]
    guesses = shown["expected"]
    assert [guess["epsilon"] for guess in guesses] == [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0]
    for one, next_one in itertools.pairwise(guesses):
        assert one["released"] <= one["public"]
        assert one["public"] <= next_one["public"]
    table = reticent(*words).stdout
    assert "if data are like clinc150" in " ".join(table.split())
    assert f"{100 * guesses[4]['released']:.0f} %" in table
    assert "no promise" in table


def test_the_page_of_a_plan_is_written_or_printed(tmp_path):
    words = ["plan", "--release", 80, "--tasks", 12]
    assert f"Wrote {tmp_path / 'plan.html'}.\n" in reticent(*words, "--html", tmp_path / "plan.html").stdout
    text = (tmp_path / "plan.html").read_text()
    assert text == reticent(*words, "--html", "-").stdout.removesuffix("\n")
    solved = budget_to_release(Budget(epsilon=1.0, delta=1e-5), 80).epsilon
    assert f"<p>Classes of 80 are released with probability 0.99 from epsilon {solved} on" in text
    assert text.count("<table") == 2
    more = reticent(*words, "--learner", "peft", "--memory", "--html", "-").stdout
    assert "DP-SGD, each task" in more
    assert "Memory: noise on a class that comes back" in more


def test_guesses_were_checked_where_labels_are_released():
    """On the data sets themselves: nothing is guessed too high by a point, nor too low by eight."""
    text = (resources.files("reticent.privacy") / "accuracy_curves.json").read_text()
    for curve in json.loads(text)["curves"]:
        for found in curve["released"]:
            budget = Budget(epsilon=found["epsilon"], delta=1e-5)
            weight = default_count_weight(budget)
            plan = planning.plan(budget, class_sizes=[found["size"]], count_weight=weight)
            guess = expected.expected(plan, expected.like(curve["data"])).released
            assert -0.01 < found["accuracy"] - guess < 0.08


def test_every_curve_says_where_it_comes_from():
    text = (resources.files("reticent.privacy") / "accuracy_curves.json").read_text()
    stored = json.loads(text)
    assert stored["made_by"].startswith("python -m reticent.lab.accuracy_curves ")
    assert {curve["data"] for curve in stored["curves"]} == set(expected.names())
    for curve in stored["curves"]:
        assert len(curve["digest"]) == 64
        assert len(curve["accuracy"]) == len(curve["sizes"])
        assert all(len(row) == len(curve["signals"]) for row in curve["accuracy"])
    assert len(text) < 10_000  # figures, nothing of the data
