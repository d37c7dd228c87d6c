"""What the verbs share: options, a console, an exit code."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich import text as rich_text
from rich.console import Console

from reticent import names

Epsilon = Annotated[float, typer.Option(help="Privacy loss of one person over the whole stream.")]
Delta = Annotated[float, typer.Option(help="Chance that epsilon does not hold.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Plot = Annotated[Path | None, typer.Option(help="Also write a figure: FILE.png or FILE.html.")]
Model = Annotated[Path, typer.Option(help="The model directory.")]
Text = Annotated[str | None, typer.Option(help="Column with texts.")]
Image = Annotated[str | None, typer.Option(help="Column with paths of images.")]
Features = Annotated[
    str | None,
    typer.Option(
        help="Columns of numbers, separated by commas; a name with a comma or a blank at its end in double quotes. Or "
        "one column of embeddings: lists of one fixed size (.parquet), an array (.npz)."
    ),
]
Again = Annotated[
    str | None,
    typer.Option(help="As given to init, where it is not stored: hf:NAME, timm:NAME or module:object (runs its code)."),
]
Device = Annotated[str | None, typer.Option(help="Where the encoder computes: auto, cpu, cuda or mps; cpu by default.")]
BatchSize = Annotated[int | None, typer.Option(help="Rows of a batch of short inputs to the encoder; 16 by default.")]
HalfPrecision = Annotated[
    bool, typer.Option("--bf16", help="The encoder computes in bfloat16, where the device has instructions for it.")
]
LearnerAgain = Annotated[
    str | None,
    typer.Option(help="As given to init, where it is not stored: your own as module:object (runs its code)."),
]
Horizon = Annotated[int | None, typer.Option(help="With --memory: how many tasks an epoch has at most; 120.")]
Recurring = Annotated[
    bool | None,
    typer.Option("--recurring/--not-recurring", help="With --memory: whether labels come back, by public knowledge."),
]
Label = Annotated[str | None, typer.Option(help="Column with the labels.")]
Source = Annotated[
    Path,
    typer.Argument(
        help="A .csv, .parquet or .npz file, a folder of .csv or .parquet files, a folder of images by label, or - for "
        "CSV on standard input."
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="With --engine ray: auto for the cluster of this machine, host:port, or ray://host:port; without it, one "
        "is started on this machine."
    ),
]
TaskSize = Annotated[int, typer.Option(help="About how many examples a task has; only peft asks.")]


def starting_with(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Returns what completes a word on the command line, out of names that are looked up when first needed."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def console() -> Console:
    """Returns where verbs print: a terminal or COLUMNS decides the width; else a file or a pipe gets whole lines."""
    return Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=200)


def tell(text: str) -> None:
    """Prints a line that may hold names of files or of others' data: nothing in it is markup or a code."""
    console().print(names.shown(text), markup=False, highlight=False, soft_wrap=True)


def plain(text: object) -> rich_text.Text:
    """Returns a cell or title of a table that may hold such names."""
    return rich_text.Text(names.shown(text))


def fail_if(wrong: bool) -> None:
    """Ends with exit code 1 where a check failed."""
    if wrong:
        raise typer.Exit(1)
