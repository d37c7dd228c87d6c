"""Mutants of gate/ and privacy/: does a small change of the code that privacy hangs on make a test fail?

    python -m tests.assurance.mutants             tries what is new or has survived, and writes mutants.json
    python -m tests.assurance.mutants --only step tries the mutants whose description contains a text, and shows them

Results are kept in results/mutants/ by function: only functions that have changed are tried again, and survivors when
the tests have changed. Without that folder mutants.json counts, by file: what a file that has not changed since had
tried is not tried again. survivors.toml explains mutants that no test can or should kill, and says which of them are
equivalent to the code; an unexplained survivor fails, and so does an explanation of a mutant that does not survive.
"""

import argparse
import collections
import hashlib
import importlib
import json
import math
import os
import sys
import time
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.assurance.mutation_sites import SOURCE, Module, Mutant, modules
from tests.assurance.mutation_trials import (
    LIBRARIES,
    ROOT,
    Outcome,
    Reached,
    Selection,
    Trials,
    digest_of,
    home,
    reached,
)
from tests.assurance.part import Part

FOLDERS = ("gate", "privacy")
# What memory costs, as a statement says it; loops of the gate that count rows of persons, and that a head uses.
OUTSIDE = ("tests/test_memory.py", "tests/sensitive/test_counters.py", "tests/sensitive/test_head.py")
LEAST = 0.95  # of the mutants that are not equivalent must be killed; explained ones count as survivors
SUMMARY = Path(__file__).with_name("mutants.json")
EXPLAINED = Path(__file__).with_name("survivors.toml")
STORE = ROOT / "results" / "mutants"
KILLED = ("killed", "timeout")
ALIVE = ("survived", "suspect")
# Polynomials that a test compares with mpmath piece by piece; what is shown before there are data, and texts.
LAST = (
    "gate/noise/normal.py",
    "privacy/backwards.py",
    "privacy/confidence.py",
    "privacy/event_words.py",
    "privacy/planning.py",
    "privacy/statement.py",
    "privacy/statement_text.py",
)
COUNTED = ("mutants", "tried", "killed", "timeouts", "equivalent", "explained", "unexplained")
SAYS = (
    "Small changes of the code that privacy hangs on (`<` for `<=`, a constant, a call or an argument left out, a "
    "condition turned round), one at a time, and the tests that reach them. A change that no test notices survives; "
    "tests/assurance/survivors.toml says for each survivor why it does no harm. Some are equivalent to the code: no "
    "input makes a difference but in time, memory, or the last digits of a bound that stays on the safe side. Two "
    "shares are shown: killed of all that were tried, and killed of those that are not equivalent. The second one is "
    f"compared: it must be above {LEAST:.0%}, with every survivor explained. Explained survivors that are not "
    "equivalent count against it, and so do mutants that were not tried yet. `make mutants` makes the table anew."
)


def files_with_tests() -> list[str]:
    """Returns the tests of the two folders and some outside, and the modules in the folders that have examples."""
    tests = [path for folder in FOLDERS for path in (ROOT / "tests" / folder).rglob("test_*.py")]
    examples = [path for folder in FOLDERS for path in (SOURCE / folder).rglob("*.py") if ">>>" in path.read_text()]
    return sorted((*OUTSIDE, *(path.relative_to(ROOT).as_posix() for path in (*tests, *examples))))


# --- what is kept


class Store:
    """Results in a folder: what tests reach, and what became of mutants."""

    def __init__(self, folder: Path) -> None:
        self._reached, self._outcomes = folder / "reached.json", folder / "outcomes.jsonl"
        folder.mkdir(parents=True, exist_ok=True)

    def begin(self, sources: Mapping[str, Module], content: Mapping[str, Any], known: Collection[str]) -> None:
        """Takes over what mutants.json says of files as they are, if nothing is kept yet.

        Args:
            sources: Files, by path.
            content: Of mutants.json.
            known: Survivors that are explained.
        """
        if self._outcomes.exists():
            return
        passed = {file: digest_of(ROOT / file) for file in files_with_tests()}
        for file, row in content["files"].items():
            if file not in sources or sources[file].digest != row["digest"]:
                continue
            for mutant in sources[file].mutants:
                if mutant.key not in row["left"]:
                    survived = mutant.key in known
                    self.add(mutant, Outcome("survived", passed=passed) if survived else Outcome("killed"))

    def reached(self, sources: dict[str, Module], tests: Sequence[str], *, roughly: bool) -> dict[str, Reached]:
        """Returns what each test reaches; measures files that are new or other than before, and unless roughly all."""
        code = {file: module.digests for file, module in sources.items()}
        now = hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]
        digests = {test: digest_of(ROOT / home(test)) for test in tests}
        kept = json.loads(self._reached.read_text()) if self._reached.exists() else {"code": {}, "tests": {}}
        kept["code"][now] = code
        found = {test: one for test, one in kept["tests"].items() if one["test"] == digests.get(test)}
        if not roughly:
            found = {test: one for test, one in found.items() if one["code"] == now}
        missing = [test for test in tests if test not in found]
        if missing:
            print(f"Measuring which lines the tests of {len(missing)} files reach ...", flush=True)
            new = reached(sources, missing)
            for asked in missing:
                mine = {test: [one.seconds, one.places] for test, one in new.items() if test.startswith(asked)}
                found[asked] = {"code": now, "test": digests[asked], "tests": mine}
            used = {entry["code"] for entry in found.values()}
            kept = {"code": {at: kept["code"][at] for at in sorted(used)}, "tests": found}
            self._reached.write_text(json.dumps(kept))
        return {
            test: Reached(seconds, _where(places, kept["code"][entry["code"]], code))
            for entry in found.values()
            for test, (seconds, places) in entry["tests"].items()
        }

    def outcomes(self, tests: Iterable[str]) -> dict[tuple[str, str], Outcome]:
        """Returns what is known, by key and digest, without kills by tests that are gone."""
        known = {"", "import", *tests}
        entries = map(json.loads, self._outcomes.read_text().splitlines() if self._outcomes.exists() else ())
        found = {(entry.pop("key"), entry.pop("digest")): Outcome(**entry) for entry in entries}
        return {place: outcome for place, outcome in found.items() if outcome.test in known}

    def add(self, mutant: Mutant, outcome: Outcome) -> None:
        """Keeps what became of a mutant."""
        with self._outcomes.open("a") as file:
            file.write(json.dumps({"key": mutant.key, "digest": mutant.digest, **outcome.__dict__}) + "\n")


def _where(
    places: dict[str, dict[str, list[int]]], then: dict[str, dict[str, str]], now: dict[str, dict[str, str]]
) -> dict[str, dict[str, list[int]]]:
    """Returns what a test reaches, without lines where the function has changed since."""

    def same(file: str, function: str) -> bool:
        return then.get(file, {}).get(function) == now.get(file, {}).get(function)

    return {
        file: {function: lines if same(file, function) else [] for function, lines in functions.items()}
        for file, functions in places.items()
    }


# --- trying


class Progress:
    """Shows how far it is, with the time left, and each survivor; also from children whose output goes nowhere."""

    def __init__(self, total: int) -> None:
        self._total, self._start = total, time.monotonic()
        self._stream = os.fdopen(os.dup(sys.stderr.fileno()), "w")
        self._done: collections.Counter[str] = collections.Counter()

    def show(self, mutant: Mutant, outcome: Outcome) -> None:
        """Counts one more."""
        self._done[outcome.status] += 1
        done = self._done.total()
        if outcome.status not in (*KILLED, "suspect"):
            self._stream.write(f"{outcome.status}: {mutant.key} (line {mutant.lines[0]})\n")
        if done % 50 == 0:
            seconds = time.monotonic() - self._start
            self._stream.write(f"{dict(self._done)} of {self._total}, {seconds:.0f} s\n")
        self._stream.flush()


def run(
    chosen: Sequence[Mutant],
    sources: dict[str, Module],
    tests: dict[str, Reached],
    *,
    workers: int,
    store: Store,
    end: float,
) -> dict[str, Outcome]:
    """Tries mutants, first by exchanging code and then by importing anew; returns what became of each, by key."""

    def known() -> dict[Mutant, Outcome]:
        kept = store.outcomes(tests)
        return {mutant: kept.get((mutant.key, mutant.digest), Outcome("new")) for mutant in chosen}

    def select(*lasting: str) -> tuple[Selection, list[Mutant]]:
        """Which mutants are to be tried, and with which tests."""
        outcomes = known()
        passed = {mutant.key: outcome.passed for mutant, outcome in outcomes.items() if outcome.status in lasting}
        selection = Selection(sources, tests, passed)
        for mutant, outcome in outcomes.items():
            if outcome.test in tests:
                selection.killed_by(mutant, outcome.test)
        left = [mutant for mutant, outcome in outcomes.items() if outcome.status not in KILLED]
        return selection, [mutant for mutant in left if mutant.key not in passed or selection.of(mutant)]

    def done(mutant: Mutant, outcome: Outcome) -> None:
        store.add(mutant, outcome)
        progress.show(mutant, outcome)

    selection, left = select("survived", "suspect")
    direct = [mutant for mutant in left if mutant.compiled or not mutant.imports]
    progress = Progress(len(direct))
    if direct and time.monotonic() < end:
        files = {home(test) for mutant in direct for test in selection.of(mutant)}
        Trials(selection, workers, done, end).by_code(direct, sources, sorted(files))
    selection, left = select("survived")
    outcomes = known()
    left.sort(key=lambda mutant: outcomes[mutant].status == "suspect")  # what has a verdict already comes last
    progress = Progress(len(left))
    if time.monotonic() < end:
        Trials(selection, workers, done, end).by_import(left, sources, tests)
    return {mutant.key: outcome for mutant, outcome in known().items()}


# --- reporting


def explained() -> dict[str, bool]:
    """Returns what survivors.toml explains, by key of the mutant: whether it is equivalent to the code."""
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("survivor", [])
    return {
        f"{entry['file']} | {entry['function']} | {mutation}": bool(entry["reason"]) and entry["equivalent"]
        for entry in entries
        for mutation in entry["mutations"]
    }


def summary(
    outcomes: Mapping[str, Outcome], sources: Mapping[str, Module], known: Mapping[str, bool]
) -> dict[str, Any]:
    """Returns the numbers of each file with the digest of what they are of, and explanations that explain nothing.

    Args:
        outcomes: What became of each mutant, by key.
        sources: Files, by path.
        known: Survivors that are explained, and whether they are equivalent.
    """
    rows = {}
    for file, module in sources.items():
        found = {mutant.key: outcomes[mutant.key].status for mutant in module.mutants}
        tried = {key: status for key, status in found.items() if status in (*KILLED, *ALIVE)}
        alive = [key for key, status in tried.items() if status in ALIVE]
        if found:
            rows[file] = {
                "digest": module.digest,
                "mutants": len(found),
                "tried": len(tried),
                "killed": list(tried.values()).count("killed"),
                "timeouts": list(tried.values()).count("timeout"),
                "equivalent": sum(known.get(key, False) for key in alive),
                "explained": sum(not known.get(key, True) for key in alive),
                "unexplained": sum(key not in known for key in alive),
                "left": [key for key in found if key not in tried or (key in alive and key not in known)],
            }
    noticed = {key for key, outcome in outcomes.items() if outcome.status in KILLED}
    return {"stale": sorted(key for key in known if key in noticed or key not in outcomes), "files": rows}


def read_summary() -> dict[str, Any]:
    """Returns what mutants.json says, if there is one."""
    return json.loads(SUMMARY.read_text()) if SUMMARY.exists() else {"stale": [], "files": {}}


def measure() -> Part:
    """Reads the results of the last `make mutants`; says which files have changed since, and what was not tried."""
    content = read_summary()
    rows, passed = [], not content["stale"]
    totals = dict.fromkeys(COUNTED, 0)
    for file, module in modules(FOLDERS).items():
        if not module.mutants:
            continue
        row = content["files"].get(file, {"digest": "", **dict.fromkeys(COUNTED, 0), "mutants": len(module.mutants)})
        totals = {name: totals[name] + row[name] for name in COUNTED}
        fresh = row["digest"] == module.digest
        passed = passed and fresh and not row["unexplained"]
        rows.append((file, *_cells(row), "" if fresh else "the file has changed since"))
    rows.append(("all", *_cells(totals), ""))
    return Part(
        title="Mutants",
        says=SAYS,
        header=("file", *COUNTED, "killed of all", "of not equivalent", ""),
        rows=tuple(rows),
        passed=passed and dead(totals) > LEAST * (totals["mutants"] - totals["equivalent"]),
    )


def dead(row: Mapping[str, int]) -> int:
    """Returns how many mutants were noticed; one that made a test run without end was."""
    return row["killed"] + row["timeouts"]


def _cells(row: Mapping[str, int]) -> tuple[str, ...]:
    tried = row["tried"], row["tried"] - row["equivalent"]
    shares = (f"{100 * dead(row) / total:.1f} %" if total else "-" for total in tried)
    return (*(str(row[name]) for name in COUNTED), *shares)


def _order(mutant: Mutant) -> tuple[bool, str]:
    """What privacy hangs on first; within that by digest, so that what a run does not reach leaves a random sample."""
    return mutant.file in LAST, hashlib.sha256(mutant.key.encode()).hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries mutants; returns 0 if enough are killed and the others are explained."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", nargs="+", help="try the mutants whose description contains one of these texts, and show them"
    )
    parser.add_argument("--tests", nargs="+", default=files_with_tests(), help="files with tests, or single tests")
    parser.add_argument("--store", type=Path, default=STORE, help="folder of results")
    parser.add_argument("--workers", type=int, default=2, help="how many at a time")
    parser.add_argument(
        "--roughly",
        action="store_true",
        help="measure which lines are reached for new and changed files of tests alone",
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="when to stop; what is left is a sample")
    options = parser.parse_args(arguments)
    os.chdir(ROOT)
    for library in LIBRARIES:
        importlib.import_module(library)
    sources = modules(FOLDERS)
    every = [mutant for module in sources.values() for mutant in module.mutants]
    every.sort(key=_order)
    chosen = [mutant for mutant in every if not options.only or any(text in mutant.key for text in options.only)]
    known = explained()
    store = Store(options.store)
    if not options.only:
        store.begin(sources, read_summary(), known)
    tests = store.reached(sources, options.tests, roughly=options.roughly)
    outcomes = run(
        chosen, sources, tests, workers=options.workers, store=store, end=time.monotonic() + 60 * options.minutes
    )
    alive = [mutant for mutant in chosen if outcomes[mutant.key].status in ALIVE]
    killed = sum(outcome.status in KILLED for outcome in outcomes.values())
    for mutant in alive:
        if options.only or mutant.key not in known:
            print(f"{outcomes[mutant.key].status}: {mutant.key} (line {mutant.lines[0]})")
    print(f"{killed} of {len(chosen)} mutants are killed, {len(alive)} survive.")
    if options.only:
        return 0
    content = summary(outcomes, sources, known)
    SUMMARY.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for key in content["stale"]:
        print(f"No such survivor, so survivors.toml should not explain it: {key}")
    part = measure()
    print(part.markdown())
    return 0 if part.passed else 1


if __name__ == "__main__":
    sys.exit(main())
