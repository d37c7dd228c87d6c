"""What is needed to predict and to serve, and the recipe that installs it offline."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import reticent as rt

ROOT = Path(__file__).parents[1]
PREDICT = ROOT / "requirements-predict.txt"
DOCKER = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements() -> list[str]:
    lines = PREDICT.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def name_of(requirement: str) -> str:
    return re.split(r"[<>=!;\[ ]", requirement)[0].lower().replace("_", "-")


def test_what_predicting_needs_is_a_part_of_the_project_and_pinned():
    ours = {*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["serve"]}
    assert set(requirements()) <= ours
    pinned = {name_of(line) for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()}
    assert set(map(name_of, requirements())) <= pinned
    assert {"numba", "dp-accounting", "cryptography", "pyarrow", "torch"}.isdisjoint(map(name_of, requirements()))


# Only packages that are listed, and what these require, can be imported.
ONLY = """
import importlib.metadata as metadata, re, sys

def name_of(text):
    return re.split(r"[<>=!;~\\[ (]", text)[0].lower().replace("_", "-").replace(".", "-")

allowed, left = {"reticent"}, [name_of(text) for text in sys.argv[1].split(",")]
while left:
    name = left.pop()
    if name in allowed:
        continue
    allowed.add(name)
    try:
        left += [name_of(text) for text in metadata.requires(name) or () if "extra ==" not in text]
    except metadata.PackageNotFoundError:
        pass
owners = metadata.packages_distributions()

class Only:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in owners and top != "_distutils_hack" and not {name_of(owner) for owner in owners[top]} & allowed:
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)

sys.meta_path.insert(0, Only())
"""

USES = """
import json
from pathlib import Path
import numpy as np
import reticent as rt
from reticent import cli, serving

folder = Path(sys.argv[2])
model = rt.load(folder / "model")
answers = [model.predict(np.eye(2, 4)).tolist(), model.statement().private, type(serving.app(model)).__name__]
sys.argv = ["reticent", "predict", str(folder / "new.csv"), "--model", str(folder / "model"), "--features", "a,b,c,d"]
sys.argv += ["-o", str(folder / "out.csv")]
try:
    cli.main()
except SystemExit as ended:
    answers.append(ended.code)
print(json.dumps([*answers, sorted(name for name in ("numba", "pyarrow", "dp_accounting") if name in sys.modules)]))
"""


@pytest.fixture
def folder(tmp_path):
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(["a", "b"]), budget=rt.Budget(epsilon=20.0, delta=1e-5), path=tmp_path / "model"
    )
    model.learn_task(np.repeat(np.eye(2, 4), 200, axis=0), ["a"] * 200 + ["b"] * 200, name="march")
    (tmp_path / "new.csv").write_text("a,b,c,d\n1,0,0,0\n0,1,0,0\n")
    return tmp_path


def test_predicting_needs_no_more_than_is_listed(folder):
    pytest.importorskip("starlette", reason="reticent[serve]")
    names = ",".join(map(name_of, requirements()))
    done = subprocess.run([sys.executable, "-c", ONLY + USES, names, str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [["a", "b"], True, "Starlette", 0, []]


def test_what_learns_is_refused_there(tmp_path):
    """The twin: learning needs more, and says so."""
    makes = """
from reticent.cli import main
sys.argv = ["reticent", "init", sys.argv[2], "--epsilon", "1", "--delta", "1e-5", "--tasks-per-person", "1"]
main()
"""
    names, place = ",".join(map(name_of, requirements())), str(tmp_path / "model")
    done = subprocess.run([sys.executable, "-c", ONLY + makes, names, place], capture_output=True, text=True)
    assert done.returncode == 2
    assert "is not installed, so this environment predicts alone." in done.stderr
    assert "Traceback" not in done.stderr


def test_the_dockerfile_copies_files_that_exist():
    copied = [line.split()[1:-1] for line in DOCKER.splitlines() if line.startswith("COPY ")]
    assert copied
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []


def test_the_dockerfile_installs_offline_and_serves():
    stages = re.split(r"^FROM ", DOCKER, flags=re.M)[1:]
    assert len(stages) == 2
    installs = re.findall(r"pip install[^&\n]*", stages[1])
    assert len(installs) == 2
    assert all("--no-index" in command for command in installs)
    assert "pip wheel" in stages[0]
    assert "USER 10001" in stages[1]
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", DOCKER, re.M)[1])  # type: ignore[index]
    assert entry[:2] == ["reticent", "serve"]
    from tests.cli.command import reticent

    assert all(option in reticent("serve", "--help").stdout for option in entry if option.startswith("--"))
