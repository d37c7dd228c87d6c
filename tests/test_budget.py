import dataclasses
import math
import warnings

import pytest

from reticent import Adjacency, Budget, ContinualClassifier, ReticentError, plan
from reticent.errors import ReticentWarning
from tests.cli.command import reticent


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": 10**400},
        {"epsilon": 1000},
        {"epsilon": "1"},
        {"epsilon": True},
        {"epsilon": None},
        {"delta": -1e-9},
        {"delta": 1.0},
        {"delta": math.nan},
        {"delta": "1e-5"},
        {"tasks_per_person": 0},
        {"tasks_per_person": 1.5},
        {"examples_per_person": 0},
        {"examples_per_person": True},
        {"adjacency": "add"},
    ],
)
def test_budget_refuses(bad):
    (name,) = bad
    with pytest.raises(ReticentError, match=f"Expected {name}") as refusal:
        Budget(**{"epsilon": 1.0, "delta": 1e-5, **bad})
    assert isinstance(refusal.value, ValueError)
    assert "\n" not in str(refusal.value)


def test_budget_is_a_value():
    budget = Budget(epsilon=1, delta=0)
    assert isinstance(budget.epsilon, float)
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 2.0  # type: ignore[misc]
    assert {budget: 1}[Budget(epsilon=1.0, delta=0.0)] == 1


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_budget_survives_json(adjacency):
    budget = Budget(epsilon=0.5, delta=1e-6, adjacency=adjacency, tasks_per_person=3, examples_per_person=2)
    assert Budget.from_json(budget.to_json()) == budget


SAID = [
    ("epsilon", {"epsilon": 50.0, "delta": 1e-4}, ["Epsilon 50 is above 10: it rules out hardly any attack"]),
    ("delta", {"epsilon": 10.0, "delta": 0.01}, ["Delta 0.01 is above 0.0001: of 10,000 persons, 100 may be exposed."]),
    ("many", {"epsilon": 10.0, "delta": 0.2}, ["of 10,000 persons, 2,000 may be exposed."]),
    ("neither", {"epsilon": 10.0, "delta": 1e-4}, []),
]


@pytest.mark.parametrize(("settings", "sentences"), [case[1:] for case in SAID], ids=[case[0] for case in SAID])
def test_budgets_that_promise_little_warn(settings, sentences, tmp_path):
    """--delta 0.01 and --epsilon 50 passed without a warning. It is no error, and nothing is said at the edge."""
    budget = Budget(**settings)
    for call in (lambda: plan(budget), lambda: ContinualClassifier(budget=budget).statement()):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            call()
        said = [str(one.message) for one in found if issubclass(one.category, ReticentWarning)]
        assert len(said) == len(sentences)
        assert all(sentence in " ".join(said) for sentence in sentences)
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    init = ["init", tmp_path / "model", *words, "--tasks-per-person", 1, "--encoder", "none"]
    for done in (reticent("plan", *words), reticent(*init)):
        assert done.returncode == 0
        assert done.stderr.count("Warning: ") == len(sentences)
        assert all(sentence in done.stderr for sentence in sentences)
    shown = reticent("ledger", tmp_path / "model")
    assert "Warning" not in shown.stderr  # said where the budget is chosen, and stated for good
    assert all(sentence in " ".join(shown.stdout.split()) for sentence in sentences)
