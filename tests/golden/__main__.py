"""Records all golden runs: `python -m tests.golden`; a quarter of an hour on one core, with all data sets at hand."""

import datetime
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import tests.conftest  # noqa: F401 (the number of threads, before anything numeric is imported)
from reticent.lab.bench.run import Run
from reticent.lab.bench.versions import version_of
from reticent.lab.bench.workspace import Workspace
from tests.golden import runs


def main() -> None:
    """Makes each run once and writes what it gave; refuses numbers that differ from those of the same version."""
    before = json.loads(runs.FILE.read_text(encoding="utf-8"))
    stored = {Run(**one["run"]).digest: one for one in before["runs"]}
    exactly, found, unsaid = runs.same_kind(before["birth"]), [], []
    with tempfile.TemporaryDirectory() as folder:
        place = Workspace(runs.SHARED, Path(folder))
        for run in (*runs.FAST, *runs.SLOW):
            made = runs.made(run, place)
            found.append({"run": runs.fields_of(run), "version": version_of(run.learner), **made})
            last = stored.get(run.digest, {})
            if last.get("version") == version_of(run.learner):
                differing = runs.differing(last, made, exactly=exactly)
                unsaid += [runs.CHANGED.format(run=run.name, learner=run.learner, differing=differing)] * bool(
                    differing
                )
            print(run.name, made["accuracy"], file=sys.stderr, flush=True)
    if unsaid:
        sys.exit("\n".join(unsaid))
    words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(words, capture_output=True, text=True, check=True, cwd=runs.FILE.parent).stdout.strip()
    when = {"commit": commit, "day": datetime.date.today().isoformat(), "python": platform.python_version()}
    birth = {**when, **runs.kind_of_processor()}
    runs.FILE.write_text(runs.written({"birth": birth, "runs": found}), encoding="utf-8")


main()
