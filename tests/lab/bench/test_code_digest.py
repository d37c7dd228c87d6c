"""The digest of the code that makes a number: it covers what computes, and nothing that only shows."""

import subprocess
import sys
from pathlib import Path

import pytest

import reticent
from reticent.lab.bench import code_digest
from reticent.lab.bench.code_digest import code, digest_of, sources

SOURCE = Path(reticent.__file__).parent


def test_it_covers_everything_that_a_run_computes_with():
    """Every module that a worker process loads is among the sources."""
    found = sources("reticent.lab.bench.worker")
    command = "import sys, reticent.lab.bench.worker; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout.split()
    loaded = {name for name in names if name.startswith(("reticent.gate", "reticent.sensitive"))}
    assert loaded
    assert loaded <= set(found)
    for room in ("gate", "sensitive", "released", "privacy", "encoders"):
        files = {
            ".".join(("reticent", *f.relative_to(SOURCE).with_suffix("").parts)) for f in (SOURCE / room).rglob("*.py")
        }
        computing = {name.removesuffix(".__init__") for name in files}
        assert len(computing & set(found)) > len(computing) / 2, room


def test_it_leaves_out_what_only_shows():
    shown = [name for name in sources() if name.startswith(("reticent.report", "reticent.cli"))]
    assert shown == []
    for name in ("tables", "pages", "findings", "behind", "layout", "specs", "runner", "chosen", "estimates"):
        assert f"reticent.lab.bench.{name}" not in sources()


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("def f():\n    return 1", 'def f():\n    """Says it."""\n    return 1  # one', True),
        ("class A:\n    x = 1", 'class A:\n    """Words."""\n\n    x = 1', True),
        ("x = 1", "x = 1.0", False),
        ("x = 'a'", "x = 'b'", False),
        ("def f():\n    return 1", "def f():\n    return (1,)", False),
    ],
)
def test_words_do_not_count_and_code_does(before, after, same):
    assert (digest_of({"m": before}) == digest_of({"m": after})) is same


def test_names_of_modules_count():
    assert digest_of({"a": "x = 1"}) != digest_of({"b": "x = 1"})
    assert digest_of({"a": "x = 1", "b": "y = 1"}) != digest_of({"a": "x = 1\ny = 1"})


def test_one_changed_constant_of_the_noise_changes_it(monkeypatch):
    before = code()
    real = Path.read_text

    def changed(self, *args, **kwargs):
        text = real(self, *args, **kwargs)
        return text + "\n_EXTRA = 1\n" if self.name == "step.py" and self.parent.name == "gate" else text

    monkeypatch.setattr(Path, "read_text", changed)
    code_digest.code.cache_clear()
    try:
        assert code() != before
    finally:
        monkeypatch.undo()
        code_digest.code.cache_clear()
    assert code() == before
