"""plan backwards, and the page of a plan, on the command line."""

import json

import pytest

from reticent import Budget
from reticent.privacy.backwards import budget_to_release
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
        ("--epsilon 1 --html page.txt", "ends in .html"),
        ("--epsilon 1 --html no/where.html", "Cannot write"),
    ],
)
def test_backwards_refusals_print_one_line(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(reticent("plan", *words.split()))
    assert list(tmp_path.iterdir()) == []


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
