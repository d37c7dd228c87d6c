import contextlib
import dataclasses
import json
import multiprocessing
import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent import Adjacency, Budget, errors
from reticent.gate.ledger import Ledger
from reticent.privacy import accounting, events
from reticent.privacy.rounding import rounded_up
from reticent.released.ledger_file import FILE_NAME, SCHEMA, LedgerFile

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def gaussian(sigma: float = 4.0) -> events.Gaussian:
    return events.Gaussian(noise_multiplier=sigma)


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


@pytest.fixture
def folder(tmp_path):
    with Ledger.create(tmp_path / "model", BUDGET) as ledger:
        ledger.spend(gaussian(), task="march", private=True)
    return tmp_path / "model"


# --- what was spent


def test_rows_survive_closing(folder):
    with Ledger.open(folder) as ledger:
        assert ledger.budget == BUDGET
        (spend,) = ledger.statement().spends
        assert (spend.row, spend.task, spend.event, spend.private) == (2, "march", gaussian(), True)
        assert ledger.spend(gaussian(), task="april", private=True) == 3


def test_tasks_compose_in_parallel():
    ledger = Ledger.create(None, BUDGET)
    for month in range(24):
        ledger.spend(gaussian(3.74), task=f"month {month}", private=True)
    assert ledger.statement().now.epsilon == accounting.epsilon(gaussian(3.74), 1e-5)


def test_spends_within_a_task_compose_sequentially():
    ledger = Ledger.create(None, BUDGET)
    for _ in range(4):
        ledger.spend(gaussian(7.5), task="march", private=True)
    assert ledger.statement().now.epsilon == pytest.approx(accounting.epsilon(gaussian(3.75), 1e-5), rel=1e-9)
    with pytest.raises(errors.BudgetExceeded):
        ledger.spend(gaussian(7.5), task="march", private=True)


def test_order_n_counts_the_worst_tasks():
    budget = Budget(epsilon=1.0, delta=1e-5, tasks_per_person=2)
    ledger = Ledger.create(None, budget)
    # fixed from (budget, n): a task that alone would leave nothing for a second one is refused at once
    with pytest.raises(errors.BudgetExceeded):
        ledger.spend(gaussian(3.74), task="march", private=True)
    per_task = accounting.gaussian_sigma(budget)
    for month in range(6):
        ledger.spend(gaussian(per_task), task=f"month {month}", private=True)
    assert ledger.statement().now.epsilon == pytest.approx(1.0, rel=1e-9)


def test_replace_one_budgets_are_checked_under_replace_one():
    ledger = Ledger.create(None, Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE))
    with pytest.raises(errors.BudgetExceeded):
        ledger.spend(gaussian(4.0), task="march", private=True)
    assert ledger.spend(gaussian(7.5), task="march", private=True) == 2


def test_refuses_before_overspending(folder):
    before = contents(folder)
    with Ledger.open(folder) as ledger:
        rows = len(ledger.statement().spends)
        with pytest.raises(errors.BudgetExceeded, match="nothing was spent"):
            ledger.spend(gaussian(1.0), task="april", private=True)
        with pytest.raises(errors.BudgetExceeded):
            ledger.spend(events.NonPrivate(), task="april", private=True)
        assert len(ledger.statement().spends) == rows
    assert contents(folder) == before
    with Ledger.open(folder) as ledger:  # still usable
        ledger.spend(gaussian(), task="april", private=True)


@pytest.mark.parametrize("task", ["", "  ", None, 7])
def test_task_needs_a_name(task):
    with pytest.raises(errors.InvalidValue, match="public name"):
        Ledger.create(None, BUDGET).spend(gaussian(), task=task, private=True)


# --- voiding, publishing, public acts


def test_void_is_recorded_and_frees_the_spend(folder):
    with Ledger.open(folder) as ledger:
        with pytest.raises(errors.BudgetExceeded):
            ledger.spend(gaussian(), task="march", private=True)
        ledger.void(2, reason="power cut before the draw")
        assert ledger.spend(gaussian(), task="march", private=True) == 4
        first, second = ledger.statement().spends
        assert (first.voided, second.voided) == ("power cut before the draw", None)
        assert "power cut" in ledger.statement().text()


def test_what_was_published_cannot_be_voided(folder):
    with Ledger.open(folder) as ledger:
        ledger.publish(2)
        with pytest.raises(errors.LedgerError, match="published"):
            ledger.void(2, reason="oops")
        assert ledger.statement().spends[0].published


def test_what_was_voided_cannot_be_published(folder):
    with Ledger.open(folder) as ledger:
        ledger.void(2, reason="crash")
        with pytest.raises(errors.LedgerError, match="must not be published"):
            ledger.publish(2)


def test_statement_counts_several_spends_of_a_task():
    ledger = Ledger.create(None, Budget(epsilon=4.0, delta=1e-5))
    for month in range(4):
        for sigma in (4.0 + month, 5.0):
            ledger.spend(gaussian(sigma), task=f"month {month}", private=True)
    worst = accounting.repeat(events.compose(gaussian(4.0), gaussian(5.0)), 12)
    assert ledger.statement().if_in(12) == pytest.approx(accounting.epsilon(worst, 1e-5), rel=1e-9)


@pytest.mark.posix
def test_kill_while_creating(tmp_path):
    """Nothing half-made stays in the way: the folder can be created again."""
    killed = run(
        """
        import os, signal, sys
        from reticent import Budget
        from reticent.gate.ledger import Ledger
        Ledger._lay_out = lambda self, budget, settings: os.kill(os.getpid(), signal.SIGKILL)
        Ledger.create(sys.argv[1], Budget(epsilon=1.0, delta=1e-5))
        """,
        str(tmp_path / "model"),
    )
    assert killed.returncode == -signal.SIGKILL
    with Ledger.create(tmp_path / "model", BUDGET) as ledger:
        assert ledger.spend(gaussian(), task="march", private=True) == 2


def test_other_threads_may_spend(folder):
    with Ledger.open(folder) as ledger:
        workers = [
            threading.Thread(target=ledger.spend, args=(gaussian(),), kwargs={"task": f"{i}", "private": True})
            for i in range(5)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert len(ledger.statement().spends) == 6


def test_numpy_numbers_are_stored_plainly(tmp_path):
    settings: dict[str, Any] = {"epsilon": np.float32(1.0), "delta": np.float64(1e-5), "tasks_per_person": np.int64(2)}
    budget = Budget(**settings)
    with Ledger.create(tmp_path, budget) as ledger:
        ledger.spend(events.Gaussian(noise_multiplier=float(np.float32(8.0))), task="march", private=True)
        assert ledger.budget == budget


@pytest.mark.parametrize(("row", "reason", "sentence"), [(1, "x", "not a spend"), (9, "x", "not a spend")])
def test_only_spends_can_be_voided(folder, row, reason, sentence):
    with Ledger.open(folder) as ledger:
        with pytest.raises(errors.LedgerError, match=sentence):
            ledger.void(row, reason=reason)
        with pytest.raises(errors.InvalidValue, match="reason"):
            ledger.void(2, reason=" ")
        ledger.void(2, reason="never drawn")
        with pytest.raises(errors.LedgerError, match="already"):
            ledger.void(2, reason="again")


def test_public_acts_are_recorded_and_free():
    ledger = Ledger.create(None, BUDGET)
    ledger.record("label E12 added by hand")
    statement = ledger.statement()
    assert statement.now.epsilon == 0
    assert "label E12 added by hand" in statement.text()
    assert statement.json()["acts"][0]["act"] == "label E12 added by hand"


# --- the statement


def test_statement_prints_assumptions():
    budget = Budget(epsilon=2.0, delta=1e-6, tasks_per_person=3, examples_per_person=4)
    ledger = Ledger.create(None, budget)
    event = events.Gaussian(noise_multiplier=80.0, examples_per_person=4)
    ledger.spend(event, task="march", private=True)
    text, facts = ledger.statement().text(), ledger.statement().json()
    assert "more than 3 tasks: what was learned" in text
    assert "at most 4 rows to a task" in text
    condition = "no person is in more than 3 tasks, and nobody has more than 4 rows in a task; this is not checked."
    assert f"Valid only if {condition}" in " ".join(text.split())
    assert "epsilon 2, delta 1e-06, add-or-remove-one" in text
    assert "replace-one" in text
    assert [*facts["totals"]["epsilon_by_tasks_per_person"]] == ["1", "3", "12"]
    by_order = facts["totals"]["epsilon_by_tasks_per_person"]
    assert by_order["1"] < by_order["3"] < by_order["12"]
    assert by_order["12"] == float(rounded_up(accounting.epsilon(accounting.repeat(event, 12), 1e-6)))
    assert facts["assumptions"] == ledger.statement().assumptions()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["totals"]["at_most"] == {"epsilon": 2.0, "delta": 1e-6}


def test_statement_marks_seeded_noise():
    ledger = Ledger.create(None, BUDGET)
    ledger.spend(gaussian(), task="march", private=True)
    assert "NOT PRIVATE" not in ledger.statement().text()
    ledger.spend(gaussian(), task="april", private=False)
    assert "NOT PRIVATE" in ledger.statement().text()
    assert ledger.statement().json()["private"] is False


# --- append-only


@pytest.mark.parametrize("attempt", ["UPDATE entries SET body = '{}' WHERE row = 2", "DELETE FROM entries"])
def test_rows_cannot_be_changed(folder, attempt):
    with (
        contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as db,
        db,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        db.execute(attempt)


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE entries SET body = replace(body, '4.0', '9.0') WHERE row = 2",
        "UPDATE entries SET kind = 'act' WHERE row = 2",
        "DELETE FROM entries WHERE row = 1",
        "UPDATE entries SET row = 7 WHERE row = 2",
    ],
)
def test_edited_row_is_noticed(folder, edit):
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as db, db:
        db.execute("DROP TRIGGER no_update")
        db.execute("DROP TRIGGER no_delete")
        db.execute(edit)
        for trigger in SCHEMA[1:]:
            db.execute(trigger)
    db.close()
    with pytest.raises(errors.LedgerError, match="edited or damaged"):
        Ledger.open(folder)


# --- crashes and other processes


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.posix
def test_kill_after_spend(folder):
    """The process dies by SIGKILL right after the spend and before any draw: the row is there."""
    killed = run(
        """
        import os, signal, sys
        from reticent.privacy import events
        from reticent.gate.ledger import Ledger
        ledger = Ledger.open(sys.argv[1])
        ledger.spend(events.Gaussian(noise_multiplier=4.0), task="april", private=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        str(folder),
    )
    assert killed.returncode == -signal.SIGKILL
    with Ledger.open(folder) as ledger:
        assert [spend.task for spend in ledger.statement().spends] == ["march", "april"]
        with pytest.raises(errors.BudgetExceeded):  # a crashed spend stays spent
            ledger.spend(gaussian(), task="april", private=True)


def _spend_many(folder: Path, worker: int) -> int:
    done = 0
    with Ledger.open(folder) as ledger:
        for i in range(12):
            try:
                ledger.spend(gaussian(12.0), task="shared" if i % 2 else f"{worker}.{i}", private=True)
                done += 1
            except errors.BudgetExceeded:
                pass
    return done


def test_concurrent_spends(folder):
    """Four processes at once: no row is lost, and the shared task never exceeds the budget."""
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        done = pool.starmap(_spend_many, [(folder, worker) for worker in range(4)])
    with Ledger.open(folder) as ledger:
        statement = ledger.statement()
        assert len(statement.spends) == 1 + sum(done)
        shared = statement.tasks["shared"]
        assert accounting.within(shared, BUDGET)
        # 10 spends of sigma 12 fit (12 / sqrt(10) = 3.79), the eleventh does not
        assert sum(s.task == "shared" for s in statement.spends) == 10


def test_another_process_is_seen(folder):
    with Ledger.open(folder) as mine, Ledger.open(folder) as theirs:
        theirs.spend(gaussian(), task="april", private=True)
        assert [s.task for s in mine.statement().spends] == ["march", "april"]
        with pytest.raises(errors.BudgetExceeded):
            mine.spend(gaussian(), task="april", private=True)


# --- bad files


def test_missing_ledger(tmp_path):
    with pytest.raises(errors.LedgerError, match="No ledger at"):
        Ledger.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_existing_ledger_is_not_overwritten(folder):
    before = contents(folder)
    with pytest.raises(errors.LedgerError, match="exists already"):
        Ledger.create(folder, BUDGET)
    assert contents(folder) == before


@pytest.mark.parametrize("damage", [b"not a database at all" * 100, b"", b"SQLite format 3\x00" + b"\x00" * 200])
def test_corrupt_file(folder, damage):
    (folder / FILE_NAME).write_bytes(damage)
    before = contents(folder)
    with pytest.raises(errors.LedgerError, match=r"damaged|not a reticent ledger"):
        LedgerFile.open(folder)
    assert contents(folder) == before


def test_truncated_file(folder):
    file = folder / FILE_NAME
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(errors.LedgerError, match="Restore it from a backup"):
        Ledger.open(folder)


def test_newer_version(folder):
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as db, db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(errors.LedgerError, match="newer version"):
        Ledger.open(folder)


def test_a_ledger_of_the_first_format_is_refused(folder):
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as db, db:
        db.execute("PRAGMA user_version = 1")
    db.close()
    for kind in (LedgerFile, Ledger):
        with pytest.raises(errors.LedgerError, match=r"written by reticent 0\.1\.0 or before, .* Use that version"):
            kind.open(folder)


def test_foreign_database(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as db, db:
        db.execute("CREATE TABLE other (x)")
    db.close()
    with pytest.raises(errors.LedgerError, match="not a reticent ledger"):
        Ledger.open(tmp_path)


def test_reading_changes_nothing_in_the_folder(folder):
    before = contents(folder)
    with LedgerFile.open(folder) as ledger:
        assert len(ledger.statement().spends) == 1
        assert not hasattr(ledger, "spend")
    assert contents(folder) == before


@pytest.mark.posix
@pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="needs root to become another user")
def test_unwritable_folder(tmp_path):
    """The operating system refuses: as user nobody, in a folder of root."""
    for part in [tmp_path, *tmp_path.parents]:
        if part.owner() == "root" and part != Path("/"):
            part.chmod(part.stat().st_mode | 0o055)
    Ledger.create(tmp_path / "model", BUDGET).close()
    (tmp_path / "model").chmod(0o555)
    (tmp_path / "model" / FILE_NAME).chmod(0o444)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        outcomes = []
        for attempt in (
            lambda: Ledger.open(tmp_path / "model").spend(gaussian(), task="april", private=True),
            lambda: Ledger.create(tmp_path / "model" / "sub", BUDGET),
        ):
            try:
                attempt()
            except errors.LedgerError as refusal:
                outcomes.append(str(refusal).count("\n") == 0)
            except BaseException:
                outcomes.append(False)
            else:
                outcomes.append(False)
        os._exit(0 if outcomes == [True, True] else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_locked_ledger_is_refused(folder, monkeypatch):
    with Ledger.open(folder) as ledger:
        ledger._db.execute("PRAGMA busy_timeout = 50")
        other = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(errors.LedgerError, match="locked by another process"):
            ledger.spend(gaussian(), task="april", private=True)
        other.execute("ROLLBACK")
        other.close()
        assert ledger.spend(gaussian(), task="april", private=True) == 3


def test_the_ledger_tells_no_durations(tmp_path):
    """One long record makes a task last longer; what may be published has the day of a spend and nothing finer."""
    with Ledger.create(tmp_path, BUDGET) as ledger:
        ledger.publish(ledger.spend(gaussian(), task="march", private=True))
        ledger.record("an act")
        ledger.void(ledger.spend(gaussian(), task="april", private=True), reason="crashed")
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as db:
        rows = [(kind, json.loads(body)) for kind, body in db.execute("SELECT kind, body FROM entries")]
    assert len(rows) == 6
    assert [kind for kind, body in rows if "at" not in body] == ["publish"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", body.get("at", "2026-01-01")) for _, body in rows)


def test_the_statement_names_ledger_and_head(tmp_path):
    with Ledger.create(tmp_path, BUDGET) as ledger:
        before = ledger.statement()
        ledger.spend(gaussian(), task="march", private=True)
        after = ledger.statement()
        (head,) = ledger._db.execute("SELECT chain FROM entries ORDER BY row DESC LIMIT 1").fetchone()
    assert before.identity == after.identity
    assert before.head != after.head == head
    assert f"Ledger      {after.identity}" in after.text()
    assert f"Head        {head}" in after.text()
    assert after.json()["ledger"] == {"identity": after.identity, "head": head}


# --- epochs of memory

EPOCH = accounting.remembered(BUDGET, epoch=2, horizon=3)


def test_an_epoch_has_one_event(tmp_path):
    with Ledger.create(tmp_path / "model", BUDGET) as ledger:
        ledger.spend(EPOCH, task="march", private=True)
        ledger.spend(EPOCH, task="april", private=True)
        for other in ({"noise_multiplier": 9.0}, {"epoch": 1}, {"eighths": 1}, {"horizon": 12}):
            with pytest.raises(errors.LedgerError, match="is over, or its rows have other noise; nothing was"):
                ledger.spend(dataclasses.replace(EPOCH, **other), task="may", private=True)
        ledger.spend(dataclasses.replace(EPOCH, epoch=3), task="may", private=True)
        with pytest.raises(errors.LedgerError, match="Epoch 2 is over"):
            ledger.spend(EPOCH, task="june", private=True)
    with Ledger.open(tmp_path / "model") as ledger:
        assert [spend.event for spend in ledger.statement().spends[:2]] == [EPOCH, EPOCH]
        with pytest.raises(errors.LedgerError, match="Epoch 2 is over"):
            ledger.spend(EPOCH, task="june", private=True)


def test_an_epoch_has_no_more_rows_than_places():
    ledger = Ledger.create(None, BUDGET)
    rows = [ledger.spend(EPOCH, task=f"month {t}", private=True) for t in range(3)]
    with pytest.raises(errors.LedgerError, match="All 3 places of epoch 2 are used; nothing was spent"):
        ledger.spend(EPOCH, task="one more", private=True)
    ledger.void(rows[1], reason="the disk was full")
    ledger.spend(EPOCH, task="one more", private=True)
    assert ledger.statement().epsilon <= BUDGET.epsilon


def test_a_task_has_one_row_of_an_epoch():
    """The same persons twice would move the same noise twice: the budget of one epoch does not allow it."""
    ledger = Ledger.create(None, BUDGET)
    ledger.spend(EPOCH, task="march", private=True)
    with pytest.raises(errors.BudgetExceeded):
        ledger.spend(EPOCH, task="march", private=True)
