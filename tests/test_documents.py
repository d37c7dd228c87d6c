"""Documents that show code are attacked like code: what they state must be true of the rows they use."""

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import reticent as rt
from reticent.privacy import accounting, events
from reticent.sensitive import task as tasks
from reticent.sensitive import tuning

ROOT = Path(__file__).parents[1]
MARK = re.compile(r"<!-- rows: (.+?) -->")
BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
PAGES = [
    page
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    if "learn_task(" in page.read_text() and BLOCK.search(page.read_text()) and "check_learner" not in page.read_text()
]  # check_learner puts the same made-up rows into many ledgers


class Rows:
    """Which rows the code of a page uses as sensitive ones, by task, and which as public ones."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sensitive: dict[bytes, set[str]] = defaultdict(set)
        self.public: set[bytes] = set()
        made, score = tasks.Task.__init__, rt.ContinualClassifier.score

        def make(
            task: tasks.Task, inputs: Any, labels: Any, persons: Any = None, *, name: str = "task", **said: Any
        ) -> None:
            for row in self.of(inputs):
                if name == "task":  # only what is public has no name: examples to tune on for free, or to score on
                    self.public.add(row)
                else:
                    self.sensitive[row].add(name)
            made(task, inputs, labels, persons, name=name, **said)

        def scored(model: rt.ContinualClassifier, x: Any, y: Any, sample_weight: Any = None) -> float:
            self.public.update(self.of(x))
            return score(model, x, y, sample_weight)

        patch.setattr(tasks.Task, "__init__", make)
        patch.setattr(rt.ContinualClassifier, "score", scored)

    @staticmethod
    def of(inputs: Any) -> list[bytes]:
        return (
            [row.tobytes() for row in inputs] if isinstance(inputs, np.ndarray) else [str(x).encode() for x in inputs]
        )

    def faults(self, tasks_per_person: int) -> list[str]:
        found = ["a sensitive row is used as public"] if self.public & set(self.sensitive) else []
        several = any(len(names) > tasks_per_person for names in self.sensitive.values())
        return [*found, "a row is in more tasks than stated"] if several else found


def rows_of(code: str, patch: pytest.MonkeyPatch, folder: Path) -> Rows:
    """Runs code and returns the rows that it used."""
    patch.chdir(folder)
    seen = Rows(patch)
    scope: dict[str, object] = {}
    exec(compile(code, "a page", "exec"), scope)  # noqa: S102
    return seen


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documents_use_no_row_twice(page, monkeypatch, tmp_path):
    """No page learns a row that it shows as public, and none learns a person in two tasks of a stream."""
    assert rows_of("\n".join(BLOCK.findall(page.read_text())), monkeypatch, tmp_path).faults(1) == []


def test_the_old_tuning_page_is_caught(monkeypatch, tmp_path):
    """It tuned on rows, passed them as public validation, and learned them as a task: 4 was stated, 6.5 is true."""
    page = "\n".join(BLOCK.findall((ROOT / "docs" / "tuning.md").read_text()))
    old = page.replace("*month(1)", "features + 0, list(labels)").replace("*month(2)", "features, labels")
    assert old != page
    seen = rows_of(old, monkeypatch, tmp_path)
    assert seen.faults(1) == ["a sensitive row is used as public", "a row is in more tasks than stated"]


def test_who_is_tuned_on_and_learned_from_pays_twice():
    """What the pitfalls say: 6.5 in place of 4, even if training were fixed, for the settings of the tuning page."""
    budget, learner = rt.Budget(epsilon=4.0, delta=1e-5), rt.PeftEnsemble(task_size=200, epochs=4).resolved(None)
    chosen = tuning.private_selection(learner, budget, mean_runs=3)
    training = accounting.training_beside(events.Public(), budget, rate=learner.rate or 1.0, steps=learner.steps)
    assert 6.4 < accounting.epsilon(events.compose(chosen, training), 1e-5) < 6.5


def test_sensitive_examples_are_no_public_validation():
    """By identity and by where they lie; a copy passes, for a refusal of equal rows would tell who supplies them."""
    x, y = np.random.default_rng(0).normal(size=(40, 4)), ["a", "b"] * 20
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=rt.Budget(epsilon=4.0, delta=1e-5))

    def tuned(inputs: Any, labels: Any, shown: Any, truth: Any) -> None:
        with model.directory.writer() as gate:
            tuning.tune_privately(
                rt.PeftEnsemble(task_size=40, epochs=1),
                inputs,
                labels,
                policy=rt.PublicLabels(["a", "b"]),
                public_validation=(shown, truth),
                budget=model.directory.budget,
                gate=gate,
                mean_runs=2,
            )

    listed, frame = list(x), pd.DataFrame(x)
    for inputs, shown in (
        (x, x),
        (x[:30], x[20:]),
        (listed, listed),
        (x, listed),
        (frame, frame[5:]),
        (frame, frame.to_numpy()),
    ):
        with pytest.raises(rt.ReticentError, match="got the sensitive ones"):
            tuned(inputs, y[: len(inputs)], shown, y[: len(shown)])
    with pytest.raises(rt.ReticentError, match="got the sensitive ones"):
        tuned(x, y, x.copy(), y)
    assert model.statement().spends == ()
    tuned(x, y, x.copy(), list(y))  # equal, and not the same
    assert len(model.statement().spends) == 1


# --- tables of measured rows

sys.path.insert(0, str(ROOT / "benchmarks"))


def test_tables_in_documents_are_those_of_the_rows():
    import tables_in_documents

    marked = [name for page in tables_in_documents.DOCUMENTS for name in MARK.findall((ROOT / page).read_text())]
    assert sorted(marked) == sorted(tables_in_documents.TABLES)
    assert [path.name for path, _ in tables_in_documents.differing(tables_in_documents.rows())] == []


def test_a_table_that_differs_from_the_rows_is_found():
    import tables_in_documents

    results = tables_in_documents.rows()
    text = (ROOT / "README.md").read_text()
    (row,) = re.findall(r"^\| ours, with names \|.*$", text, flags=re.MULTILINE)
    changed = text.replace(row, row.replace("6", "7"))
    assert tables_in_documents.filled(changed, results) == text != changed
