"""Folders are named by trust, and imports go one way. This test reads the imports and keeps it so."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "reticent"

# From the lowest room to the highest; a module may import from its own room and those before it.
ROOMS = ["values", "encoders", "released", "gate", "sensitive", "classifier", "report", "lab", "cli"]
USER_SIDE = {"classifier": "classifier", "evaluation": "classifier", "testing": "classifier", "cli": "cli"}


def room(module: str) -> str:
    parts = module.split(".")[1:]
    if not parts:
        return "values"  # the package itself re-exports values and the user's side
    if parts[0] in ROOMS and (SOURCE / parts[0]).is_dir():
        return parts[0]
    return USER_SIDE.get(parts[0], "values")


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "reticent"}


def violations(path: Path) -> list[str]:
    here = room(module_name(path))
    return [f"{here} -> {name}" for name in imports(path) if ROOMS.index(room(name)) > ROOMS.index(here)]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    if path == SOURCE / "__init__.py":
        return  # re-exports the public names
    assert violations(path) == []


def test_the_rule_can_be_broken(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path / "reticent")
    (tmp_path / "reticent" / "gate").mkdir(parents=True)
    (tmp_path / "reticent" / "lab").mkdir()
    bad = tmp_path / "reticent" / "gate" / "peek.py"
    bad.write_text("from reticent.lab import attacks\n")
    assert violations(bad) == ["gate -> reticent.lab.attacks"]


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_reticent_is_light():
    loaded = loaded_by("import reticent")
    assert "reticent.planning" in loaded
    for heavy in ("torch", "transformers", "sklearn", "dp_accounting", "resvg_py", "pandas", "diffprivlib"):
        assert heavy not in loaded
    assert not any(name.startswith(("reticent.gate", "reticent.lab.")) for name in loaded)


def test_randomness_has_one_door():
    """Only the gate draws noise; NumPy's generators appear in experiments alone."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if room(module_name(path)) not in ("lab",):
            assert "np.random" not in text, path
            assert "import random" not in text, path
        if path.name != "source.py":
            assert "urandom" not in text, path
