"""The page on your own learner is true: the learner passes, its twins fail as stated, the table has its row."""

import ast
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
from reticent import errors, extend
from reticent.extend import Gate, LabelSpace, Ledger, Task, check_learner
from reticent.lab.attack import audit, games

PAGE = (Path(__file__).parents[1] / "docs" / "own-learner.md").read_text(encoding="utf-8")
OWN = "own_learner:NamesFirst"
PUBLIC = rt.PublicLabels(["a", "b", "c"])
SPENDS = "        permit = gate.spend(event, task=task.name)\n"
DRAWS = "permit.draw(GaussianSum(event), exact.known)"


def block(start: str) -> str:
    """Returns the one block of the page that begins so."""
    blocks: list[str] = re.findall(r"^```\w+\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (found,) = (text for text in blocks if text.startswith(start))
    return found


LEARNER = block('"""Names first')


def names_first(source: str = LEARNER) -> Any:
    scope: dict[str, Any] = {"__name__": "own_learner", "extend": extend}
    exec(compile(source, "own_learner.py", "exec"), scope)  # noqa: S102
    return scope["NamesFirst"](names=lambda labels: np.eye(len(labels), 8))


def mutant(old: str, new: str) -> Any:
    assert LEARNER.count(old) == 1
    return names_first(LEARNER.replace(old, new))


def test_the_page_imports_the_extension_names_alone():
    blocks = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
    imported = {
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(ast.parse(blocks))
        if isinstance(node, ast.ImportFrom | ast.Import)
        for alias in node.names
    }
    assert {name for name in imported if name and name.startswith("reticent")} == {"reticent.extend"}


def test_the_learner_of_the_page_passes():
    check_learner(names_first(), policies=[PUBLIC])


FROM_THE_DATA = """
        known = extend.LabelSpace(tuple(sorted({label for label in task.labels if label in known})))
"""
FOLLOWS = "Names, shapes or types of the parameters follow the data."
UNPAID = "The learner draws or releases what it did not pay for."
HALF = DRAWS.replace("GaussianSum(event)", "GaussianSum(type(event)(noise_multiplier=event.noise_multiplier / 2))")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("event = policy.sums(gate.budget)\n", f"event = policy.sums(gate.budget){FROM_THE_DATA}", FOLLOWS),
        (DRAWS, HALF, f"{UNPAID} Gaussian(noise_multiplier="),
        (DRAWS, "exact.known", f"{UNPAID} Expected everything that was paid for"),
        (DRAWS, f"{DRAWS} + {DRAWS}", f"{UNPAID} This permit has drawn its Gaussian already"),
        ("weight: float = 15.0", "weight: float = float('nan')", "The rule's scores are not numbers."),
    ],
)
def test_broken_versions_of_the_documented_learner_fail(old, new, sentence):
    with pytest.raises(AssertionError, match=re.escape(sentence)):
        check_learner(mutant(old, new), policies=[PUBLIC])


def test_half_the_noise_is_refused_by_every_classifier():
    budget = rt.Budget(epsilon=1.0, delta=1e-5)
    model = rt.ContinualClassifier(labels=PUBLIC, learner=mutant(DRAWS, HALF), budget=budget)
    with pytest.raises(errors.NotPaidFor, match="was not paid for"):
        model.learn_task(np.eye(3, 8), ["a", "b", "c"], name="march")
    assert not model.releases


def test_the_page_quotes_what_is_printed(capsys):
    scope: dict[str, Any] = {}
    for start in ('"""Names first', "from reticent.extend import Budget", "class SizedByData", "class HalfTheNoise"):
        exec(compile(block(start), "page", "exec"), scope)  # noqa: S102
    first, second = capsys.readouterr().out.splitlines()
    assert first == FOLLOWS
    assert f"\n    {first}\n" in PAGE
    assert f"\n    {second}\n" in PAGE


def test_exact_sums_are_detected_as_documented():
    """A learner that draws what it pays for, and publishes something else."""
    exact = mutant(f"noisy = {DRAWS}", f"noisy = {DRAWS} * 0 + exact.known")
    for learner, verdict in ((names_first(), games.CONSISTENT), (exact, games.VIOLATED)):
        assert audit.audit(learner, PUBLIC, rt.Budget(epsilon=1.0, delta=1e-5), trials=80).verdict == verdict


def test_released_labels_are_refused_before_anything_is_spent():
    ledger = Ledger.create(None, rt.Budget(epsilon=1.0, delta=1e-5))
    with pytest.raises(errors.InvalidValue, match="PublicLabels"):
        names_first().learn_task(
            Task(np.zeros((1, 8)), ["a"]),
            rt.ReleasedLabels(),
            known=LabelSpace(()),
            encoder=None,
            gate=Gate(ledger),
        )
    assert not ledger.statement().spends


def test_the_table_has_a_row_for_a_custom_learner(tmp_path):
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
