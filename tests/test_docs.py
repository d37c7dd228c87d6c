"""What is written is true: promises name tests that exist, examples run, links lead somewhere."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def existing_tests() -> set[str]:
    return {
        node.name
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_promised_test_exists():
    tests = existing_tests()
    promised = {}
    for path in [*(ROOT / "src").rglob("*.py"), *PAGES]:
        for name in re.findall(r"\btest_[a-z0-9_]+\b(?!\.py)", path.read_text()):
            promised[name] = path.name
    missing = {name: where for name, where in promised.items() if name not in tests}
    assert missing == {}
    assert len(promised) >= 20


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), scope)  # noqa: S102
    assert all(block.strip() for block in blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_public_names_have_runnable_examples():
    import reticent

    for name in reticent.__all__:
        thing = getattr(reticent, name)
        if callable(thing) and name in {"Budget", "LabelSpace", "plan"}:
            assert ">>>" in (thing.__doc__ or ""), name


def test_no_page_names_this_machine():
    for path in [*PAGES, ROOT / "Makefile", *(ROOT / "src").rglob("*.py")]:
        assert not re.search(r"/(home|root|tmp|work)/\w", path.read_text()), path
