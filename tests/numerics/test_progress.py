"""The progress bar: fraction and time left, never counts, and on a terminal alone."""

import io
import sys

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
