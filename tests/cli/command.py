"""Runs the command line in this process."""

import contextlib
import io
import subprocess
import sys
import unittest.mock
from pathlib import Path

import numpy as np
import pytest

from reticent.cli import main

BUDGET = ["--epsilon", "1", "--delta", "1e-5", "--tasks-per-person", "1"]


def reticent(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the real entry point, exit code and all, without the second that a new process takes to import."""
    out, err = io.StringIO(), io.StringIO()
    words = ["reticent", *map(str, arguments)]
    with (
        unittest.mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    return subprocess.CompletedProcess(words, int(stop.value.code or 0), out.getvalue(), err.getvalue())


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """One sentence on standard error, exit code 2, nothing on standard output."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def write_csv(path: Path, labels: list[str], each: int = 300, seed: int = 0) -> Path:
    draw = np.random.default_rng(seed)
    lines = ["a,b,c,code,who"]
    for i, label in enumerate(labels):
        for row in np.eye(3)[i] * 5 + draw.normal(size=(each, 3)):
            lines.append(",".join(f"{v:.4f}" for v in row) + f",{label},{len(lines)}")
    path.write_text("\n".join(lines) + "\n")
    return path


EACH = "--each-row-is-a-person"
NUMBERS = ["--features", "a,b,c"]
