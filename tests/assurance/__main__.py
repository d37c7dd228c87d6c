"""Writes the assurance page: `python -m tests.assurance docs/assurance.md`. Two parts at a time, resumable.

What was measured of this very source is taken from results/assurance; a part that was killed starts again.
"""

import dataclasses
import datetime
import hashlib
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.assurance.part import Part

PARTS = ("crash", "fuzz_store", "fuzz_inputs", "neighbours", "twins", "bounds", "noise", "encoders", "mutants", "scale")
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "assurance"
INTRODUCTION = """# Assurance

What was tried against the promises of [guarantees.md](guarantees.md), and what survived. `make assurance` runs all of
it anew and writes this page; the tests of `make test` run a part of each. Every attack is in `tests/assurance/`.

Read the first table: each row is one kind of attack, *held* says that every promise did. The sections below show what
was tried, one by one. What is not promised at all is in [security](security.md).
"""


def source() -> str:
    """Returns a digest of what is measured, and by what; mutants have results of their own, which are read anew."""
    digest = hashlib.sha256()
    others = ("mutants", "mutation", "test_")
    tried = [file for file in (ROOT / "tests" / "assurance").glob("*.py") if not file.name.startswith(others)]
    for file in sorted([*(ROOT / "src").rglob("*.py"), *tried]):
        digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def commit() -> str:
    """Returns the commit that is checked out, or a question mark outside of a repository."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "?"


def measured(name: str, of: str) -> dict[str, object]:
    """Returns what a part found: as stored of the same source, or measured now in a process of its own."""
    file = RESULTS / f"{name}.json"
    if file.exists() and name != "mutants":
        stored: dict[str, object] = json.loads(file.read_text())
        if stored["source"] == of:
            return stored
    start = time.monotonic()
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with open(RESULTS / f"{name}.log", "w") as log:
        done = subprocess.run(
            [sys.executable, "-m", "tests.assurance", "--part", name],
            cwd=ROOT,
            env=settings,
            stdout=subprocess.PIPE,
            stderr=log,
            check=False,
        )
    minutes = (time.monotonic() - start) / 60
    print(f"{name}: exit {done.returncode} after {minutes:.1f} minutes", file=sys.stderr, flush=True)
    parts = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    found: dict[str, object] = {"source": of, "commit": commit(), "minutes": minutes, "parts": parts}
    if parts is not None:
        file.write_text(json.dumps(found))
    return found


def page(found: dict[str, dict[str, object]]) -> tuple[str, bool]:
    """Returns the page and whether everything held."""
    rows, sections, held = [], [], True
    for name, result in found.items():
        parts = result["parts"]
        if not isinstance(parts, list):
            rows.append(f"| {name} | **did not finish** | {result['minutes']:.1f} | {result['commit']} |")
            held = False
            continue
        for number, fields in enumerate(parts):
            part = Part(**{key: _tuples(value) for key, value in fields.items()})
            minutes = f"{result['minutes']:.1f}" if number == 0 else "with the above"
            held_or_not = "held" if part.passed else "**did not hold**"
            rows.append(f"| {part.title} | {held_or_not} | {minutes} | {result['commit']} |")
            sections.append(part.markdown())
            held &= part.passed
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    made = f"Measured {today} with Python {platform.python_version()} on {platform.system()}, {os.cpu_count()} cores."
    table = "\n".join(["| attack | promises | minutes | commit |", "|---|---|---|---|", *rows])
    return "\n".join([INTRODUCTION, f"{made}\n", f"{table}\n", *sections]), held


def main() -> None:
    """Measures every part and writes the page; exit code 1 where a promise did not hold."""
    if sys.argv[1] == "--part":
        result = importlib.import_module(f"tests.assurance.{sys.argv[2]}").measure()
        parts = result if isinstance(result, tuple) else (result,)
        print(json.dumps([dataclasses.asdict(part) for part in parts]))
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    of = source()
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(PARTS, pool.map(lambda name: measured(name, of), PARTS), strict=True))
    text, held = page(found)
    Path(sys.argv[1]).write_text(text, encoding="utf-8")
    sys.exit(0 if held else 1)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
