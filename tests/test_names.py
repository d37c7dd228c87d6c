import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reticent as rt
from reticent import errors, names
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.privacy import events
from reticent.sensitive.task import Task

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
SPENT = events.Gaussian(noise_multiplier=8.0)
DECEIVING = {
    "not UTF-8": "f\udce9vrier",
    "a second line": "march\n   9  april: free",
    "a carriage return": "march\rapril",
    "an escape code": "march\x1b[2J",
    "a C1 control": "march\x9b2J",
    "a line separator": "march\u2028april",
    "a paragraph separator": "march\u2029april",
    "a bidirectional override": "march\u202elirpa",
    "a bidirectional isolate": "march\u2066lirpa\u2069",
    "no width": "mar\u200bch",
    "a byte order mark": "mar\ufeffch",
    "a soft hyphen": "mar\u00adch",
    "a letter that shows nothing": "march\u3164",
    "a variation selector": "march\ufe0f",
    "a tag": "march\U000e0041",
    "no character": "march\uffff",
    "too long": "m" * (names.LONGEST + 1),
}


@pytest.mark.parametrize("case", DECEIVING)
def test_names_that_could_deceive_are_refused(case):
    with pytest.raises(errors.InvalidValue, match="Expected a name for the task") as refusal:
        names.public_name(DECEIVING[case])
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize("name", ["march", "März 2026", "2026-03", "3月", "مارس", "ward [bold] 3", "a/b", "=1+1", "😀"])
def test_ordinary_names_stay(name):
    assert names.public_name(name) == name


@given(st.text())
def test_what_is_accepted_is_one_visible_line(text):
    try:
        name = names.public_name(text)
    except errors.InvalidValue:
        return
    assert name.isprintable()
    assert name == name.strip() == names.public_name(name)
    assert name.encode().decode() == name


@given(st.text())
def test_any_text_can_be_shown(text):
    assert names.shown(text).isprintable()
    names.shown(text).encode()
    if text.isprintable() and text.isascii():
        assert names.shown(text) == text


@pytest.mark.parametrize("case", DECEIVING)
def test_deceiving_names_are_refused_before_the_spend(case):
    """Today's worst: a name that cannot be written as UTF-8 was spent, published, and then raised."""
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a"]), budget=BUDGET)
    x, y, name = np.eye(3), ["a"] * 3, DECEIVING[case]
    with pytest.raises(errors.InvalidValue):
        model.learn_task(x, y, name=name)
    with pytest.raises(errors.InvalidValue):
        model.private_score(x, y, epsilon=0.5, name=name)
    with pytest.raises(errors.InvalidValue):
        Task(x, y, name=name)
    ledger = Ledger.create(None, BUDGET)
    with pytest.raises(errors.InvalidValue):
        Gate(ledger).spend(SPENT, task=name)
    with pytest.raises(errors.InvalidValue):
        ledger.spend(SPENT, task=name, private=True)
    assert not ledger.statement().spends
    assert not model.statement().spends


def test_names_of_one_look_are_one_task():
    """Else the same persons pay twice for what reads as one task."""
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a"]), budget=BUDGET)
    model.learn_task(np.eye(3), ["a"] * 3, name="caf\u00e9 3")
    for again in ("caf\u00e9 3 ", "\tcaf\u00e9 3", "cafe\u0301 3", "caf\u00e9\u00a03"):
        with pytest.raises(errors.BudgetExceeded, match="in the ledger already"):
            model.learn_task(np.eye(3), ["a"] * 3, name=again)
    gate = Gate(Ledger.create(None, BUDGET))
    gate.admit(Task(np.eye(3), ["a"] * 3, name="march "))
    assert gate.spend(SPENT, task=" march").task == "march"


@pytest.mark.parametrize(("first", "second"), [("march", "March"), ("a b", "a  b"), ("march 2", "march ２")])
def test_near_names_are_warned_of(first, second):
    model = rt.ContinualClassifier(labels=rt.PublicLabels(["a"]), budget=BUDGET)
    model.learn_task(np.eye(3), ["a"] * 3, name=first)
    with pytest.warns(errors.ReticentWarning, match="nearly the name"):
        model.learn_task(np.eye(3), ["a"] * 3, name=second)
    with pytest.warns(errors.ReticentWarning, match="nearly the name"):
        model.private_score(np.eye(3), ["a"] * 3, epsilon=0.5, name=second.swapcase() + " ")


def test_reasons_and_acts_are_one_line():
    ledger = Ledger.create(None, BUDGET)
    row = ledger.spend(SPENT, task="march", private=True)
    for text in ("first\n   7  2026  april: free", "\x1b[2J", "\u202e"):
        with pytest.raises(errors.InvalidValue, match="one line"):
            ledger.void(row, reason=text)
        with pytest.raises(errors.InvalidValue, match="one line"):
            ledger.record(text)
    ledger.void(row, reason=" the disk was full ")
    assert ledger.statement().spends[0].voided == "the disk was full"


def test_names_in_old_ledgers_are_shown_escaped():
    """A ledger may come from somebody else, or from a version that took any name."""
    from reticent.privacy.statement import Act, Spend, Statement

    forged = "march\n   9  2026-01-01T00:00:00Z  april: free\x1b[2J"
    spend = Spend(row=2, at="2026\x1b", task=forged, event=SPENT, private=True, voided=forged)
    statement = Statement(
        budget=BUDGET, spends=(spend,), acts=(Act(row=3, at="\r", text=f"tuning not covered{forged}"),)
    )
    assert all(line.isprintable() for line in statement.text().splitlines())
    begin_like_rows = [line for line in statement.text().splitlines() if re.match(r" {1,9}\d", line)]
    assert [line.split()[0] for line in begin_like_rows] == ["2", "3"]  # the spend and the act
