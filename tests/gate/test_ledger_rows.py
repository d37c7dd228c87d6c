"""What the ledger writes, row by row: found by mutants that no other test noticed."""

import json
import sqlite3

import pytest

from reticent import Budget, errors, names
from reticent.budget import Persons
from reticent.gate.ledger import Ledger
from reticent.privacy import accounting, events, stored_events
from reticent.released import ledger_rows
from reticent.released.ledger_file import FILE_NAME, VERSION

BUDGET = Budget(epsilon=1.0, delta=1e-5)
GAUSSIAN = events.Gaussian(noise_multiplier=4.0)


def spend(ledger: Ledger, task: str) -> int:
    return ledger.spend(GAUSSIAN, task=task, private=True)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger.create(None, BUDGET, settings={"encoder": None})


def entry(number: int) -> dict[str, str]:
    return {"file": f"releases/{number:04d}.safetensors", "sha256": f"{number:064x}"}


def test_publishing_numbers_the_release_and_records_the_act(ledger):
    first, second = spend(ledger, "march"), spend(ledger, "april")
    asked = []

    def write(number):
        asked.append(number)
        return entry(number)

    release = ledger.publish(first, write=write, act="tuned on public data")
    assert release == entry(1)
    assert ledger.releases == [release]
    assert [act.text for act in ledger.statement().acts] == ["tuned on public data"]
    with pytest.raises(errors.LedgerError, match="published already"):
        ledger.publish(second, write=lambda number: release)
    assert ledger.publish([second], write=write) == entry(2)
    assert asked == [1, 2]
    assert ledger.publish(spend(ledger, "may")) is None
    assert len(ledger.releases) == 2


def test_settings_are_recorded_where_they_differ(ledger):
    assert ledger.settings == {"encoder": None}
    rows = ledger.account.rows
    ledger.set({"encoder": None})
    assert ledger.account.rows == rows
    ledger.set({"encoder": "minilm"})
    assert ledger.account.rows == rows + 1
    assert ledger.settings == {"encoder": "minilm"}


def test_a_copy_has_all_rows_and_its_own_settings_and_files(ledger, tmp_path):
    spend(ledger, "march")
    files = [entry(1)]
    ledger.copy_to(tmp_path / "copy", settings={"encoder": "minilm"}, releases=files)
    assert ledger.releases == []
    with Ledger.open(tmp_path / "copy") as copy:
        assert copy.statement().spends == ledger.statement().spends
        assert copy.identity == ledger.identity
        assert copy.settings == {"encoder": "minilm"}
        assert copy.releases == files
        assert copy.publish(spend(copy, "april"), write=entry) == entry(2)


def test_ledgers_have_an_identity_of_128_bits_and_the_current_format(tmp_path):
    with Ledger.create(tmp_path, BUDGET) as ledger, Ledger.create(None, BUDGET) as other:
        assert len(bytes.fromhex(ledger.identity)) == 16
        assert ledger.identity != other.identity
        assert ledger.version == other.version == VERSION
        assert ledger._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_ledger_that_cannot_be_opened_for_writing_is_closed(tmp_path, monkeypatch):
    Ledger.create(tmp_path, BUDGET).close()
    opened, databases = Ledger._opened, []

    class Broken:
        def execute(self, statement):
            raise sqlite3.OperationalError("disk I/O error")

    def broken(folder, mode, known):
        ledger = opened(folder, mode, known)
        databases.append(ledger._db)
        monkeypatch.setattr(ledger, "_db", Broken())
        return ledger

    monkeypatch.setattr(Ledger, "_opened", broken)
    with pytest.raises(errors.LedgerError):
        Ledger.open(tmp_path)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        databases[0].execute("SELECT 1")
    assert (tmp_path / FILE_NAME).exists()


def test_sentences_have_a_limit_of_their_own(ledger):
    row, other = spend(ledger, "march"), spend(ledger, "april")
    longest = "x" * names.LONGEST_SENTENCE
    ledger.record(longest)
    ledger.void(row, reason=longest)
    with pytest.raises(errors.InvalidValue, match="an act of at most 2000 characters"):
        ledger.record(longest + "x")
    with pytest.raises(errors.InvalidValue, match="a reason of at most 2000 characters"):
        ledger.void(other, reason=longest + "x")


def test_another_process_that_voids_a_row_is_noticed(tmp_path):
    with Ledger.create(tmp_path, BUDGET) as mine, Ledger.open(tmp_path) as other:
        row = spend(mine, "march")
        assert not mine.is_voided(row)
        other.void(row, reason="a second thought")
        assert mine.is_voided(row)


def test_any_two_tasks_stay_within_the_budget_not_only_two_alike():
    """Two of each kind are within the budget of two tasks, one of each is not: the second task is refused."""
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2)
    noisy = events.Gaussian(noise_multiplier=accounting.gaussian_sigma(budget))
    labels = events.OptimalSelection(epsilon=0.5, delta=3.7e-6)
    assert accounting.within(noisy, budget)
    assert accounting.within(labels, budget)
    assert accounting.delta(events.compose(noisy, labels), 1.0) > 1e-5
    ledger = Ledger.create(None, budget)
    ledger.spend(labels, task="march", private=True)
    with pytest.raises(errors.BudgetExceeded):
        ledger.spend(noisy, task="april", private=True)
    ledger.spend(labels, task="april", private=True)
    assert len(ledger.statement().spends) == 2


def test_rows_say_whose_examples_were_learned():
    """Rows of older ledgers say nothing; what no version has written is refused."""
    body: dict[str, object] = {
        "at": "2026-01-31",
        "task": "march",
        "event": stored_events.to_json(events.Gaussian(noise_multiplier=4.0)),
    }
    body |= {"private": True, "mark": None}
    assert ledger_rows.read("spend", json.dumps(body))["persons"] is Persons.ASSUMED
    for persons in Persons:
        assert ledger_rows.read("spend", json.dumps({**body, "persons": persons.value}))["persons"] is persons
    for wrong in ("everybody", 1, ["by ids"]):
        with pytest.raises(errors.LedgerError, match="not one that reticent wrote"):
            ledger_rows.read("spend", json.dumps({**body, "persons": wrong}))


def test_spends_of_near_names_are_found_without_a_look_at_the_others(tmp_path):
    """As by comparing with every name in the ledger, voided rows apart; also in a ledger that is opened again."""
    given = ["March 2026", "april", "march  2026", "MARCH 2026", "M\u00e4rz", "Ma\u0308rz", "may"]
    with Ledger.create(tmp_path, BUDGET) as ledger:
        for task in given:
            ledger.spend(events.Gaussian(noise_multiplier=8.0), task=task, private=True)
        ledger.void(4, reason="a test")
    with Ledger.open(tmp_path) as again:
        spends = [spend for spend in again.statement().spends if spend.voided is None]
        for task in [*given, "APRIL", "june"]:
            near = [spend for spend in spends if names.folded(spend.task) == names.folded(task)]
            assert again.spends_like(task) == again.account.copy().spends_like(task) == near
        assert [spend.row for spend in again.spends_like("march 2026")] == [2, 5]
        assert again.spends_like("june") == []
