"""The fast tier of the tests: all but those named in medium.txt, and those that use a fixture named there.

A list, not decorators: it is measured, it follows tests that move to another file, and names of tests are unique.
As a plugin (`pytest -p tests.tiers`, or `make tiers`) this module measures all tests and writes the list anew.
"""

import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

MEDIUM = Path(__file__).with_name("medium.txt")
CASE, ALL_CASES = 0.2, 1.0  # wall-clock seconds that a test of the fast tier may take, in one case and in all of them

_tests: dict[str, list[float]] = defaultdict(list)
_fixtures: dict[str, float] = defaultdict(float)


def mark(items: list[pytest.Item]) -> None:
    """Marks what is not in the fast tier."""
    medium = set(MEDIUM.read_text(encoding="utf-8").splitlines())
    for item in items:
        fixtures = {f"fixture {name}" for name in getattr(item, "fixturenames", ())}
        if medium & {_function(item.name), *fixtures}:
            item.add_marker("medium")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        _tests[_function(report.nodeid.rpartition("::")[2])].append(report.duration)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    start = time.perf_counter()
    try:
        return (yield)
    finally:
        _fixtures[fixturedef.argname] = max(_fixtures[fixturedef.argname], time.perf_counter() - start)


def pytest_sessionfinish() -> None:
    names = [name for name, cases in _tests.items() if max(cases) > CASE or sum(cases) > ALL_CASES]
    names += [f"fixture {name}" for name, seconds in _fixtures.items() if seconds > CASE]
    MEDIUM.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")


def _function(name: str) -> str:
    """The name of a test without its parameters."""
    return name.partition("[")[0]
