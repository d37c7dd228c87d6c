"""Shared by the tests of the command line."""

import pytest

from tests.cli.command import BUDGET, reticent


@pytest.fixture
def started(tmp_path):
    done = reticent("init", tmp_path / "model", *BUDGET, "--encoder", "none")
    assert done.returncode == 0, done.stderr
    return tmp_path
