"""The page on learners of one's own is true: the learner passes, its twins fail as it says, the table has its row."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent import errors
from reticent.gate.ledger import Ledger
from reticent.gate.noise import NoiseSource
from reticent.lab.attack import audit
from reticent.labels import LabelSpace
from reticent.privacy import accounting
from reticent.sensitive.task import Task
from reticent.testing import check_learner

PAGE = (Path(__file__).parents[1] / "docs" / "own-learner.md").read_text(encoding="utf-8")
OWN = "own_learner:NamesFirst"
PUBLIC = rt.PublicLabels(["a", "b", "c"])
SPENDS = "        ledger.spend(event, task=task.name, private=rng.private)\n"
DRAWS = "GaussianSum(event)(exact.known, rng=rng)"


def block(start: str) -> str:
    """Returns the one block of the page that begins so."""
    blocks: list[str] = re.findall(r"^```\w+\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (found,) = (text for text in blocks if text.startswith(start))
    return found


LEARNER = block('"""Names first')


def names_first(source: str = LEARNER) -> Any:
    scope: dict[str, Any] = {"__name__": "own_learner"}
    exec(compile(source, "own_learner.py", "exec"), scope)  # noqa: S102
    return scope["NamesFirst"](names=lambda labels: np.eye(len(labels), 8))


def mutant(old: str, new: str) -> Any:
    assert LEARNER.count(old) == 1
    return names_first(LEARNER.replace(old, new))


HALF = DRAWS.replace("GaussianSum(event)", "GaussianSum(type(event)(noise_multiplier=event.noise_multiplier / 2))")


def test_the_learner_of_the_page_passes():
    check_learner(names_first(), policies=[PUBLIC])


FROM_THE_DATA = """
        known = LabelSpace(tuple(sorted({label for label in task.labels if label in known})))
"""
FOLLOWS, EARLY = "Names, shapes or types of the parameters follow the data.", "Noise is drawn before it is paid for."


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("event = policy.sums(budget)\n", f"event = policy.sums(budget){FROM_THE_DATA}", FOLLOWS),
        (SPENDS, "", EARLY),
        ("private=rng.private)\n        labels", "private=True)\n        labels", "The ledger is told otherwise."),
        ("weight: float = 15.0", "weight: float = float('nan')", "The rule's scores are not numbers."),
    ],
)
def test_broken_twins_fail(old, new, sentence):
    with pytest.raises(AssertionError, match=re.escape(sentence)):
        check_learner(mutant(old, new), policies=[PUBLIC])


def test_spending_late_fails():
    returns = "        return Release("
    assert LEARNER.count(returns) == 1
    late = LEARNER.replace(SPENDS, "").replace(returns, SPENDS + returns)
    with pytest.raises(AssertionError, match=re.escape(EARLY)):
        check_learner(names_first(late), policies=[PUBLIC])


def test_the_page_quotes_what_the_suite_says(capsys):
    scope: dict[str, Any] = {}
    for start in ('"""Names first', "from reticent import Budget", "class SizedByData"):
        exec(compile(block(start), "page", "exec"), scope)  # noqa: S102
    assert capsys.readouterr().out == f"{FOLLOWS}\n"
    assert all(f"\n    {sentence}\n" in PAGE for sentence in (FOLLOWS, EARLY))


def test_half_the_noise_is_found_as_the_page_says():
    half = mutant(DRAWS, HALF)
    check_learner(half, policies=[PUBLIC])  # which looks at the protocol alone
    budget = rt.Budget(epsilon=1.0, delta=1e-5)
    model = rt.ContinualClassifier(labels=rt.PublicLabels(range(1_000)), learner=half, budget=budget)
    release = model.learn_task(np.zeros((0, 1_000)), []).releases[0]
    drawn, spent = np.std(release.parameters["sums"].astype(float)), accounting.gaussian_sigma(budget)
    assert drawn / spent == pytest.approx(0.5, abs=0.01)
    for learner, verdict in ((names_first(), audit.CONSISTENT), (half, audit.VIOLATED)):
        game = rt.PublicLabels([audit.COMMON, audit.CANARY])
        assert audit.audit(learner, game, rt.Budget(epsilon=8.0, delta=1e-5), trials=800).verdict == verdict


def test_released_labels_are_refused_before_anything_is_spent():
    budget = rt.Budget(epsilon=1.0, delta=1e-5)
    with Ledger.create(None, budget) as ledger:
        with pytest.raises(errors.InvalidValue, match="PublicLabels"):
            names_first().learn_task(
                Task(np.zeros((1, 8)), ["a"]),
                rt.ReleasedLabels(),
                known=LabelSpace(()),
                encoder=None,
                budget=budget,
                ledger=ledger,
                rng=NoiseSource.from_os(),
            )
        assert not ledger.statement().spends


def test_the_table_has_a_row_for_ones_own_learner(tmp_path):
    (tmp_path / "own_learner.py").write_text(LEARNER, encoding="utf-8")
    (tmp_path / "own.toml").write_text(block('title = "Tickets"'), encoding="utf-8")
    subprocess.run([sys.executable, "-c", block("import csv")], cwd=tmp_path, check=True)
    script = str(Path(sys.executable).with_name("reticent"))  # python -m would find the module by itself
    ended = subprocess.run(
        [script, "bench", "own.toml", "--out", "results", "--seeds", "1", "--workers", "1", "--only", OWN],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (table,) = json.loads((tmp_path / "results" / "tables" / "own.json").read_text(encoding="utf-8"))
    rows = {(row[0], row[1]): row[2:] for row in table["rows"]}
    mine = rows[OWN, "yours, tickets.csv"]
    assert all(float(entry.split()[0]) > 50 for entry in mine)
    assert "not run here" in rows["Cosine Classifier", "the paper's method here, tickets.csv"][0]
    assert "Cosine Classifier" in (tmp_path / "results" / "tables" / "own.md").read_text(encoding="utf-8")
