"""What is written is true: promises name tests that exist, examples run, links lead somewhere."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import reticent

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def defined_tests() -> Counter[str]:
    """How often each name of a test is defined."""
    return Counter(
        node.name
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def test_names_of_tests_are_unique():
    """A guarantee names its test without a file, and tests/medium.txt does so too."""
    assert [name for name, times in defined_tests().items() if times > 1] == []


def test_every_promised_test_exists():
    tests = defined_tests()
    promised = {}
    for path in [*(ROOT / "src").rglob("*.py"), *PAGES]:
        for name in re.findall(r"\btest_[a-z0-9_]+\b(?!\.py)", path.read_text(encoding="utf-8")):
            promised[name] = path.name
    missing = {name: where for name, where in promised.items() if name not in tests}
    assert missing == {}
    assert len(promised) >= 20


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), scope)  # noqa: S102
    assert all(block.strip() for block in blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", reticent.__all__)
def test_public_names_have_runnable_examples(name):
    """The examples run as doctests. Exceptions, constants and modules need none."""
    thing = getattr(reticent, name)
    if callable(thing) and not (isinstance(thing, type) and issubclass(thing, Exception)):
        assert ">>>" in (thing.__doc__ or "")


def test_versions_agree():
    """The tree is the newest release or on the way to the next one; what is cited is the release."""
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", log, re.MULTILINE)
    newest = max(released, key=lambda version: tuple(map(int, version.split("."))))
    assert released[0] == newest
    tree = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert tree == newest or (tree.endswith(".dev0") and tree.removesuffix(".dev0") not in released)
    assert f"\nversion: {newest}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_no_page_names_this_machine():
    for path in [*PAGES, ROOT / "Makefile", *(ROOT / "src").rglob("*.py")]:
        assert not re.search(r"/(home|root|tmp|work)/\w", path.read_text(encoding="utf-8")), path
