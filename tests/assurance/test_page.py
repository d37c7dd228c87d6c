import dataclasses
import json

from tests.assurance.__main__ import page
from tests.assurance.part import Part
from tests.assurance.scale import measure


def stored(part: Part) -> dict[str, object]:
    parts = json.loads(json.dumps([dataclasses.asdict(part)]))
    return {"source": "", "commit": "abc", "minutes": 1.0, "parts": parts}


def test_the_page_says_what_did_not_hold():
    part = Part(title="Kills", says="All | of them.", header=("a", "b"), rows=(("x|y", "2"),), passed=True)
    text, held = page({"kills": stored(part)})
    assert held
    assert "| Kills | held | 1.0 | abc |" in text
    assert "| x\\|y | 2 |" in text
    text, held = page({"kills": stored(dataclasses.replace(part, passed=False))})
    assert not held
    assert "| Kills | **did not hold** | 1.0 | abc |" in text
    text, held = page({"kills": {"source": "", "commit": "abc", "minutes": 2.0, "parts": None}})
    assert not held
    assert "| kills | **did not finish** | 2.0 | abc |" in text


def test_many_tasks_are_measured():
    part = measure(tasks=12)
    assert part.rows[0] == ("tasks in the folder", "10", "12")
    assert [row[0] for row in part.rows][1:3] == ["load and first prediction, s", "memory of both at most, MB"]
