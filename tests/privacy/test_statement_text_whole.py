"""The whole statement as text, line by line; its long sentences are replaced by short ones."""

import pytest

from reticent import Adjacency, Budget
from reticent.budget import Persons
from reticent.memory import Epoch
from reticent.privacy import events, statement_text
from reticent.privacy import statement as privacy_statement
from reticent.privacy.statement import NOT_PRIVATE, Act, Spend, Statement

ROW = events.Remembered(noise_multiplier=4.0, epoch=1, horizon=12)
MEMORY = Epoch(number=1, vault=None, place=None, eighths=2, horizon=12, recurring=None)
SPENDS = (
    Spend(row=2, at="2026-01-31", task="march", event=ROW, private=True, published=True, persons=Persons.BY_IDS),
    Spend(
        row=3,
        at="2026-02-01",
        task="april",
        event=events.Gaussian(noise_multiplier=4.0),
        private=False,
        persons=Persons.BY_IDS,
        voided="a slip",
    ),
)
ACTS = (
    Act(row=4, at="2026-02-02", text="tuned on public data"),
    Act(row=5, at="2026-02-02", text="tuning not covered: by hand"),
)

FULL = """\
Privacy statement

A warning. Do not publish these releases.
NOT COVERED: tuning not covered: by hand

Model       a model
Written by  reticent 1.2.3
Ledger      00
Head        aa
Private     NO
Tuning      tuned on public data; tuning not covered: by hand
Not covered the rest

Budget      epsilon 1, delta 1e-05, add-or-remove-one: what one person may lose
            over the whole stream
Now         What one person has lost has no bound.
Later       No budget bounds what follows, either.
What a person would lose
  In 1 such task: no bound
  In 3 such tasks: no bound
  In 12 such tasks: no bound

Assumptions
  - One.
  - Two.

Memory
  - Three.

Spends
     2  2026-01-31  march: epoch 1 of up to 12 tasks, correlated noise 4.2623,
                    epsilon 0.9264 for its whole epoch  [persons: by ids;
                    published]
     3  2026-02-01  april: sums, noise 4.0000, epsilon 0.9264 alone  [NOT
                    PRIVATE; persons: by ids; voided: a slip]

Also recorded
     4  2026-02-02  tuned on public data
     5  2026-02-02  tuning not covered: by hand"""

EMPTY = """\
Privacy statement

Written by  reticent 1.2.3
Private     nothing was drawn yet
Tuning      none is recorded
Not covered the rest

Budget      epsilon 2.5, delta 1e-06, replace-one: what one person may lose
            over the whole stream
Now         Epsilon 0.0000 of 2.5 used at delta 1e-06 (replace-one). Valid only
            if no person is in more than 3 tasks, and each row is another
            person; this is not checked.
            Epsilon 0.0000 for add-or-remove-one.
Later       At most epsilon 2.5 at delta 1e-06, however many tasks follow,
            under the same condition: a spend beyond it is refused.
What a person would lose
  In 1 such task: epsilon 0.0000 at delta 1e-06
  In 3 such tasks: epsilon 0.0000 at delta 1e-06
  In 12 such tasks: epsilon 0.0000 at delta 1e-06

Assumptions
  - One.
  - Two.

Spends: none yet"""


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(Statement, "software", "1.2.3")
    monkeypatch.setattr(Statement, "assumptions", lambda _: ["One.", "Two."])
    monkeypatch.setattr(Statement, "memory_sentences", lambda *_: ["Three."])
    monkeypatch.setattr(statement_text, "OUTSIDE", "the rest")
    monkeypatch.setattr(privacy_statement, "NOT_PRIVATE", "A warning.")


@pytest.mark.usefixtures("short")
def test_a_whole_statement_line_by_line():
    budget = Budget(epsilon=1.0, delta=1e-5)
    whole = Statement(budget=budget, name="a model", identity="00", head="aa", memory=MEMORY, spends=SPENDS, acts=ACTS)
    assert whole.text() == FULL
    assert NOT_PRIVATE.startswith("NOT PRIVATE")


@pytest.mark.usefixtures("short")
def test_a_statement_of_nothing_line_by_line():
    budget = Budget(epsilon=2.5, delta=1e-6, adjacency=Adjacency.REPLACE_ONE, tasks_per_person=3)
    assert Statement(budget=budget, spends=()).text() == EMPTY


@pytest.mark.usefixtures("short")
def test_bounds_that_need_another_delta_say_so(monkeypatch):
    statement = Statement(budget=Budget(epsilon=1.0, delta=1e-5), spends=())
    for bound, said in (
        ((float("inf"), 1e-5), "no bound"),
        ((2.0, 1e-5), "epsilon 2.0000 at delta 1e-05"),
        ((2.0, 1e-4), "epsilon 2.0000 at delta 0.0001; no bound at 1e-05"),
    ):
        monkeypatch.setattr(Statement, "bound_if_in", lambda _, n, bound=bound: bound)
        assert statement.in_tasks()[2] == f"In 12 such tasks: {said}"


def test_private_statements_say_where_noise_came_from():
    text = Statement(budget=Budget(epsilon=1.0, delta=1e-5), spends=SPENDS[:1], head="aa").text()
    assert "Private     Real noise was used. The assumptions below must still be true.\n" in text
    assert "NOT PRIVATE" not in text


def test_long_names_are_never_broken():
    assert statement_text._folded("x" * 100, "  - ") == ["  - " + "x" * 100]
    assert statement_text._folded("a-b " * 30, "") == [("a-b " * 19 + "a-b").strip(), ("a-b " * 10).strip()]
    assert statement_text._folded("", "Key         ") == ["Key         "]
