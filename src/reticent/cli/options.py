"""What the verbs share: options, a console, an exit code."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

Epsilon = Annotated[float, typer.Option(help="Privacy loss of one person over the whole stream.")]
Delta = Annotated[float, typer.Option(help="Chance that epsilon does not hold.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Plot = Annotated[Path | None, typer.Option(help="Also write a figure: FILE.png or FILE.html.")]


def console() -> Console:
    """Returns where verbs print: a terminal decides the width; a file or a pipe gets whole lines."""
    return Console() if sys.stdout.isatty() else Console(width=200)


def fail_if(wrong: bool) -> None:
    """Ends with exit code 1 where a check failed."""
    if wrong:
        raise typer.Exit(1)
