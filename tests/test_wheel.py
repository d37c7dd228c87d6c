"""The wheel works alone: built, installed without extras into a fresh environment, and tried there."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_MEGABYTES = 600

pytestmark = pytest.mark.slow


def run(*command: object, folder: Path) -> str:
    """Runs a command that must succeed, where neither the source tree nor the caller's environment is in the way."""
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=folder, env=outside)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """The folder of programs of an environment with the wheel and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", folder, ROOT, folder=folder)
    (wheel,) = folder.glob("reticent-*.whl")
    run(sys.executable, "-m", "venv", folder / "venv", folder=folder)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, folder=folder)
    yield programs
    shutil.rmtree(folder)  # hundreds of megabytes, which pytest would keep


def test_the_wheel_is_imported_without_extras(fresh, tmp_path):
    code = "import importlib.util as u, reticent; print(reticent.__version__, reticent.__file__, u.find_spec('torch'))"
    version, file, torch = run(fresh / "python", "-c", code, folder=tmp_path).split()
    assert version == tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert Path(file).is_relative_to(fresh.parent)
    assert torch == "None"


def test_the_installed_command_shows_its_help(fresh, tmp_path):
    shown = run(fresh / "reticent", "--help", folder=tmp_path)
    assert all(verb in shown for verb in ("demo", "plan", "learn", "predict", "report"))


def test_the_installed_command_plans(fresh, tmp_path):
    options = ["--epsilon", 1, "--delta", 1e-5, "--class-size", 100]
    shown = run(fresh / "reticent", "plan", *options, folder=tmp_path)
    assert "joint-gaussian" in shown


def test_the_wheel_learns_and_predicts(fresh, tmp_path):
    assert run(fresh / "python", ROOT / "tests" / "first_steps.py", "model", folder=tmp_path).split() == ["a", "b"]
    assert "Privacy statement" in run(fresh / "reticent", "ledger", "model", folder=tmp_path)


def test_a_core_install_stays_small(fresh):
    """As docs/deploying.md says; pyarrow or torch would be noticed, and so would a second compiler."""
    (packages,) = (fresh.parent / ("Lib" if os.name == "nt" else "lib")).rglob("site-packages")
    size = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file())
    assert size < MOST_MEGABYTES << 20


def test_the_wheel_has_its_data_files(fresh, tmp_path):
    assert "quick" in run(fresh / "reticent", "bench", "--list", folder=tmp_path)
