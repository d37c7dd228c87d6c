import math

from hypothesis import given
from hypothesis import strategies as st

from reticent import Budget
from reticent.privacy import accounting, events
from reticent.privacy.statement import Spend, Statement, rounded_up


def test_statement_names_the_selection():
    event = accounting.private_selection(events.Gaussian(noise_multiplier=4.0), mean_runs=5)
    spend = Spend(row=1, at="2025-01-01", task="tuning", event=event, private=True)
    statement = Statement(budget=Budget(epsilon=3.0, delta=1e-5), spends=[spend])
    assert "PrivateSelection(run=Gaussian(" in statement.text()
    assert statement.json()["rows"][0]["event"]["run"]["kind"] == "Gaussian"


@given(st.floats(0, 1e4))
def test_shown_epsilon_is_never_below_the_true_one(epsilon):
    shown = float(rounded_up(epsilon))
    assert epsilon - 1e-10 <= shown < epsilon + 1.001e-4


def test_infinite_epsilon_has_one_name():
    assert rounded_up(None) == rounded_up(math.inf) == "infinity"
    spend = Spend(row=1, at="2025-01-01", task="leak", event=events.NonPrivate(), private=True)
    statement = Statement(budget=Budget(epsilon=3.0, delta=1e-5), spends=[spend])
    assert "Spent now   epsilon infinity" in statement.text()
    assert statement.json()["totals"]["now"]["epsilon"] is None
