"""The verbs: every one has help, and a refusal is one line in a real process too."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from reticent.cli import app
from tests.cli.command import reticent

VERBS = [
    ["plan"],
    ["compare"],
    ["tune"],
    ["init"],
    ["learn"],
    ["predict"],
    ["evaluate"],
    ["ledger"],
    ["audit"],
    ["attack", "labels"],
    ["vault", "show"],
    ["vault", "rotate"],
    ["demo"],
    ["bench"],
    ["report"],
    ["export"],
    ["serve"],
]


def test_version_and_help():
    assert re.fullmatch(r"reticent \d+\.\d+\.\d+(\.dev\d+)?\n", reticent("--version").stdout)
    assert "plan" in reticent("--help").stdout


def test_a_real_process_prints_the_same_refusal():
    words = ["plan", "--epsilon", "-1", "--delta", "1e-5"]
    command = [sys.executable, "-W", "error", "-c", "from reticent.cli import main; main()", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, reticent(*words).stderr)


@pytest.mark.parametrize(
    "words",
    ["plan --epsilon -1", "plan --bad", "learn a.csv", "init model", "report nomodel", "predict a.csv --model no"],
)
def test_refusals_start_quickly(words):
    """What is wrong with the words themselves is said before anything heavy is imported."""
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from reticent.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    heavy = {"torch", "sklearn", "scipy.stats", "scipy.optimize", "numba", "dp_accounting", "pyarrow", "pandas"}
    assert heavy & set(done.stdout.split()) == set()


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_has_help_with_an_example(verb):
    shown = reticent(*verb, "--help")
    assert shown.returncode == 0
    assert f"Example: reticent {' '.join(verb)}" in " ".join(shown.stdout.split())


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_is_documented(verb):
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert f"`{' '.join(verb)}`" in page


def test_no_verb_is_left_out_of_these_tests():
    top = {command.callback.__name__ for command in app.registered_commands if command.callback}
    nested = {
        (group.name, command.callback.__name__)
        for group in app.registered_groups
        if group.typer_instance
        for command in group.typer_instance.registered_commands
        if command.callback
    }
    assert {(name,) for name in top} | nested == {tuple(verb) for verb in VERBS}
