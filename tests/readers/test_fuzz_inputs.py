"""A part of what `tests/assurance/fuzz_inputs.py` tries at full size."""

import mmap
import secrets
import time
import warnings
from pathlib import Path

import pytest

from reticent import errors
from reticent.readers import Examples
from tests.assurance import fuzz_inputs
from tests.assurance.mutate import Guard, Tally

pytestmark = pytest.mark.posix


def test_mutated_input_files_are_read_or_refused():
    found = fuzz_inputs.tallies(500, seed=secrets.randbits(64))
    assert sum(tally.cases for tally in found.values()) >= 480
    assert {title: tally.faults for title, tally in found.items() if tally.faults} == {}
    assert all(tally.read == tally.cases for title, tally in found.items() if "rows" in title)
    assert sum(tally.read for tally in found.values()) > 100  # about 280, and 220 are refused
    assert sum(tally.refused for tally in found.values()) > 50


def test_the_guard_sees_each_fault(tmp_path):
    """Each twin breaks one promise; a guard that is silent about one of them proves nothing."""
    guard, outside = Guard(tmp_path / "inside", seconds=0.3, megabytes=30), tmp_path / "outside"

    def refuse(text: str) -> None:
        raise errors.InvalidValue(text)

    def slow() -> None:
        start = time.process_time()
        while time.process_time() - start < 0.4:
            pass

    def new_pages() -> mmap.mmap:  # of the system: malloc may give back what earlier tests have freed
        pages = mmap.mmap(-1, 60_000_000)
        for start in range(0, len(pages), mmap.PAGESIZE):
            pages[start] = 1
        return pages

    twins = {
        "ZeroDivisionError": lambda: 1 / 0,
        "a refusal that is no sentence": lambda: refuse("Traceback:\n  x"),
        "a wrong result: lengths differ": lambda: fuzz_inputs._consistent(Examples([1], [], None)),
        "open outside": lambda: outside.write_text("x"),
        "more than 30 MB": new_pages,
        "more than 0.3 s": slow,
        "a warning: UserWarning": lambda: warnings.warn("a row", stacklevel=1),
    }
    for fault, twin in twins.items():
        tally = Tally()
        guard.run(twin, tally)
        assert list(tally.faults) == [fault]
    tally = Tally()
    guard.run(lambda: refuse("One sentence."), tally, must_pass=True)
    assert list(tally.faults) == ["a refusal by rows"]
    tally = Tally()
    guard.run(lambda: refuse("One sentence."), tally)
    guard.run(lambda: Path(outside).read_text(), tally)
    assert (tally.read, tally.refused, tally.faults.total()) == (1, 1, 0)
