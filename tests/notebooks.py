"""The notebooks of the documentation, run from their first cell to the last.

python -m tests.notebooks     runs them, and stores what they print
"""

import os
import re
import sys
import tempfile
import unittest.mock
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
PAGES = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 300  # for one cell
VARIES = "varies"  # the tag of a cell whose words depend on noise


def executed(page: Path) -> Any:
    """Runs a notebook in a new folder, and returns it with what it prints; a cell that fails raises."""
    book = nbformat.read(page, as_version=4)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # `reticent` of this environment
    with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, {"PATH": path}):
        here = {"metadata": {"path": folder}}
        NotebookClient(book, timeout=SECONDS, resources=here, coalesce_streams=True).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)  # times
        cell["outputs"] = [each for each in cell.get("outputs", []) if each.get("name") != "stderr"]
        if cell.cell_type != "code":
            del cell["outputs"]
    return book


def printed(book: Any) -> list[str]:
    """Returns what each cell prints, without what differs from run to run: numbers, hashes, days and escape codes.

    >>> cell = {"cell_type": "code", "outputs": [{"text": "accuracy 0.91 on 2026-01-31\\n"}]}
    >>> printed({"cells": [cell]})
    ['accuracy # on #']
    """
    return [
        VARIES if VARIES in cell.get("metadata", {}).get("tags", ()) else _masked(cell["outputs"])
        for cell in book["cells"]
        if cell["cell_type"] == "code"
    ]


def _masked(outputs: Any) -> str:
    text = "".join(each.get("text", "") for each in outputs)
    return re.sub(r"\b[0-9a-f]{16,}\b|\d[\d.,e-]*|\x1b\[[\d;?]*[a-zA-Z]", "#", text).strip()


def main() -> int:
    """Runs all of them."""
    for page in PAGES:
        nbformat.write(executed(page), page)
        print(page.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
