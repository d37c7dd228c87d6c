"""The privacy statement, row by row and key by key."""

import json
import math

from reticent import Adjacency, Budget
from reticent.privacy import accounting, events, stored_events
from reticent.privacy.statement import Act, Spend, Statement

BUDGET = Budget(epsilon=2.0, delta=1e-5, tasks_per_person=2)
GAUSSIAN = events.Gaussian(noise_multiplier=8.0)
LABELS = events.OptimalSelection(epsilon=0.5, delta=1e-6)


def spend(row: int, task: str, event: events.Event = GAUSSIAN, **others) -> Spend:
    return Spend(row=row, at="2026-01-02", task=task, event=event, **{"private": True, **others})


def statement(**others) -> Statement:
    spends = [spend(2, "march", published=True), spend(3, "april", LABELS), spend(4, "may", voided="a slip")]
    acts = [Act(row=5, at="2026-01-03", text="tuning not covered: by hand"), Act(row=6, at="2026-01-04", text="one")]
    return Statement(**{"budget": BUDGET, "spends": spends, "acts": acts, "identity": "i", "head": "h", **others})


def test_json_has_every_fact():
    found = statement().json()
    both = accounting.stream_cost([GAUSSIAN, LABELS], 1e-5, 2)
    assert found["format"]
    assert found["version"]
    assert found["private"] is True
    assert found["software"].startswith("reticent ")
    assert found["name"] is None
    assert found["not_covered"] == ["tuning not covered: by hand"]
    assert found["ledger"] == {"identity": "i", "head": "h"}
    assert found["budget"] == BUDGET.to_json()
    assert found["acts"] == [
        {"row": 5, "at": "2026-01-03", "act": "tuning not covered: by hand"},
        {"row": 6, "at": "2026-01-04", "act": "one"},
    ]
    alone = accounting.epsilon(GAUSSIAN, 1e-5)
    assert found["rows"][0] == {
        "row": 2,
        "at": "2026-01-02",
        "task": "march",
        "event": stored_events.to_json(GAUSSIAN),
        "epsilon": math.ceil(alone * 1e4) / 1e4,
        "private": True,
        "persons": "each row, as assumed",
        "published": True,
        "voided": None,
    }
    assert [(row["published"], row["voided"]) for row in found["rows"]] == [
        (True, None),
        (False, None),
        (False, "a slip"),
    ]
    totals = found["totals"]
    assert set(totals) == {
        "now",
        "if",
        "at_most",
        "epsilon_by_tasks_per_person",
        "bound_by_tasks_per_person",
    }
    assert totals["if"] == "no person is in more than 2 tasks, and each row is another person; this is not checked"
    assert totals["now"] == {
        "epsilon": math.ceil(both.epsilon * 1e4) / 1e4,
        "delta": 1e-5,
        "add_or_remove_one": math.ceil(both.epsilon * 1e4) / 1e4,
        "replace_one": math.ceil(both.replace_one * 1e4) / 1e4,
        "replace_one_bound": "upper bound",
    }
    assert totals["at_most"] == {"epsilon": 2.0, "delta": 1e-5}
    assert list(totals["epsilon_by_tasks_per_person"]) == ["1", "3", "12"]
    assert list(totals["bound_by_tasks_per_person"]) == ["1", "3", "12"]
    assert len(found["assumptions"]) == 9
    assert found["sentences"] == statement().sentences()
    json.dumps(found, allow_nan=False)


def test_text_has_every_row_with_its_marks():
    lines = statement(name="hospital").text().splitlines()
    assert lines[0] == "Privacy statement"
    assert lines[1:3] == ["", "NOT COVERED: tuning not covered: by hand"]
    assert lines[3:5] == ["", "Model       hospital"]
    assert lines[5].startswith("Written by  reticent ")
    assert lines[6:10] == [
        "Ledger      i",
        "Head        h",
        "Private     Real noise was used. The assumptions below must still be true.",
        "Tuning      tuning not covered: by hand",
    ]
    at = lines.index("Spends")
    assert lines[at - 1] == ""
    assert lines[lines.index("Assumptions") - 1] == ""
    assert lines[at + 1].startswith("     2  2026-01-02  march: sums, noise 8.0000, epsilon ")
    rows = " ".join(" ".join(lines[at + 1 :]).split())
    assert rows.count(" alone [persons: each row, as assumed") == 3
    assert (
        " alone [persons: each row, as assumed; published] 3 2026-01-02 april: labels (optimal), epsilon 0.5," in rows
    )
    assert " alone [persons: each row, as assumed; voided: a slip] Also recorded" in rows
    assert lines[-4:] == [
        "",
        "Also recorded",
        "     5  2026-01-03  tuning not covered: by hand",
        "     6  2026-01-04  one",
    ]
    plain = statement(acts=(), head=None, identity=None, spends=()).text()
    assert plain.endswith("\n\nSpends: none yet")
    assert "Ledger" not in plain
    assert "NOT COVERED" not in plain
    assert "Model" not in plain
    assert "Private     nothing was drawn yet\nTuning      none is recorded\n" in plain


def test_rows_without_privacy_are_marked():
    found = statement(spends=[spend(2, "march", private=False, published=True)])
    lines = found.text().splitlines()
    assert lines[1] == ""
    assert " ".join(lines[2:4]).endswith("Do not publish these releases.")
    assert "alone [NOT PRIVATE; persons: each row, as assumed; published]" in " ".join(found.text().split())
    assert "Private     NO\n" in found.text()
    assert found.json()["private"] is False
    tight = statement(spends=[spend(2, "march")])
    assert tight.json()["totals"]["now"]["replace_one_bound"] == "tight"
    assert "(tight) for replace-one" in " ".join(tight.text().split())
    replaced = statement(budget=Budget(epsilon=2.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE))
    assert "for add-or-remove-one" in " ".join(replaced.text().split())


def test_prices_are_of_one_spend_by_itself():
    found = statement()
    assert found.price(found.spends[0]) == accounting.epsilon(GAUSSIAN, 1e-5)
    assert found.price(found.spends[1]) == accounting.epsilon(LABELS, 1e-5)


def test_exposures_beyond_delta_are_said():
    """A person in more tasks than the budget says: the chances of exposure add up beyond delta."""
    event = events.compose(GAUSSIAN, events.Exposure(chance=0.9e-5))
    found = Statement(budget=Budget(epsilon=2.0, delta=1e-5), spends=[spend(2, "march", event)])
    assert "  In 1 such task: epsilon 0." in found.text()
    wider = found.if_in(3, delta=2 * 3 * 1e-5)
    shown = f"{math.ceil(wider * 1e4) / 1e4:.4f} at delta 6e-05"
    assert f"  In 3 such tasks: epsilon {shown}; no bound at 1e-05\n" in found.text()
    for chance, delta, finite in ((0.16, 0.2, True), (0.3, 0.4, False), (0.3, 0.5, False)):
        event = events.compose(GAUSSIAN, events.Exposure(chance=chance))
        found = Statement(budget=Budget(epsilon=2.0, delta=delta), spends=[spend(2, "march", event)])
        assert math.isfinite(found.bound_if_in(3)[0]) == finite
        assert found.bound_if_in(3)[1] == 0.5
        assert ("  In 3 such tasks: no bound\n" in found.text()) != finite
