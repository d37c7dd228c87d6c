"""A progress bar that shows fraction and time left, never counts: on a terminal, or in a notebook."""

import contextlib
import sys
import time
from types import TracebackType
from typing import Any

PATIENCE = 2.0  # seconds before a bar appears, and the least that must be left then
_BETWEEN = 0.2  # seconds between two pictures in a notebook


class Bar:
    """Appears when there is more than a few seconds of work, and leaves nothing behind.

    Guarantees:
      - It shows no counts, and nothing at all unless stderr is a terminal or a notebook shows it.
                                                        test_progress_shows_no_counts, test_notebooks_show_no_counts
      - When it is done, nothing of it stays in a notebook, nor in the file that it is saved to.
                                                        test_a_saved_notebook_keeps_no_progress
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._started = time.monotonic()
        self._screen: _Cell | _Terminal | None = None
        self._make = _Cell if _in_notebook() else _Terminal if sys.stderr.isatty() else None

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._screen is not None:
            self._screen.stop()

    def show(self, fraction: float) -> None:
        """Moves the bar to a fraction between 0 and 1."""
        if self._make is None:
            return
        if self._screen is None:
            elapsed = time.monotonic() - self._started
            if elapsed < PATIENCE or elapsed * (1 - fraction) < PATIENCE * fraction:
                return
            self._screen = self._make(self._title, self._started)
        self._screen.show(fraction)


class _Terminal:
    """A line of a terminal."""

    def __init__(self, title: str, started: float) -> None:
        from rich.console import Console  # takes a while to import; rarely needed
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        del started  # rich has a clock of its own
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(title, total=1.0)
        self._progress.start()

    def show(self, fraction: float) -> None:
        self._progress.update(self._task, completed=fraction)

    def stop(self) -> None:
        self._progress.stop()


class _Cell:
    """The output of a notebook's cell; without widgets, which not every notebook has."""

    def __init__(self, title: str, started: float) -> None:
        self._title, self._started, self._drawn = title, started, 0.0
        self._handle: Any = sys.modules["IPython"].display.display(_picture(""), raw=True, display_id=True)

    def show(self, fraction: float) -> None:
        now = time.monotonic()
        if now - self._drawn < _BETWEEN or self._handle is None:
            return
        self._drawn = now
        left = round((now - self._started) * (1 - fraction) / max(fraction, 1e-9))
        text = f"{self._title} {fraction:4.0%} {left // 60}:{left % 60:02} left"
        with contextlib.suppress(Exception):  # what a notebook cannot show must not end a task
            self._handle.update(_picture(text, fraction), raw=True)

    def stop(self) -> None:
        with contextlib.suppress(Exception):
            self._handle.update(_picture(""), raw=True)


def _picture(text: str, fraction: float = 0.0) -> dict[str, str]:
    bar = f'<progress value="{fraction:.2f}" max="1"></progress> <code>{text}</code>' if text else ""
    return {"text/plain": text, "text/html": bar}


def _in_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook: its shell has a kernel, that of a terminal has none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
