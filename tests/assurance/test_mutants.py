"""The runner of `make mutants`: it kills what it should, spares what no test notices, and its results are kept."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.assurance import mutants
from tests.assurance.mutants import Store
from tests.assurance.mutation_sites import MODULE, Module, modules
from tests.assurance.mutation_trials import ROOT, Outcome, Reached
from tests.assurance.part import Part

MECHANISMS, PROFILES = "tests/gate/test_mechanisms.py", "tests/privacy/test_profiles.py"
PLANTED = {
    "gate/mechanisms.py | JointGaussian.__call__ | slots[i] > gate -> slots[i] >= gate": (
        f"{MECHANISMS}::test_joint_release_is_exact_at_its_threshold"
    ),
    "gate/mechanisms.py | GaussianSum.__call__ | self.event.noise_multiplier * grid.SCALE -> "
    "self.event.noise_multiplier / grid.SCALE": f"{MECHANISMS}::test_sums_are_released_with_the_noise_that_was_drawn",
    "privacy/profiles.py | _parted | chance += times * selection.GaussianLaw(leaf).exposures(m)[m] -> pass": (
        f"{PROFILES}::test_joint_releases_compose_to_gaussian_plus_exposures"
    ),
    f"gate/mechanisms.py | {MODULE} | STANDS_OUT = 2.0 -> STANDS_OUT = 1.0": (
        f"{MECHANISMS}::test_counts_must_exceed_the_threshold_on_the_grid"
    ),
}
UNNOTICED = (
    f"privacy/planning.py | {MODULE} | SURE = 0.999 -> SURE = 1.998",
    "privacy/stored_events.py | _event | levels - 1 -> levels - 2",  # reached by a test that needs a folder
)
OTHERS = "tests/gate/test_ledger.py::test_existing_ledger_is_not_overwritten"


def run(folder: Path, *only: str) -> str:
    command = [sys.executable, "-m", "tests.assurance.mutants", "--store", str(folder), "--workers", "1"]
    command += ["--tests", *PLANTED.values(), OTHERS, "--only", *only]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.posix
def test_planted_mutants_are_killed(tmp_path):
    """The threshold off by one step, the wrong noise, a forgotten exposure, a constant; and two that nobody notices."""
    said = run(tmp_path, *PLANTED, *UNNOTICED)
    assert all(f"survived: {mutant}" in said for mutant in UNNOTICED)
    assert "4 of 6 mutants are killed, 2 survive." in said
    kept = Store(tmp_path).outcomes(PLANTED.values())
    assert {outcome.test for (key, _), outcome in kept.items() if key in PLANTED} == set(PLANTED.values())


def test_every_mutant_differs_from_the_code():
    for module in modules(("gate",)).values():
        whole = module.code(None)
        assert all(module.code(mutant.number) != whole for mutant in module.mutants[::7])


SOURCE = '''"""Text."""
from typing import Protocol
SIZE = 3
__all__ = ["at_most"]

class Named(Protocol):
    def name(self) -> int:
        return 1

def at_most(x: "int", most: int = SIZE) -> bool:
    """Text."""
    if x < 0:
        raise ValueError("text" + str(1))
    return x <= most
'''


def test_texts_and_types_have_no_mutants():
    found = {mutant.text: mutant for mutant in Module("example.py", SOURCE).mutants}
    assert set(found) == {
        "SIZE = 3 -> SIZE = 4",
        "SIZE = 3 -> SIZE = 2",
        "x < 0 -> x <= 0",
        "x < 0 -> x >= 0",
        "x < 0 -> x < 1",
        "x < 0 -> x < -1",
        "raise ValueError('text' + str(1)) -> pass",
        "return x <= most -> return None",
        "x <= most -> x < most",
        "x <= most -> x > most",
    }
    assert {text for text, mutant in found.items() if mutant.imports} == {
        "SIZE = 3 -> SIZE = 4",
        "SIZE = 3 -> SIZE = 2",
    }


def test_layout_and_texts_do_not_make_results_stale():
    other = SOURCE.replace('"""Text."""', '"""Other."""').replace("    return x", "    # a comment\n    return x")
    assert Module("example.py", other).digest == Module("example.py", SOURCE).digest
    assert Module("example.py", SOURCE.replace("<=", "<")).digest != Module("example.py", SOURCE).digest


# --- the table


def measured(folder: Path, monkeypatch: pytest.MonkeyPatch, alive: int, equivalent: int, explained: int) -> Part:
    """The table of a file of forty mutants of which so many survive."""
    module = Module("example.py", "\n".join(f"def f{i}(x):\n    return x < 7" for i in range(8)))
    keys = [mutant.key for mutant in module.mutants]
    outcomes = {key: Outcome("survived" if i < alive else "killed") for i, key in enumerate(keys)}
    known = {key: i < equivalent for i, key in enumerate(keys[: equivalent + explained])}
    assert len(keys) == 40
    monkeypatch.setattr(mutants, "SUMMARY", folder / "mutants.json")
    monkeypatch.setattr(mutants, "modules", lambda _: {"example.py": module})
    mutants.SUMMARY.write_text(json.dumps(mutants.summary(outcomes, {"example.py": module}, known)))
    return mutants.measure()


@pytest.mark.parametrize(
    ("alive", "equivalent", "explained", "shares", "passed"),
    [
        (0, 0, 0, ("100.0 %", "100.0 %"), True),
        (3, 2, 1, ("92.5 %", "97.4 %"), True),  # below the share of all, above that of those that are not equivalent
        (3, 0, 3, ("92.5 %", "92.5 %"), False),  # an explanation alone does not count
        (2, 0, 2, ("95.0 %", "95.0 %"), False),  # above, not at
        (2, 1, 0, ("95.0 %", "97.4 %"), False),  # one is not explained
        (2, 2, 1, ("95.0 %", "100.0 %"), False),  # one is explained and does not survive
    ],
)
def test_the_table_shows_both_shares_and_compares_the_second(
    tmp_path, monkeypatch, alive, equivalent, explained, shares, passed
):
    part = measured(tmp_path, monkeypatch, alive, equivalent, explained)
    assert part.rows[-1][-3:-1] == shares
    assert part.header[-3:-1] == ("killed of all", "of not equivalent")
    assert part.passed == passed


def test_a_file_that_has_changed_since_is_said_so(tmp_path, monkeypatch):
    assert measured(tmp_path, monkeypatch, 0, 0, 0).passed
    monkeypatch.setattr(mutants, "modules", lambda _: {"example.py": Module("example.py", "def f(x): return x < 8")})
    part = mutants.measure()
    assert not part.passed
    assert part.rows[0][-1] == "the file has changed since"


def test_mutants_that_were_not_tried_count_as_survivors(tmp_path, monkeypatch):
    assert measured(tmp_path, monkeypatch, 0, 0, 0).passed
    stored = json.loads(mutants.SUMMARY.read_text())
    stored["files"]["example.py"] |= {"tried": 37, "killed": 37}  # of forty
    mutants.SUMMARY.write_text(json.dumps(stored))
    assert not mutants.measure().passed


def test_without_a_store_the_table_tells_what_was_tried(tmp_path):
    module = Module("example.py", "def f(x):\n    return x < 7")
    first, second, *others = (mutant.key for mutant in module.mutants)
    found = {key: Outcome("killed") for key in others} | {first: Outcome("new"), second: Outcome("survived")}
    content = mutants.summary(found, {"example.py": module}, {second: True})
    for folder, source, count in (("same", module, 4), ("other", Module("example.py", "def f(x): return x < 8"), 0)):
        store = Store(tmp_path / folder)
        store.begin({"example.py": source}, content, {second: True})
        kept = {key: outcome.status for (key, _), outcome in store.outcomes([]).items()}
        assert len(kept) == count
        assert kept == {key: outcome.status for key, outcome in found.items() if key in kept and key != first}
    kept_before = Store(tmp_path / "kept")
    kept_before.add(module.mutants[0], Outcome("killed"))
    kept_before.begin({"example.py": module}, content, {second: True})
    assert len(kept_before.outcomes([])) == 1


def test_a_survivor_that_is_not_explained_is_tried_again_without_a_store():
    module = Module("example.py", "def f(x):\n    return x < 7")
    found = {mutant.key: Outcome("survived") for mutant in module.mutants}
    content = mutants.summary(found, {"example.py": module}, {module.mutants[0].key: False})
    assert content["files"]["example.py"]["left"] == [mutant.key for mutant in module.mutants[1:]]


def test_every_explanation_has_a_reason_and_a_verdict():
    entries = tomllib.loads(mutants.EXPLAINED.read_text(encoding="utf-8"))["survivor"]
    for entry in entries:
        assert sorted(entry) == ["equivalent", "file", "function", "mutations", "reason"]
        assert isinstance(entry["equivalent"], bool)
        assert entry["reason"].endswith(".")
    assert len(mutants.explained()) == sum(len(entry["mutations"]) for entry in entries)  # none twice


def test_changed_tests_are_measured_again(tmp_path, monkeypatch):
    """Also roughly: a new test in a file that was measured before would never be tried."""
    asked = []

    def reached(_: object, tests: list[str]) -> dict[str, Reached]:
        asked.append(tests)
        return {}

    monkeypatch.setattr(mutants, "reached", reached)
    monkeypatch.setattr(mutants, "digest_of", lambda path: path.name)
    store = Store(tmp_path)
    for roughly in (True, False):
        store.reached({}, ["one.py", "two.py"], roughly=roughly)
    assert asked == [["one.py", "two.py"]]
    monkeypatch.setattr(
        mutants, "digest_of", lambda path: f"another {path.name}" if path.name == "one.py" else path.name
    )
    store.reached({}, ["one.py", "two.py"], roughly=True)
    assert asked[1:] == [["one.py"]]
