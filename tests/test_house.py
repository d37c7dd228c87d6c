"""The source tree is easy to find one's way in: one name for one file, folders that say what they hold, short files."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests import tiers
from tests.test_boundary import ROOMS, TREE

LONGEST = 400  # lines
TESTS = Path(__file__).parent
FOLDERS = [path for path in TREE.files.values() if path.name == "__init__.py"]


def test_no_two_modules_share_a_name():
    stems = Counter(path.stem for path in TREE.files.values() if path.name != "__init__.py")
    assert [stem for stem, times in stems.items() if times > 1] == []


@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: str(path.parent.relative_to(TREE.source.parent)))
def test_every_folder_says_what_it_holds(path):
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert said.endswith(".")
    assert len(said.split()) >= 5


def test_no_module_is_long():
    lines = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in TREE.files.items()}
    assert {module: count for module, count in lines.items() if count > LONGEST} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_the_fast_tier_visits_every_room(room):
    """Some test of each room is neither slow nor in the list of the medium ones."""
    medium = set(tiers.MEDIUM.read_text(encoding="utf-8").splitlines())
    homes = [name for name in TREE.files if name.count(".") == 1 and TREE.room(name) == room]
    fast = [
        node.name
        for home in (name.split(".")[1] for name in homes)
        for path in [*(TESTS / home).rglob("test_*.py"), TESTS / f"test_{home}.py"]
        if path.is_file()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and node.name not in medium
        if not any("mark.slow" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    assert fast


def test_the_medium_tier_names_tests_and_fixtures_that_exist():
    defined = {
        node.name
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    listed = [name.removeprefix("fixture ") for name in tiers.MEDIUM.read_text(encoding="utf-8").splitlines()]
    assert [name for name in listed if name not in defined and not name.startswith("reticent.")] == []
