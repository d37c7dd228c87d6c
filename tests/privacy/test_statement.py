import json
import math
import re
import sys
from importlib import resources
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from reticent import Adjacency, Budget, ContinualClassifier, PublicLabels, errors, load
from reticent.budget import Persons
from reticent.cli import app
from reticent.gate.ledger import Ledger
from reticent.privacy import accounting, events, planning
from reticent.privacy.rounding import exact, rounded_down, rounded_up
from reticent.privacy.statement import Act, Spend, Statement
from reticent.released.settings import PERSON
from reticent.report import statement_files
from tests.privacy.accounting.cases import EVENTS

REPLACED = Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE)
# Half of what gaussian_sigma(REPLACED) allows: 0.4688 under add-or-remove-one
MARCH = events.Gaussian(noise_multiplier=2 * 3.7306317)


def spent(event: events.Event, **facts: Any) -> Spend:
    return Spend(**{"row": 2, "at": "2025-01-01", "task": "march", "event": event, "private": True, **facts})


def one_line(text: str) -> str:
    """A statement without its line breaks."""
    return " ".join(text.split())


def test_statement_names_the_selection():
    event = accounting.private_selection(events.Gaussian(noise_multiplier=4.0), mean_runs=5)
    statement = Statement(budget=Budget(epsilon=3.0, delta=1e-5), spends=[spent(event, task="tuning")])
    assert "gamma 0.06992), each sums, noise 4.0000," in one_line(statement.text())
    assert statement.json()["rows"][0]["event"]["run"]["kind"] == "Gaussian"


def test_statements_fit_80_columns():
    """Events were printed with sixteen digits, and a row of the ledger in 190 columns."""
    spends = [spent(event, row=row, task=f"month {row}", published=True) for row, event in enumerate(EVENTS, start=2)]
    acts = [Act(row=99, at="2025-01-01", text="tuning not covered: 20 trials on sensitive data, not paid for " * 2)]
    for adjacency in Adjacency:
        budget = Budget(epsilon=1.0, delta=1e-5, adjacency=adjacency, tasks_per_person=12, examples_per_person=100)
        found = Statement(budget=budget, spends=spends, acts=acts, identity="0" * 32, head="a" * 64, name="a model")
        assert max(map(len, found.text().splitlines())) <= 80
        assert not re.search(r"\d\.\d{6,}", found.text())


def test_plan_and_ledger_quote_the_same_noise():
    """4.1198 in the plan was 3.7306316348196726 in the ledger."""
    budget = Budget(epsilon=1.0, delta=1e-5)
    planned = planning.plan(budget)
    joint = planning.joint_gaussian(budget, planned.default_count_weight or 0)
    words = f"noise {rounded_up(planned.sigma)}, a new label above {planned.threshold:.1f}"
    assert f"labels and sums, {words}" in one_line(Statement(budget=budget, spends=[spent(joint)]).text())


# --- persons


def test_every_loss_is_printed_with_what_it_assumes():
    """300 rows of one patient were "one person has lost at most epsilon 1"."""
    ids, stated, assumed = Persons.BY_IDS, Persons.STATED, Persons.ASSUMED
    one, each = "no person is in more than 1 task", "each row is another person"
    ids_of = "each person has one id, and no two share one"
    cases = [
        ((ids,), (1, 1), f"{one}, {ids_of}"),
        ((ids, stated), (1, 1), f"{one}, {each} (in the tasks without person ids), {ids_of}"),
        ((stated, assumed), (1, 1), f"{one}, and {each}"),
        ((assumed,), (12, 3), "no person is in more than 12 tasks, and nobody has more than 3 rows in a task"),
    ]
    for persons, (tasks, rows), condition in cases:
        budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=tasks, examples_per_person=rows)
        spends = [spent(MARCH, task=f"task {i}", persons=whose) for i, whose in enumerate(persons)]
        voided = spent(MARCH, persons=assumed, voided="never drawn")
        found = Statement(budget=budget, spends=[*spends, voided])
        condition += "; this is not checked"
        assert found.condition == condition == found.json()["totals"]["if"]
        assert f". Valid only if {condition}." in one_line(found.text())
        alone = Statement(
            budget=budget, spends=[voided], persons=persons[0]
        )  # what init was told, until something counts
        assert (alone.condition == condition) == (len(set(persons)) == 1 or ids not in persons)


def test_the_ledger_records_whose_rows_were_learned(tmp_path):
    x, y = np.eye(2), ["a", "b"]
    model = ContinualClassifier(labels=PublicLabels(y), budget=Budget(epsilon=1.0, delta=1e-5), path=tmp_path / "m")
    model.learn_task(x, y, name="march").learn_task(x, y, name="april", persons=["p", "q"])
    model.learn_task(x, y, name="may", each_row_is_a_person=True)
    model.private_score(x, y, epsilon=0.5, name="june", each_row_is_a_person=True)
    with pytest.raises(errors.InvalidValue, match="not both"):
        model.learn_task(x, y, name="june", persons=["p", "q"], each_row_is_a_person=True)
    recorded = [spend.persons for spend in load(tmp_path / "m").statement().spends]
    assert recorded == [Persons.ASSUMED, Persons.BY_IDS, Persons.STATED, Persons.STATED]
    assert model.spent()["if"] == model.statement().condition


def test_before_the_first_spend_a_statement_says_what_init_was_told(tmp_path):
    """A model made with --person was stated "if each row is another person"; the first spend that counts decides."""
    for said, within in (("who", "each person has one id"), (None, "each row is another person")):
        model = ContinualClassifier(
            labels=PublicLabels(["a", "b"]), budget=Budget(epsilon=1.0, delta=1e-5), path=tmp_path / within
        )
        model.directory.set({PERSON: said})
        for found in (model.statement(), load(tmp_path / within).statement()):
            assert within in found.condition
            assert within in one_line(found.text())
        assert within in (tmp_path / within / "README.md").read_text(encoding="utf-8")
        model.learn_task(np.eye(2), ["a", "b"], each_row_is_a_person=True)
        assert "each row is another person" in model.statement().condition


# --- rounding


@given(st.floats(0, 1e4), st.integers(0, 8))
def test_shown_epsilon_is_never_below_the_true_one(epsilon, digits):
    step = 10.0**-digits
    assert epsilon <= float(rounded_up(epsilon, digits)) < epsilon + 1.001 * step
    assert epsilon - 1.001 * step < float(rounded_down(epsilon, digits)) <= epsilon


@given(st.floats(0, allow_infinity=False), st.integers(0, 8))
@example(sys.float_info.max, 4)
@example(1e25, 4)
def test_any_loss_can_be_shown(epsilon, digits):
    """A forged ledger may say 1e25: with the 28 digits of decimal's default a statement of it raised."""
    assert float(rounded_down(epsilon, digits)) <= epsilon <= float(rounded_up(epsilon, digits))


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (1.0, "1.0000", "1.0000"),
        (1.00000000001, "1.0001", "1.0000"),
        (0.1, "0.1000", "0.1000"),
        (0, "0.0000", "0.0000"),
    ],
)
def test_rounding_of_exact_values(value, up, down):
    """An excess of 1e-11 was rounded away."""
    assert (rounded_up(value), rounded_down(value)) == (up, down)


@given(st.floats(1e-12, 99))
def test_budgets_are_printed_exactly(epsilon):
    """With six digits 0.1234564 became 0.123456: less than was promised."""
    assert float(exact(epsilon)) == epsilon
    statement = Statement(budget=Budget(epsilon=epsilon, delta=1.2345674e-6), spends=())
    assert f"Budget      epsilon {exact(epsilon)}, delta 1.2345674e-06" in statement.text()
    assert f"Later       At most epsilon {exact(epsilon)} at delta 1.2345674e-06" in statement.text()


def test_infinite_epsilon_has_one_name():
    assert rounded_up(None) == rounded_up(math.inf) == "infinity"
    statement = Statement(budget=Budget(epsilon=3.0, delta=1e-5), spends=[spent(events.NonPrivate(), private=False)])
    assert "Now         What one person has lost has no bound.\n" in statement.text()
    assert "  In 3 such tasks: no bound\n" in statement.text()
    assert statement.json()["totals"]["now"]["epsilon"] is None


# --- adjacency


def test_costs_are_those_of_the_budgets_adjacency():
    """0.4687 was printed as what one person has lost at most, under a budget of replace-one."""
    adding, replacing = accounting.cost(MARCH, 1e-5)[:2]
    assert (rounded_up(adding), rounded_up(replacing)) == ("0.4688", "1.0000")
    statement = Statement(budget=REPLACED, spends=[spent(MARCH)])
    text = one_line(statement.text())
    assert "Now Epsilon 1.0000 of 1 used at delta 1e-05 (replace-one). Valid" in text
    assert "not checked. Epsilon 0.4688 for add-or-remove-one. Later" in text
    assert "epsilon 1.0000 alone" in text
    thrice = rounded_up(accounting.epsilon(accounting.repeat(MARCH, 3), 1e-5, adjacency=Adjacency.REPLACE_ONE))
    assert f"In 1 such task: epsilon 1.0000 at delta 1e-05 In 3 such tasks: epsilon {thrice} at delta 1e-05" in text
    facts = statement.json()
    assert facts["rows"][0]["epsilon"] == facts["totals"]["now"]["epsilon"] == 1.0
    assert facts["totals"]["epsilon_by_tasks_per_person"]["3"] == float(thrice)
    assert facts["totals"]["now"]["add_or_remove_one"] == 0.4688
    other = Statement(budget=Budget(epsilon=1.0, delta=1e-5), spends=[spent(MARCH)])
    assert "Now Epsilon 0.4688 of 1 used at delta 1e-05 (add-or-remove-one). Valid" in one_line(other.text())
    assert "Epsilon 1.0000 (tight) for replace-one." in one_line(other.text())


def test_learn_prints_what_replace_one_costs(tmp_path):
    """The command line, `spent()` and the page of a model under a budget of replace-one."""
    model = ContinualClassifier(labels=PublicLabels(["a", "b"]), budget=REPLACED, path=tmp_path / "model")
    assert model.spent()["epsilon"] == 0
    (tmp_path / "march.csv").write_text("x,z,label\n1,0,a\n0,1,b\n", encoding="utf-8")
    learned = [
        "learn",
        "--each-row-is-a-person",
        "march.csv",
        "--model",
        "model",
        "--features",
        "x,z",
        "--label",
        "label",
    ]
    runner = CliRunner()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        said = runner.invoke(app, learned)
        assert runner.invoke(app, ["report", "model", "--out", "page/report.html"]).exit_code  # no such folder
        assert runner.invoke(app, ["report", "model"]).exit_code == 0
    assumed = "no person is in more than 1 task, and each row is another person; this is not checked."
    claim = f"Epsilon 1.0000 of 1 used at delta 1e-05 (replace-one). Valid only if {assumed}"
    assert claim in one_line(said.output)
    assert 0.999 < model.spent()["epsilon"] <= 1
    assert model.spent()["adjacency"] == "replace-one"
    page = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert claim in page


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_calibrated_spend_costs_the_budget_and_not_more(adjacency):
    """Searches end just above; where the budget holds, the statement says the budget."""
    for epsilon in (0.1, 0.7, 1.0, 8.0):
        budget = Budget(epsilon=epsilon, delta=1e-5, adjacency=adjacency, tasks_per_person=2)
        joint = planning.joint_gaussian(budget, 0.1)
        statement = Statement(budget=budget, spends=[spent(joint), spent(joint, row=3, task="april")])
        assert 0.99 * epsilon < statement.epsilon <= epsilon
        assert statement.json()["totals"]["now"]["epsilon"] <= float(rounded_up(epsilon))


def test_tasks_without_a_bound_are_said_in_words():
    """Three tasks expose a new label with three times the chance: beyond delta no epsilon holds."""
    budget = Budget(epsilon=1.0, delta=1e-5)
    joint = planning.joint_gaussian(budget, 0.1)
    statement = Statement(budget=budget, spends=[spent(joint)])
    wider = rounded_up(accounting.epsilon(accounting.repeat(joint, 3), 6e-5))
    assert "  In 1 such task: epsilon 1.0000 at delta 1e-05\n" in statement.text()
    assert f"  In 3 such tasks: epsilon {wider} at delta 6e-05; no bound at 1e-05\n" in statement.text()
    assert "infinity" not in statement.text()
    totals = statement.json()["totals"]
    assert totals["epsilon_by_tasks_per_person"]["3"] is None
    assert totals["bound_by_tasks_per_person"]["3"] == {"epsilon": float(wider), "delta": 6e-05}


# --- the JSON

SCHEMA = json.loads((resources.files("reticent.privacy") / "privacy_statement.schema.json").read_text("utf-8"))
KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "number": (int, float),
    "integer": int,
}


def faults(value: object, rule: dict[str, Any], at: str = "") -> list[str]:
    """What of a value its schema refuses; every keyword that the schema uses is known here."""
    known = {"$schema", "$defs", "title", "description", "type", "properties", "required", "additionalProperties"}
    known |= {"items", "enum", "const", "pattern", "minimum", "exclusiveMinimum", "$ref"}
    assert set(rule) <= known, set(rule) - known
    if "$ref" in rule:
        return faults(value, SCHEMA["$defs"][rule["$ref"].removeprefix("#/$defs/")], at)
    found = []
    kinds = rule.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if value is None and "null" in kinds:
        return []
    plain = [kind for kind in kinds if kind != "null"]
    if plain and not any(isinstance(value, KINDS[k]) and isinstance(value, bool) == (k == "boolean") for k in plain):
        return [f"{at}: {value!r} is no {plain}"]
    if ("const" in rule and value != rule["const"]) or ("enum" in rule and value not in rule["enum"]):
        found.append(f"{at}: {value!r}")
    if "pattern" in rule and not re.search(rule["pattern"], str(value)):
        found.append(f"{at}: {value!r}")
    if isinstance(value, int | float) and (
        value < rule.get("minimum", value) or value <= rule.get("exclusiveMinimum", -1)
    ):
        found.append(f"{at}: {value!r}")
    if isinstance(value, list) and "items" in rule:
        found += [fault for i, item in enumerate(value) for fault in faults(item, rule["items"], f"{at}/{i}")]
    if isinstance(value, dict):
        found += [f"{at}: no {name}" for name in rule.get("required", ()) if name not in value]
        other = rule.get("additionalProperties", True)
        for name, part in value.items():
            inner = rule.get("properties", {}).get(name, other)
            if inner is False:
                found.append(f"{at}: {name} is not in the schema")
            elif isinstance(inner, dict):
                found += faults(part, inner, f"{at}/{name}")
    return found


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_statements_follow_their_schema(adjacency):
    budget = Budget(epsilon=3.0, delta=1e-5, adjacency=adjacency, tasks_per_person=2)
    spends = [spent(event, row=row, task=f"task {row}") for row, event in enumerate(EVENTS[:4], start=2)]
    spends += [
        spent(events.NonPrivate(), private=False),
        spent(MARCH, voided="never drawn"),
        spent(MARCH, published=True),
    ]
    full = Statement(
        budget=budget, spends=spends, acts=[Act(row=9, at="2025-01-02", text="one")], identity="0" * 32, head="a" * 64
    )
    for statement in (full, Statement(budget=budget, spends=()), Ledger.create(None, budget).statement()):
        facts = statement.json()
        assert faults(json.loads(json.dumps(facts, allow_nan=False)), SCHEMA) == []
    changed = json.loads(json.dumps(full.json()))
    changed["budget"]["adjacency"], changed["rows"][0]["epsilon"], changed["extra"] = "any", "1", 1
    del changed["totals"]["now"]
    assert len(faults(changed, SCHEMA)) == 4  # the checker itself


def test_statement_files_state_the_same(tmp_path):
    with Ledger.create(tmp_path, REPLACED) as ledger:
        ledger.spend(MARCH, task="march", private=False)
        statement = ledger.statement()
    said = CliRunner().invoke(app, ["ledger", str(tmp_path), "-o", str(tmp_path / "signed" / "2025")])
    assert said.exit_code == 0
    folder = tmp_path / "signed" / "2025"
    assert sorted(path.name for path in folder.iterdir()) == [statement_files.JSON, statement_files.TEXT]
    text = (folder / statement_files.TEXT).read_text(encoding="utf-8")
    facts = json.loads((folder / statement_files.JSON).read_text(encoding="utf-8"))
    assert text == said.output
    assert facts == statement.json()
    assert all(each in one_line(text) for each in facts["sentences"])
    assert facts["ledger"]["head"] in text
    assert facts["ledger"]["identity"] in text
    assert facts["name"] == tmp_path.name
    assert f"Model       {tmp_path.name}\nWritten by  {facts['software']}\n" in text
    assert facts["private"] is False
    assert "NOT PRIVATE" in text
    refused = CliRunner().invoke(app, ["ledger", str(tmp_path), "-o", str(folder / statement_files.TEXT)])
    assert isinstance(refused.exception, errors.InvalidValue)


def test_what_the_ledger_accepts_is_never_stated_without_a_bound():
    """Where a group bound rises again just above the budget, the search missed it: "epsilon infinity of 2 used"."""
    budget = Budget(epsilon=2.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE)
    counts = events.LabelCounts(noise_multiplier=8.984215297945621, threshold=41.873168956329565)
    training = events.DpSgd(noise_multiplier=9.140477787021405, rate=0.2, steps=100)
    with Ledger.create(None, budget) as ledger:
        ledger.spend(events.LabelledTraining(counts=counts, training=training), task="march", private=True)
        assert ledger.statement().spent()["epsilon"] == 2.0
