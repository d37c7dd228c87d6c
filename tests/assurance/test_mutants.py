"""The runner of `make mutants`: it kills what it should, spares what no test notices, and its results are kept."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.assurance.mutants import Store
from tests.assurance.mutation_sites import MODULE, Module, modules
from tests.assurance.mutation_trials import ROOT

MECHANISMS, PROFILES = "tests/gate/test_mechanisms.py", "tests/privacy/test_profiles.py"
PLANTED = {
    "gate/mechanisms.py | JointGaussian.__call__ | slots[i] > gate -> slots[i] >= gate": (
        f"{MECHANISMS}::test_joint_release_is_exact_at_its_threshold"
    ),
    "gate/mechanisms.py | GaussianSum.__call__ | self.event.noise_multiplier * grid.SCALE -> "
    "self.event.noise_multiplier / grid.SCALE": f"{MECHANISMS}::test_sums_are_released_with_the_noise_that_was_drawn",
    "privacy/profiles.py | _composed | chance += times * selection.GaussianLaw(leaf).exposures(m)[m] -> pass": (
        f"{PROFILES}::test_joint_releases_compose_to_gaussian_plus_exposures"
    ),
    f"gate/mechanisms.py | {MODULE} | STANDS_OUT = 2.0 -> STANDS_OUT = 1.0": (
        f"{MECHANISMS}::test_counts_must_exceed_the_threshold_on_the_grid"
    ),
}
UNNOTICED = (
    f"privacy/planning.py | {MODULE} | SURE = 0.999 -> SURE = 1.998",
    "privacy/events.py | _event | levels - 1 -> levels - 2",  # reached by a test that needs a folder
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
