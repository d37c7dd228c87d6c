"""Which code made a number: a digest of the sources that a run computes with, and of nothing else.

A result is worth keeping as long as the code that computes it is the same. So the digest covers what `one_run` imports,
directly or not, and leaves out comments, docstrings and layout: words may change, and pages, tables and commands may be
rewritten, without making hours of runs worthless. It covers no library: versions are written beside it.
"""

import ast
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

import reticent

COMPUTES = "reticent.lab.bench.one_run"
_ROOT = Path(reticent.__file__).parent


@functools.cache
def code() -> str:
    """Returns the digest of the sources that a run computes with."""
    return digest_of({name: file.read_text(encoding="utf-8") for name, file in sources().items()})


def digest_of(texts: dict[str, str]) -> str:
    """Returns the digest of some modules, by their names and what they say to the computer.

    >>> digest_of({"a": "x = 1  # one"}) == digest_of({"a": '"One."' + chr(10) + "x   =  1"})
    True
    >>> digest_of({"a": "x = 1"}) == digest_of({"a": "x = 2"})
    False
    """
    hashed = hashlib.sha256()
    for name, text in sorted(texts.items()):
        hashed.update(f"{name}\0{ast.dump(_without_docstrings(ast.parse(text)))}\0".encode())
    return hashed.hexdigest()[:16]


def sources(module: str = COMPUTES) -> dict[str, Path]:
    """Returns a module of the package and all that it imports, at the top or inside a function, by their names.

    >>> found = sources()
    >>> "reticent.gate.noise.source" in found, "reticent.report.page" in found, "reticent.lab.bench.tables" in found
    (True, False, False)
    """
    found: dict[str, Path] = {}
    left = [module]
    while left:
        name = left.pop()
        file = _file(name)
        if file is None or name in found:
            continue
        found[name] = file
        left += [name.rpartition(".")[0], *_imported(ast.parse(file.read_text(encoding="utf-8")))]
    return found


def _file(name: str) -> Path | None:
    """Returns the source of a module of the package; None of anything else, such as a name within a module."""
    first, *rest = name.split(".")
    if first != reticent.__name__:
        return None
    place = _ROOT.joinpath(*rest)
    file = place / "__init__.py" if place.is_dir() else place.with_name(f"{place.name}.py")
    return file if file.is_file() else None


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
                del body[0]
    return tree
