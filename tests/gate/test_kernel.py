"""Compiled loops: made in the process that needs them, before anything is spent, and never read from disk."""

import os
import subprocess
import sys

import numpy as np
import pytest

import reticent.gate
from reticent import Budget, LabelSpace, errors
from reticent.gate import label_sums
from reticent.gate.gate import Gate
from reticent.gate.ledger import Ledger
from reticent.gate.noise import normal
from reticent.privacy import events

_WITNESSED = """
import os, sys
def refuse(name, arguments):
    if name == "open" and str(arguments[0]).startswith(os.environ["NUMBA_CACHE_DIR"]):
        raise AssertionError(f"{arguments[0]} was opened")
    if name == "open" and str(arguments[0]).endswith((".nbi", ".nbc")):
        raise AssertionError("a compiled loop was opened")
    if name == "pickle.find_class":
        raise AssertionError(f"something was unpickled: {arguments}")
sys.addaudithook(refuse)
import numpy as np
import reticent as rt
model = rt.ContinualClassifier(labels=rt.PublicLabels(["a", "b"]), budget=rt.Budget(epsilon=1.0, delta=1e-5))
print(model.learn_task(np.repeat(np.eye(2), 300, axis=0), ["a"] * 300 + ["b"] * 300).predict(np.eye(2)))
"""


def test_compiled_loops_never_touch_the_disk(tmp_path):
    """An environment variable, a folder that others can write to: neither brings numba's pickles back."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _WITNESSED], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "['a' 'b']\n"), done.stderr
    assert list(tmp_path.iterdir()) == []


SUM = events.Gaussian(noise_multiplier=9.0)
TRAINING = events.DpSgd(noise_multiplier=9.0, rate=0.1, steps=2)


@pytest.mark.parametrize(
    ("module", "event"),
    [
        ("reticent.gate.kernel", SUM),
        ("reticent.gate.noise.normal", SUM),
        ("reticent.gate.step_kernel", TRAINING),
        ("reticent.gate.step_kernel", events.compose(SUM, TRAINING)),
        ("reticent.released.adam_kernel", TRAINING),
        ("reticent.gate.step_kernel", events.PrivateSelection(run=TRAINING, eta=1, gamma=0.5)),
    ],
)
def test_what_cannot_be_compiled_is_not_paid_for(module, event, monkeypatch):
    package, _, name = module.rpartition(".")
    monkeypatch.delattr(sys.modules.get(package, reticent.gate), name, raising=False)
    monkeypatch.setitem(sys.modules, module, None)  # importing it fails
    ledger = Ledger.create(None, Budget(epsilon=2.0, delta=1e-5))
    with pytest.raises(errors.ReticentError, match=r"Nothing was spent\."):
        Gate(ledger).spend(event, task="march")
    assert ledger.statement().spends == ()


def test_sums_need_no_loops_of_training(monkeypatch):
    monkeypatch.delattr(reticent.gate, "step_kernel", raising=False)
    monkeypatch.setitem(sys.modules, "reticent.gate.step_kernel", None)
    ledger = Ledger.create(None, Budget(epsilon=2.0, delta=1e-5))
    Gate(ledger).spend(SUM, task="march")
    assert len(ledger.statement().spends) == 1


def test_tables_that_cannot_be_made_are_not_paid_for(monkeypatch):
    def fail() -> None:
        raise MemoryError

    monkeypatch.setattr(normal, "pieces", fail)
    ledger = Ledger.create(None, Budget(epsilon=2.0, delta=1e-5))
    with pytest.raises(errors.ReticentError, match=r"\(MemoryError\)\. Nothing was spent\."):
        Gate(ledger).spend(events.Gaussian(noise_multiplier=9.0), task="march")
    assert ledger.statement().spends == ()


def test_rows_of_any_layout_are_added_up():
    """Types are fixed when the loop is compiled: what is not aligned, or may not be written to, must fit them."""
    rows = np.random.default_rng(3).normal(size=(6, 5)).astype(np.float32)
    known, labels = LabelSpace(("a", "b")), ["a", "b"] * 3
    expected = label_sums.sum_by_label(rows, labels, known=known, count_weight=0.0).known
    unaligned = np.frombuffer(b"\0" + rows.tobytes(), np.uint8)[1:].view(np.float32).reshape(rows.shape)
    assert not unaligned.flags.aligned
    assert not unaligned.flags.writeable
    for same in (unaligned, np.asfortranarray(rows), rows.astype(">f4"), np.repeat(rows, 2, axis=0)[::2]):
        found = label_sums.sum_by_label(same, labels, known=known, count_weight=0.0).known
        assert found.tolist() == expected.tolist()
