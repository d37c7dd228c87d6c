"""No pickle is read at run time: a hook sees every verb of the command line, in a process of its own."""

import subprocess
import sys

import pytest

from tests.encoders.samples import needs_minilm

_WITNESS = """
import pickle, marshal, sys

class Unpickled(BaseException):
    pass

def refuse(*_, **__):
    raise Unpickled("something was unpickled")

class Refusing(pickle.Unpickler):
    load = refuse

pickle.load = pickle.loads = refuse
pickle.Unpickler = Refusing  # what other packages derive their own from

def hook(event, arguments):
    if event == "pickle.find_class":
        raise Unpickled(f"{arguments} was unpickled")
    if event in ("marshal.load", "marshal.loads"):
        if "importlib" not in sys._getframe(1).f_code.co_filename:  # how Python reads the code of modules
            raise Unpickled("something was unmarshalled")

sys.addaudithook(hook)

import numpy as np
from reticent.cli import main

def run(*words):
    sys.argv = ["reticent", *words]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, words
"""

_VERBS = (
    _WITNESS
    + """
rows = np.random.default_rng(0).normal(size=(600, 3)) + np.repeat(np.eye(3), 200, axis=0) * 9
lines = [f"{a:.3f},{b:.3f},{c:.3f},{'xyz'[i // 200]}" for i, (a, b, c) in enumerate(rows)]
open("march.csv", "w").write("a,b,c,code\\n" + "\\n".join(lines))
np.savez("april.npz", X=rows, y=np.repeat(list("xyz"), 200))
columns = ["--features", "a,b,c"]
run("plan", "--epsilon", "1", "--delta", "1e-5")
run("init", "model", "--epsilon", "1", "--delta", "1e-5", "--tasks-per-person", "1", "--encoder", "none")
run("learn", "--each-row-is-a-person", "march.csv", "--model", "model", *columns, "--label", "code")
run("predict", "march.csv", "--model", "model", *columns, "-o", "out.csv")
run("evaluate", "march.csv", "--model", "model", *columns, "--label", "code", "--public")
run("evaluate", "march.csv", "--model", "model", *columns, "--label", "code",
    *"--epsilon 0.1 --name test --each-row-is-a-person".split())
run("ledger", "model", "--json")
run("report", "model")
run("audit", "model", "--trials", "200")
import reticent as rt
rt.load("model").save("copy")
print("done", len(rt.load("copy").releases))
"""
)

_ENCODED = (
    _WITNESS
    + """
import reticent as rt
model = rt.ContinualClassifier(
    encoder=rt.encoders.minilm(), labels=rt.PublicLabels(["a", "b"]), budget=rt.Budget(epsilon=1.0, delta=1e-5)
)
print("done", len(model.learn_task(["a text", "another"] * 5, ["a", "b"] * 5).releases))
"""
)


def _run(code: str, folder: object) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=str(folder), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_no_verb_unpickles(tmp_path):
    assert _run(_VERBS, tmp_path).endswith("done 1\n")


@needs_minilm
def test_encoding_unpickles_nothing(tmp_path):
    assert _run(_ENCODED, tmp_path).endswith("done 1\n")


@pytest.mark.parametrize("attempt", ["loads(b'N.')", "Unpickler(io.BytesIO(b'N.')).load()", "load(io.BytesIO(b'N.'))"])
def test_the_witness_sees_pickles(tmp_path, attempt):
    """The broken twin: whoever unpickles, in whatever way, is stopped."""
    code = f"{_WITNESS}\nimport io, pickle\npickle.{attempt}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "Unpickled: something was unpickled" in done.stderr
