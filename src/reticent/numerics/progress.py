"""A progress bar that shows fraction and time left, never counts, and only on a terminal."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

PATIENCE = 2.0  # seconds before a bar appears, and the least that must be left then


class Bar:
    """Appears on a terminal when there is more than a few seconds of work, and leaves nothing behind.

    Guarantees:
      - It shows no counts, and nothing at all unless stderr is a terminal.     test_progress_shows_no_counts
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._started = time.monotonic()
        self._progress: Progress | None = None
        self._wanted = sys.stderr.isatty()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, fraction: float) -> None:
        """Moves the bar to a fraction between 0 and 1."""
        if not self._wanted:
            return
        if self._progress is None:
            elapsed = time.monotonic() - self._started
            if elapsed < PATIENCE or elapsed * (1 - fraction) < PATIENCE * fraction:
                return
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._progress.add_task(self._title, total=1.0)
            self._progress.start()
        self._progress.update(self._progress.task_ids[0], completed=fraction)
