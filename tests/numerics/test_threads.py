"""How torch's threads wait: chosen by us before torch is imported, unless the user chose."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from reticent.numerics.threads import _WAITING

OURS = "from reticent.encoders.packages import require; require('torch', extra='reticent[torch]')"
TUNING = "from reticent.sensitive.tuning import public_search; public_search._optuna()"

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


def after(statement: str, **settings: str) -> tuple[str, set[int]]:
    """Runs a statement in a new process: the policy in its environment, and how long OpenMP says that threads spin."""
    clean = {name: value for name, value in os.environ.items() if name not in _WAITING}
    code = f"import os; {statement}; import torch; torch.get_num_threads(); print(os.environ.get('OMP_WAIT_POLICY'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, "OMP_DISPLAY_ENV": "VERBOSE", **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    spins = re.findall(r"(?:GOMP_SPINCOUNT|KMP_BLOCKTIME) ?= ?'(\d+)", done.stderr)
    return done.stdout.strip(), {int(spin) for spin in spins}


@pytest.mark.parametrize("statement", [OURS, TUNING], ids=["encoders", "tuning"])
def test_threads_wait_passively(statement):
    if statement == TUNING:
        pytest.importorskip("optuna")
    assert after(statement) == ("PASSIVE", {0})


def test_a_setting_of_the_user_is_kept():
    policy, spins = after(OURS, OMP_WAIT_POLICY="ACTIVE")
    assert policy == "ACTIVE"
    assert min(spins) > 0
    assert after(OURS, GOMP_SPINCOUNT="77", KMP_BLOCKTIME="77") == ("None", {77})


def test_torch_that_the_user_imported_is_not_reconfigured():
    """They have read their settings already: ours would come too late."""
    policy, spins = after(f"import torch; {OURS}")
    assert policy == "None"
    assert min(spins) > 0
