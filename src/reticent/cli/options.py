"""What the verbs share: options, a console, an exit code."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from reticent import names

Epsilon = Annotated[float, typer.Option(help="Privacy loss of one person over the whole stream.")]
Delta = Annotated[float, typer.Option(help="Chance that epsilon does not hold.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Plot = Annotated[Path | None, typer.Option(help="Also write a figure: FILE.png or FILE.html.")]


def console() -> Console:
    """Returns where verbs print: a terminal decides the width; a file or a pipe gets whole lines."""
    return Console() if sys.stdout.isatty() else Console(width=200)


def tell(text: str) -> None:
    """Prints a line that may hold names of files or of others' data: nothing in it is markup or a code."""
    console().print(names.shown(text), markup=False, highlight=False, soft_wrap=True)


def plain(text: object) -> Text:
    """Returns a cell or title of a table that may hold such names."""
    return Text(names.shown(text))


def fail_if(wrong: bool) -> None:
    """Ends with exit code 1 where a check failed."""
    if wrong:
        raise typer.Exit(1)
