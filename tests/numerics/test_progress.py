"""The progress bar: fraction and time left, never counts, and on a terminal alone."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from reticent import encoders
from reticent.numerics import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_no_counts(monkeypatch, terminal):
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    encoder = encoders.wrap(lambda batch: np.zeros((len(batch), 2)), width=2, name="mine")
    encoder([0] * 4321)
    shown = screen.getvalue()
    assert bool(shown) == terminal
    if terminal:
        assert "mine" in shown
        assert "%" in shown
    assert "4321" not in shown


def test_short_work_shows_nothing(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    encoders.wrap(lambda batch: np.zeros((len(batch), 2)), width=2, name="mine")([0] * 100)
    assert screen.getvalue() == ""


class Cell:
    """Stands for a notebook: remembers what is displayed."""

    kernel = object()

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.display = SimpleNamespace(display=self._display)

    def get_ipython(self):
        return self

    def _display(self, picture, *, raw, display_id):
        assert raw
        assert display_id
        self.shown.append(picture)
        return self

    def update(self, picture, *, raw):
        assert raw
        self.shown.append(picture)


def test_notebooks_show_no_counts(monkeypatch):
    cell = Cell()
    monkeypatch.setitem(sys.modules, "IPython", cell)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_BETWEEN", 0.0)
    encoders.wrap(lambda batch: np.zeros((len(batch), 2)), width=2, name="mine")([0] * 4321)
    assert any("mine" in picture["text/plain"] and "%" in picture["text/plain"] for picture in cell.shown)
    assert not any("4321" in text for picture in cell.shown for text in picture.values())
    assert set(cell.shown[-1].values()) == {""}


def test_a_notebook_that_cannot_show_it_stops_nothing(monkeypatch):
    asked = []

    class Broken(Cell):
        def update(self, picture, *, raw):
            asked.append(picture)
            raise RuntimeError("no such display")

    monkeypatch.setitem(sys.modules, "IPython", Broken())
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.Bar("Training") as bar:
        bar.show(0.5)
    assert len(asked) == 2  # to show it, and to end


def test_a_shell_in_a_terminal_is_no_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    assert not progress._in_notebook()


@pytest.mark.slow
def test_a_saved_notebook_keeps_no_progress():
    """A real kernel: the bar is there while it works, and the saved file has none of it."""
    nbformat = pytest.importorskip("nbformat", reason="notebooks are optional")
    nbclient = pytest.importorskip("nbclient", reason="notebooks are optional")
    pytest.importorskip("ipykernel", reason="notebooks are optional")
    code = """
import time
from reticent.numerics import progress
progress.PATIENCE = 0.0
with progress.Bar("Encoding") as bar:
    for step in range(1, 6):
        time.sleep(0.3)
        bar.show(step / 10)
    assert type(bar._screen).__name__ == "_Cell"
"""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, kernel_name="python3", timeout=120).execute()
    saved = nbformat.writes(book)
    assert "Encoding" not in "".join(str(output) for output in book.cells[0].outputs)
    assert saved.count("<progress") == 0
