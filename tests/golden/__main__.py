"""Records all golden runs: `python -m tests.golden`; a quarter of an hour on one core, with the data sets at hand."""

import datetime
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import tests.conftest  # noqa: F401 (the number of threads, before anything numeric is imported)
from reticent.lab.bench.workspace import Workspace
from tests.golden import runs


def main() -> None:
    """Makes each run once, and writes what it gave."""
    words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(words, capture_output=True, text=True, check=True, cwd=runs.FILE.parent).stdout.strip()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        place = Workspace(runs.SHARED, Path(folder))
        for run in (*runs.FAST, *runs.SLOW):
            found.append({"run": runs.fields_of(run), **runs.made(run, place)})
            print(run.name, found[-1]["accuracy"], file=sys.stderr, flush=True)
    birth = {
        "commit": commit,
        "day": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        **runs.kind_of_processor(),
    }
    runs.FILE.write_text(runs.written({"birth": birth, "runs": found}), encoding="utf-8")


main()
