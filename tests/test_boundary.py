"""Folders are named by trust, and imports go one way. These tests read the imports and keep it so.

What counts as an import: `import`, `from ... import` (absolute or relative), names that the package imports when they
are first used (`reticent.tune`, `from reticent import load`), `import_module` and `__import__` with a constant string;
at the top of a file or inside a function. Blocks under `if TYPE_CHECKING` do not count: they never run, so no code is
loaded through them, and a signature may name a type of a higher room.
"""

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import reticent as rt

SOURCE = Path(__file__).parents[1] / "src" / "reticent"

# From the lowest room to the highest; a module may import from its own room and those before it.
ROOMS = [
    "numerics",
    "values",
    "encoders",
    "released",
    "gate",
    "readers",
    "sensitive",
    "user",
    "report",
    "lab",
    "extend",
    "cli",
]

# Modules and folders that are not named as their room.
PLACES = {
    "errors": "numerics",
    **dict.fromkeys(
        [
            "budget",
            "label_names",
            "labels",
            "memory",
            "names",
            "person_ids",
            "policies",
            "privacy",
            "stored_policies",
            "taxonomy",
        ],
        "values",
    ),
    **dict.fromkeys(
        [
            "classifier",
            "directory",
            "estimator",
            "loading",
            "program",
            "schema",
            "serving",
            "testing",
            "vaults",
        ],
        "user",
    ),
}

# Rooms that may import less than all that is below them: readers turn files into columns and know nothing else.
NARROW = {"readers": {"numerics", "readers"}}


class Tree:
    """The modules of a package named `reticent`, and what each of them imports."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.files = {self._name(path): path for path in sorted(source.rglob("*.py"))}
        self.public = self._public()

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.source.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _public(self) -> dict[str, str]:
        """Where each name of the package lives: names imported at once, and those in its tables."""
        places: dict[str, str] = {}
        for node in ast.parse(self.files["reticent"].read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("reticent."):
                places |= {alias.asname or alias.name: node.module for alias in node.names}
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("_LATER", "_MODULES"):
                places |= ast.literal_eval(node.value)
        return places

    def room(self, module: str) -> str:
        """The package itself may import what planning a budget needs: values, and encoders, which import no torch."""
        if module == "reticent":
            return "encoders"
        first = module.split(".")[1]
        return PLACES.get(first, first)

    def target(self, name: str) -> str | None:
        """The module behind a dotted name; None where it is nothing of ours, or the package itself."""
        parts = name.split(".")
        if parts[0] != "reticent" or len(parts) == 1:
            return None
        if ".".join(parts[:2]) not in self.files:
            return self.public.get(parts[1])
        while ".".join(parts) not in self.files:
            parts.pop()
        return ".".join(parts)

    def imports(self, module: str) -> set[str]:
        """The modules of the package that a module may load when it is imported or run."""
        path = self.files[module]
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        names = set(_names(ast.parse(path.read_text(encoding="utf-8")), package))
        if "reticent.*" in names:
            names |= {f"reticent.{name}" for name in self.public}
        return {found for found in map(self.target, names) if found and found != module}

    def violations(self, module: str) -> list[str]:
        here = self.room(module)
        allowed = NARROW.get(here, set(ROOMS[: ROOMS.index(here) + 1]))
        return sorted(f"{here} -> {name}" for name in self.imports(module) if self.room(name) not in allowed)


def _names(tree: ast.Module, package: str) -> Iterator[str]:
    """Dotted names that a file imports, or reads as attributes of the package."""
    nodes = list(_running(tree))
    bound = {"reticent"} | {
        alias.asname
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "reticent" and alias.asname
    }
    importers = {"__import__", "import_module"} | {
        alias.asname
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "importlib"
        for alias in node.names
        if alias.name == "import_module" and alias.asname
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = _absolute("." * node.level + (node.module or ""), package)
            yield from (f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _dotted(node.func).split(".")[-1] in importers:
            given = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            name, anchor, *_ = [*(str(value) for value in given), package, package]
            yield _absolute(name, anchor)
        elif isinstance(node, ast.Attribute):
            first, _, rest = _dotted(node).partition(".")
            if first in bound:
                yield f"reticent.{rest}"


def _running(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker reads."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        if isinstance(node, ast.If) and _dotted(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            left += node.orelse
        else:
            left += ast.iter_child_nodes(node)


def _dotted(node: ast.AST) -> str:
    """`a.b.c` as text; what comes before the first dot is empty where it is no name."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _absolute(name: str, package: str) -> str:
    dots = len(name) - len(name.lstrip("."))
    if not dots:
        return name
    parents = package.split(".")
    return ".".join([*parents[: len(parents) - dots + 1], name[dots:]]).rstrip(".")


TREE = Tree(SOURCE)


@pytest.mark.parametrize("module", TREE.files)
def test_imports_go_one_way(module):
    assert TREE.violations(module) == []


def test_every_module_has_a_room():
    assert {TREE.room(module) for module in TREE.files} <= set(ROOMS)


# One module of each room, for a made-up package.
HOMES = {
    "numerics": "errors",
    "values": "budget",
    "encoders": "encoders.text",
    "released": "released.model",
    "gate": "gate.ledger",
    "readers": "readers.csv",
    "sensitive": "sensitive.tuning",
    "user": "classifier",
    "report": "report.page",
    "lab": "lab.compare",
    "extend": "extend",
    "cli": "cli.models",
}


@pytest.fixture
def made_up(tmp_path):
    """Writes a module into a package of one module a room, and returns what it breaks."""

    def file(module: str) -> Path:
        path: Path = tmp_path.joinpath("reticent", *module.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.touch()
        return path

    def violations(module: str, text: str) -> list[str]:
        file(module).write_text(text)
        return Tree(tmp_path / "reticent").violations(f"reticent.{module}".removesuffix(".__init__"))

    for home in HOMES.values():
        file(home)
    (tmp_path / "reticent" / "__init__.py").write_text(
        "from reticent.budget import Budget\n"
        "_LATER = {'tune': 'reticent.sensitive.tuning', 'load': 'reticent.classifier'}\n"
    )
    return violations


BROKEN = {
    "import": ("import reticent.lab", "reticent.lab"),
    "import, with a name": ("import reticent.sensitive.tuning as t", "reticent.sensitive.tuning"),
    "from": ("from reticent.sensitive.tuning import tune", "reticent.sensitive.tuning"),
    "from, a module": ("from reticent.sensitive import tuning", "reticent.sensitive.tuning"),
    "from, a module of the package": ("from reticent import lab", "reticent.lab"),
    "from, a lazy name": ("from reticent import load", "reticent.classifier"),
    "from, all names": ("from reticent import *", "reticent.classifier"),
    "relative": ("from ..sensitive import tuning", "reticent.sensitive.tuning"),
    "relative, no module": ("from .. import lab", "reticent.lab"),
    "relative, a lazy name": ("from .. import tune", "reticent.sensitive.tuning"),
    "attribute, a lazy name": ("import reticent\nreticent.tune()", "reticent.sensitive.tuning"),
    "attribute, after a name": ("import reticent as rt\nprint(rt.load)", "reticent.classifier"),
    "attribute, a module": ("import reticent.errors\nreticent.lab.x.y", "reticent.lab"),
    "import_module": ("import importlib\nimportlib.import_module('reticent.lab')", "reticent.lab"),
    "import_module, with a name": ("from importlib import import_module as i\ni('reticent.lab')", "reticent.lab"),
    "import_module, relative": ("import importlib\nimportlib.import_module('..lab', __package__)", "reticent.lab"),
    "import_module, relative to": ("import importlib\nimportlib.import_module('.lab', 'reticent')", "reticent.lab"),
    "__import__": ("__import__('reticent.lab')", "reticent.lab"),
    "in a function": ("def f():\n    from reticent.lab import x", "reticent.lab"),
    "in the other branch": ("if TYPE_CHECKING:\n    pass\nelse:\n    import reticent.lab", "reticent.lab"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_each_way_to_import_is_seen(case, made_up):
    text, target = BROKEN[case]
    assert f"gate -> {target}" in made_up("gate.peek", text)


@pytest.mark.parametrize("block", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_imports_for_the_type_checker_may_go_up(block, made_up):
    assert made_up("gate.peek", f"if {block}:\n    from reticent.lab import x") == []


def test_imports_within_a_room_and_below_are_allowed(made_up):
    text = "import numpy\nimport reticent\nfrom .. import errors\nfrom . import ledger\nfrom reticent import Budget\n"
    assert made_up("gate.peek", text + "import reticent.released.model\nprint(reticent.__version__)") == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_may_import_a_higher_one(room, made_up):
    higher = ROOMS[ROOMS.index(room) + 1 :]
    text = "".join(f"import reticent.{HOMES[name]}\n" for name in higher)
    assert made_up(HOMES[room], text) == sorted(f"{room} -> reticent.{HOMES[name]}" for name in higher)


def test_readers_may_import_numerics_alone(made_up):
    text = "".join(
        f"import reticent.{HOMES[name]}\n" for name in ("numerics", "values", "encoders", "released", "gate")
    )
    assert [found.split(".")[1] for found in made_up("readers.csv", text)] == ["budget", "encoders", "gate", "released"]


def test_the_package_imports_little_by_itself(made_up):
    assert made_up("__init__", "from reticent.budget import Budget\nfrom reticent.classifier import load") == [
        "encoders -> reticent.classifier"
    ]


def loaded_by(statement: str, *arguments: str) -> set[str]:
    """Modules of a fresh process after a statement, which may be a program that exits."""
    code = f"""
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules))))
{statement}
"""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


HEAVY = {"scipy", "sklearn", "mpmath", "numba", "torch", "transformers", "dp_accounting", "matplotlib", "pyarrow"}


def test_importing_reticent_is_light():
    loaded = loaded_by("import reticent")
    assert loaded & set(TREE.files) == {"reticent"}
    assert not loaded & (HEAVY | {"numpy"})


@pytest.mark.parametrize("words", [["--help"], ["predict", "--help"], ["plan", "--help"], ["--version"]], ids=" ".join)
def test_help_is_light(words):
    loaded = loaded_by("from reticent.cli import main; main()", *words)
    assert "reticent.cli" in loaded
    assert not loaded & HEAVY


def test_planning_and_reading_labels_load_no_room_that_learns():
    loaded = loaded_by("import reticent; [getattr(reticent, name) for name in ('plan', 'Memory', 'LabelSpace')]")
    assert {TREE.room(name) for name in loaded & set(TREE.files)} <= {"numerics", "values", "encoders"}


def test_every_public_name_is_listed_and_found_where_the_table_says():
    assert set(rt.__all__) <= set(dir(rt))
    assert set(rt.__all__) - {"__version__"} == {*rt._LATER, *rt._MODULES}
    for name, module in rt._LATER.items():
        assert getattr(rt, name) is getattr(importlib.import_module(module), name)
    assert all(getattr(rt, name) is importlib.import_module(module) for name, module in rt._MODULES.items())
    with pytest.raises(AttributeError, match="has no attribute 'Learner'"):
        rt.Learner  # noqa: B018


@pytest.fixture
def model(tmp_path):
    """A model directory and two rows to predict."""
    learned = rt.ContinualClassifier(
        labels=rt.PublicLabels(["a", "b"]), budget=rt.Budget(epsilon=1.0, delta=1e-5), path=tmp_path / "model"
    )
    learned.learn_task(np.eye(4), ["a", "b", "a", "b"], name="march")
    np.savez(tmp_path / "new.npz", x=np.eye(4)[:2])
    return tmp_path / "model"


@pytest.mark.parametrize(
    "verb",
    [
        ["predict", "{folder}/new.npz", "--model", "{folder}/model", "-o", "{folder}/out.csv"],
        ["report", "{folder}/model", "--out", "{folder}/page.html"],
        ["export", "{folder}/model", "--onnx", "{folder}/scorer.onnx"],
    ],
    ids=["predict", "report", "export"],
)
def test_commands_on_releases_load_nothing_that_reads_private_data(verb, model):
    if verb[0] == "export":
        pytest.importorskip("onnxruntime", reason="reticent[onnx]")
    arguments = [part.format(folder=model.parent) for part in verb]
    loaded = loaded_by("from reticent.cli import main\nmain()", *arguments)
    assert "reticent.released.model" in loaded
    assert {TREE.room(name) for name in loaded & set(TREE.files)} & {"gate", "sensitive", "lab"} == set()


def test_randomness_has_one_door():
    """Only the gate draws noise; NumPy's generators appear in experiments alone."""
    for module, path in TREE.files.items():
        text = path.read_text(encoding="utf-8")
        if TREE.room(module) != "lab":
            assert "np.random" not in text, path
            assert "import random" not in text, path
        if module != "reticent.gate.noise.source":
            assert "urandom" not in text, path
