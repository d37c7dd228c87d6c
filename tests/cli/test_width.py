"""A terminal of 80 columns: nothing that a verb prints is cut there, and help and tables are no wider."""

import os
import subprocess
import sys

import pytest

from reticent import Budget
from reticent.privacy import planning
from tests.cli.command import BUDGET, EACH, NUMBERS, reticent, write_csv
from tests.cli.test_verbs import VERBS

CUT = "\u2026"
SMALL = ["--epsilon", "0.01", "--delta", "1e-9", "--tasks-per-person", "1000"]


@pytest.fixture(autouse=True)
def eighty(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def whole(*words: object) -> str:
    done = reticent(*words)
    assert done.returncode == 0, done.stderr
    assert CUT not in done.stdout + done.stderr
    return done.stdout


def narrow(*words: object) -> str:
    shown = whole(*words)
    assert max(map(len, shown.splitlines())) <= 80
    return shown


@pytest.mark.parametrize(
    "words",
    [
        ["plan", *BUDGET],
        ["plan", *BUDGET, "--learner", "peft", "--tasks", 12, "--memory"],
        ["plan", *SMALL, "--class-size", 12345678, "--class-size", 1],
        ["bench", "--list", "--out", "a folder with a name that is longer than a terminal of eighty columns is wide"],
    ],
    ids=lambda words: " ".join(map(str, words))[:40],
)
def test_tables_fit_80_columns(words):
    narrow(*words)


def test_every_number_of_a_plan_is_there_at_80_columns():
    shown = narrow("plan", *SMALL, "--class-size", 12345)
    found = planning.plan(Budget(epsilon=0.01, delta=1e-9, tasks_per_person=1000), class_sizes=[12345])
    for number in (found.smallest_class_50, found.smallest_class_99, 12345, f"{found.threshold:.1f}"):
        assert f" {number} " in shown
    assert all(name in shown for name in planning.MECHANISMS)


def test_attacks_fit_80_columns():
    shown = narrow("attack", "labels", "--trials", 60, "--trainings", 5)
    assert "LogisticRegression" in shown


def test_verbs_of_a_model_cut_nothing_at_80_columns(started):
    model, march = started / "model", write_csv(started / "march.csv", ["E10", "E11"], each=100)
    columns = [*NUMBERS, "--label", "code"]
    assert "march" in whole("learn", EACH, march, "--model", model, *columns)
    assert "march" in whole("ledger", model)
    assert "accuracy" in whole("evaluate", march, "--model", model, *columns, "--public")
    assert "accuracy" in whole("evaluate", march, "--model", model, *columns, "--epsilon", 0.1, EACH)
    assert "VIOLATED" in narrow("audit", model, "--trials", 20)
    whole("report", model)


@pytest.mark.parametrize("verb", [[], ["attack"], ["vault"], *VERBS], ids=" ".join)
def test_help_fits_80_columns(verb):
    shown = narrow(*verb, "-h")
    assert shown == narrow(*verb, "--help")
    repeated = ("[ARGS]...", "[names]...", "names... ")
    assert shown.count("...") == sum(shown.count(word) for word in repeated)


def test_words_are_completed():
    """Typer's completion, as bash asks for it."""

    def completed(words: str) -> set[str]:
        code = "import sys; sys.argv[0] = 'reticent'; from reticent.cli import main; main()"
        asked = {"_RETICENT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = subprocess.run([sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True)
        return set(done.stdout.split())

    assert completed("reticent pl") == {"plan"}
    assert completed("reticent init model --encoder m") == {"minilm", "minilm-torch"}
    assert "--class-size" in completed("reticent plan --cl")


def test_the_script_for_completion_is_shown():
    """As `--show-completion` does for the shell that it is called from, which no test has."""
    code = "import sys; sys.argv = ['reticent']; from reticent.cli import main; main()"
    asked = os.environ | {"_RETICENT_COMPLETE": "source_bash"}
    done = subprocess.run([sys.executable, "-c", code], env=asked, capture_output=True, text=True, check=False)
    assert "_RETICENT_COMPLETE=complete_bash" in done.stdout, done.stderr
    assert "--show-completion" in reticent("-h").stdout
