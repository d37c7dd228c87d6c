import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import reticent
from reticent import errors
from reticent.privacy import events, selection

EVENT = '''

@dataclass(frozen=True, kw_only=True)
class MadeUp(LabelSelection):
    """A mechanism of this test."""

'''
STORED = "\n_KINDS += (events.MadeUp,)\n"
LAW = '''
from reticent.privacy.selection.optimal import OptimalLaw


class MadeUpLaw(OptimalLaw):
    """The law of the event."""
'''
ROW = """
from reticent.privacy.selection.made_up import MadeUpLaw
TABLE += (Row("made-up", events.MadeUp, MadeUpLaw),)
"""
SCRIPT = """
import json, sys
from reticent import Budget, ReleasedLabels, cli
from reticent import stored_policies as stored
from reticent.privacy import accounting, events, selection, stored_events

event, policy = events.MadeUp(epsilon=1.0, delta=1e-5), ReleasedLabels(selection=events.MadeUp)
print(json.dumps({
    "law": type(selection.law(event)).__name__,
    "cost": accounting.delta(event, 1.0),
    "spent": type(policy.selection_and_sums(Budget(epsilon=1.0, delta=1e-5))[0]).__name__,
    "event": stored_events.from_json(stored_events.to_json(event)) == event,
    "policy": stored.from_json(stored.to_json(policy, Budget(epsilon=1.0, delta=1e-5)), (), {}) == policy,
}))
sys.argv = ["reticent", "plan", "--epsilon", "1", "--delta", "1e-5", "--mechanism", "made-up", "--json"]
cli.main()
"""


def test_unknown_selection_is_refused():
    with pytest.raises(errors.UnsupportedEvent, match="No selection law knows Gaussian"):
        selection.law(events.Gaussian(noise_multiplier=1.0))  # type: ignore[call-overload]


def test_a_new_mechanism_is_an_event_a_law_and_a_row(tmp_path):
    """Adds one to a copy of the sources, in four files; accounting, policies and the command line know it."""
    source = Path(reticent.__file__).parent
    copy = shutil.copytree(source, tmp_path / "reticent", ignore=shutil.ignore_patterns("__pycache__"))
    for name, lines in (
        ("events", EVENT),
        ("stored_events", STORED),
        ("selection/made_up", LAW),
        ("selection/mechanism_table", ROW),
    ):
        with (copy / "privacy" / f"{name}.py").open("a", encoding="utf-8") as file:
            file.write(lines)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found, plan = done.stdout.split("\n", 1)
    assert json.loads(found) == {"law": "MadeUpLaw", "cost": 1e-5, "spent": "MadeUp", "event": True, "policy": True}
    assert json.loads(plan)["mechanism"] == "made-up"
    assert json.loads(plan)["epsilon_labels"] == pytest.approx(0.1)
