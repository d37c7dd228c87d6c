"""The page that a privacy officer signs."""

import html
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import reticent as rt
from reticent.budget import Persons
from reticent.labels import LabelSpace
from reticent.memory import STOLEN, Epoch
from reticent.privacy import events, planning
from reticent.privacy.conditions import conditions
from reticent.privacy.statement import UNCOVERED, Act, Spend, Statement
from reticent.released import card
from reticent.released.account import Account
from reticent.released.model import Model
from reticent.released.settings import MEMORY, PERSON
from reticent.released.sums import Sums
from reticent.report import sign_off
from reticent.report.model_page import model_page
from reticent.report.sign_off import sign_off_page

BUDGET = rt.Budget(epsilon=1.0, delta=1e-5)
EVENT = events.Gaussian(noise_multiplier=8.0)


def spend(row: int, task: str, **more: object) -> Spend:
    facts = {"at": "2026-11-17T18:00:00+00:00", "event": EVENT, "private": True, "published": True, **more}
    return Spend(row=row, task=task, **facts)  # type: ignore[arg-type]


def stated(*spends: Spend, **more: object) -> Statement:
    facts = {"identity": "1df096d6e30f87ca8001b90f6b3ac732", "head": "98abf44a" * 8, "name": "diagnoses", **more}
    return Statement(budget=BUDGET, spends=spends, **facts)  # type: ignore[arg-type]


def page_of(statement: Statement) -> str:
    return sign_off_page(statement, releases=len(statement.spends), labels=3)


def rows(text: str) -> list[list[str]]:
    section = text[text.index('<section id="tasks">') :]
    found = re.findall(r"<tr[^>]*>(.*?)</tr>", section[: section.index("</section>")])
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in found[1:]]


def test_sign_off_says_everything(tmp_path):
    model = rt.ContinualClassifier(budget=rt.Budget(epsilon=4.0, delta=1e-5), path=tmp_path / "diagnoses")
    for month in ("march", "april <b>"):
        model.learn_task(np.repeat(np.eye(3), 400, axis=0), np.repeat(["rare-a", "rare-b", "rare-c"], 400), name=month)
    statement = model.statement()
    text = sign_off_page(statement, releases=len(model.releases), labels=len(model.classes_))
    assert "<h1>Privacy sign-off: diagnoses</h1>" in text
    assert statement.identity is not None
    assert statement.head is not None
    for said in (statement.identity, statement.head, statement.software):
        assert said in text
    assert [row[0] for row in rows(text)] == ["march", "april &lt;b&gt;"]
    assert all(signer in text for signer in sign_off.SIGNERS)
    assert "Outside the guarantee: " in text
    assert "2 release(s); 3 label(s) are known" in text
    assert "rare-" not in text
    assert "<script" not in text


ROOT = Path(__file__).parents[2]
ROW = events.Remembered(noise_multiplier=8.0, epoch=1, horizon=12)
EPOCH = Epoch(number=1, vault=None, place=None, eighths=2, horizon=12, recurring=None)
NOT_COVERED = Act(row=9, at="2026-01-01", text=f"{UNCOVERED}: 2 trials on <b>sensitive</b> data, not paid for")
STATEMENTS = {
    "nothing spent": lambda: Statement(budget=BUDGET, spends=(), persons=Persons.BY_IDS),
    "sums": lambda: stated(spend(2, "march", persons=Persons.BY_IDS), spend(3, "april", persons=Persons.STATED)),
    "released labels": lambda: stated(spend(2, "march", event=planning.joint_gaussian(BUDGET, 0.1))),
    "training": lambda: stated(spend(2, "march", event=events.DpSgd(noise_multiplier=2.0, rate=0.01, steps=100))),
    "seeded": lambda: stated(spend(2, "march", private=False)),
    "not covered": lambda: stated(spend(2, "march"), acts=(NOT_COVERED,)),
    "voided": lambda: stated(spend(2, "march", voided="a slip")),
    "memory": lambda: stated(spend(2, "march", event=ROW), memory=EPOCH),
    "large": lambda: replace(stated(spend(2, "march")), budget=rt.Budget(epsilon=50.0, delta=0.01, tasks_per_person=3)),
    "replace-one": lambda: replace(
        stated(spend(2, "march")),
        budget=rt.Budget(epsilon=2.0, delta=1e-5, adjacency=rt.Adjacency.REPLACE_ONE, examples_per_person=4),
    ),
}


def carded(statement: Statement) -> str:
    """The card of a model whose ledger says this."""
    account = Account(first=statement.budget.to_json(), spends={s.row: s for s in statement.spends})
    account.acts = list(statement.acts)
    account.settings = {} if statement.memory is None else {MEMORY: statement.memory.to_json()}
    account.settings |= {PERSON: "who"} if statement.persons is Persons.BY_IDS else {}
    settings = {"budget": statement.budget.to_json(), "policy": {"kind": "public"}, "encoder": None}
    return card.text(Model(LabelSpace(("a",)), Sums()), settings, account).replace("\\", "")


@pytest.mark.parametrize("kind", list(STATEMENTS))
def test_every_sentence_is_shown_everywhere(kind):
    """The page that an officer signs omitted "no bound at 1e-05", and the text stated a number for seeded noise."""
    statement = STATEMENTS[kind]()
    sentences, spent = statement.sentences(), statement.spent()
    shown = {
        "text": statement.text(),
        "sign-off": html.unescape(page_of(statement)),
        "model page": html.unescape(model_page("A model", releases=[], known=["a"], statement=statement)),
        "card": carded(statement),
        "JSON": "\n".join(statement.json()["sentences"]),
    }
    for place, text in shown.items():
        plain = " ".join(text.split())
        assert [sentence for sentence in sentences if " ".join(sentence.split()) not in plain] == [], place
    assert {*spent["warnings"], *spent["in_tasks"]} <= set(sentences)
    assert statement.warnings() == spent["warnings"]
    assert spent["if"] in statement.claim or not statement.private
    if kind == "released labels":
        assert "In 12 such tasks: epsilon 3.4393 at delta 0.00024; no bound at 1e-05" in sentences
    assert bool(statement.warnings()) == (kind in ("seeded", "not covered", "large"))


def test_one_table_of_what_is_enforced_and_assumed():
    """SECURITY.md, the officer's guide and the page to sign; each assumption of a statement is a line of it."""
    lines = [f"| {found.sentence} | {found.status} | {found.broken_by} |" for found in conditions()]
    for page in ("SECURITY.md", "docs/guide-officer.md"):
        assert "\n".join(lines) in (ROOT / page).read_text(encoding="utf-8")
    statement = STATEMENTS["memory"]()
    text = html.unescape(page_of(statement))
    for found in statement.conditions():
        at = text.index(found.sentence)
        assert found.status in text[at : at + 600]
        assert found.broken_by in text[at : at + 600]
        assert (found.sentence in statement.assumptions()) == (found.status != "enforced")
    table = text.split('<section id="enforced-and-assumed">')[1].split("</section>")[0]
    assert table.count("☐") == len(statement.assumptions()) - 1  # what is compared needs no box
    assert len(statement.conditions()) == len(conditions())
    assert len(STATEMENTS["sums"]().conditions()) == len(conditions()) - 1  # no vault


def test_the_claim_never_stands_without_its_condition():
    text = page_of(stated(spend(2, "march")))
    assert text.count(" used at delta ") == text.count(f"Valid only if {stated(spend(2, 'march')).condition}.") == 1


def test_what_is_not_private_or_not_covered_is_said():
    assert "Do not publish these releases" not in page_of(stated(spend(2, "march")))
    seeded = stated(spend(2, "march", private=False), acts=(Act(row=3, at="", text=f"{UNCOVERED}: by hand"),))
    text = page_of(seeded)
    assert "Do not publish these releases" in text
    assert f"NOT COVERED: {UNCOVERED}: by hand" in text
    assert rows(text)[0][5].startswith("NOT PRIVATE")
    assert rows(text)[0][3] == "infinity"
    assert " used at delta " not in text  # seeded noise bounds nothing
    assert "What one person has lost has no bound." in text
    assert "In 12 such tasks: no bound" in text
    tuned = page_of(replace(seeded, spends=(spend(2, "march"),)))
    assert f"if {seeded.condition}." in tuned
    assert f"NOT COVERED: {UNCOVERED}: by hand" in tuned


def test_a_model_with_memory_says_what_its_vault_tells(tmp_path):
    memory = rt.Memory(vault=tmp_path / "vault", horizon=12)
    public = rt.PublicLabels(["a", "b"])
    model = rt.ContinualClassifier(budget=BUDGET, labels=public, memory=memory, path=tmp_path / "model")
    model.learn_task(np.eye(2), ["a", "b"], name="march")
    text = page_of(model.statement())
    assert '<section id="memory">' in text
    assert html.escape(STOLEN) in text
    assert rows(text)[0][3].endswith(" (its whole epoch)")
    assert '<section id="memory">' not in page_of(stated(spend(2, "march")))


def test_hostile_names_are_text_on_the_page_to_sign():
    """A ledger and its folder may come from somebody else."""
    name = "<script>x</script>\x1b[2J\u202e\udce9\n<b onclick='x'>\"*a*"
    text = page_of(stated(spend(2, name, voided=name), spend(4, name), name=name))
    assert "<script" not in text
    assert "<b " not in text
    assert all(c.isprintable() or c == "\n" for c in text)
    text.encode()


def test_a_task_with_several_spends_costs_what_they_cost_together():
    one, both = stated(spend(2, "march")), stated(spend(2, "march"), spend(4, "march"))
    alone, together = (float(rows(page_of(statement))[0][3]) for statement in (one, both))
    assert alone < together
    assert together >= both.epsilon - 1e-9
    assert len(rows(page_of(both))) == 1


def test_voided_spends_do_not_count_and_are_shown():
    text = page_of(stated(spend(2, "march", published=False, voided="killed <i>"), spend(4, "april")))
    assert rows(text)[0][2:] == ["nothing that counts", "-", "", "not published; row 2 voided: killed &lt;i&gt;"]
    assert rows(text)[1][5] == "published"


def many(count: int, **more: object) -> Statement:
    return stated(*(spend(2 * k, f"month {k}", **more) for k in range(1, count + 1)))


def test_many_tasks_that_cost_the_same_share_a_row():
    assert len(rows(page_of(many(sign_off.MOST_ROWS)))) == sign_off.MOST_ROWS
    found = many(60)
    assert [row[0] for row in rows(page_of(found))] == ["month 1 to month 60 (60 tasks)"]
    other = [replace(s, event=events.Gaussian(noise_multiplier=9.0)) if s.row == 40 else s for s in found.spends]
    names = [row[0] for row in rows(page_of(replace(found, spends=other)))]
    assert names == ["month 1 to month 19 (19 tasks)", "month 20", "month 21 to month 60 (40 tasks)"]


def sheets(tab, tmp_path, statement: Statement) -> int:
    file = tmp_path / "sign-off.html"
    file.write_text(page_of(statement), encoding="utf-8")
    tab.screen(media="print", width=800, dark=True)
    tab.open(file)
    assert tab.said == []
    assert tab.requested == [file.as_uri()]
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", tab.pdf()))


@pytest.mark.parametrize("count", [0, 1, sign_off.MOST_ROWS, 60])
def test_sign_off_fits_two_sheets(tab, tmp_path, count):
    assert 1 <= sheets(tab, tmp_path, many(count)) <= 2


def test_sixty_rows_would_not_fit_two_sheets(tab, tmp_path, monkeypatch):
    """So that the test above can fail."""
    monkeypatch.setattr(sign_off, "MOST_ROWS", 1_000)
    assert sheets(tab, tmp_path, many(60)) > 2


@pytest.mark.parametrize("dark", [False, True])
def test_sign_off_fits_a_phone(tab, tmp_path, dark):
    file = tmp_path / "sign-off.html"
    file.write_text(page_of(many(3, voided="a reason " * 30)), encoding="utf-8")
    tab.screen(width=375, dark=dark)
    tab.open(file)
    assert tab.run("document.documentElement.scrollWidth") <= 375
