"""plan --rows: what a stream costs in time, memory and disk, from public sizes alone."""

from typing import Annotated, Any

import typer

from reticent import errors, running_costs
from reticent.cli.options import console

_COUNT = {"metavar": "N"}
Rows = Annotated[
    str | None,
    typer.Option(help="Also plan time, memory and disk for so many rows in all; 1e8 is a number.", **_COUNT),
]
Width = Annotated[str | None, typer.Option(help="With --rows: features of a row; 384.", **_COUNT)]
Labels = Annotated[str | None, typer.Option(help="With --rows: labels of the space; 100.", **_COUNT)]
LiveLabels = Annotated[
    str | None,
    typer.Option(help="With --rows: labels with examples in one task; else they are shared out among tasks.", **_COUNT),
]
Workers = Annotated[str | None, typer.Option(help="With --rows: processes, each with its own processor; 1.", **_COUNT)]
Shards = Annotated[str | None, typer.Option(help="With --rows: files that a task comes in; 1.", **_COUNT)]
File = Annotated[str | None, typer.Option(help=f"With --rows: {', '.join(running_costs.FILES)}; parquet.")]
Texts = Annotated[bool, typer.Option("--texts", help="With --rows: rows are short texts, which MiniLM encodes.")]
Measure = Annotated[bool, typer.Option("--measure", help="With --rows: measure the speeds of this machine first.")]


def count(name: str, text: str) -> int:
    """Returns a whole number from its text, or refuses it.

    >>> count("rows", "1e8"), count("rows", "60")
    (100000000, 60)
    """
    digits = text.replace(",", "").replace("_", "")
    try:
        value = int(digits) if digits.isdecimal() else float(digits)
        if value == int(value):
            return errors.whole(name, int(value), at_least=1, at_most=10**15)
    except (ValueError, OverflowError) as error:
        if isinstance(error, errors.InvalidValue):
            raise
    raise errors.InvalidValue(f"Expected --{name} to be a whole number such as 1000000 or 1e6, got {text}.")


def planned(
    rows: str | None, tasks: int, *, texts: bool, measure: bool, **given: str | None
) -> running_costs.Costs | None:
    """Returns the costs of the options of `plan`, None where they were not asked for."""
    if rows is None:
        extra = [name for name, value in given.items() if value is not None]
        extra += [name for name, flag in (("texts", texts), ("measure", measure)) if flag]
        if extra:
            raise errors.InvalidValue(f"Expected --rows N with --{extra[0].replace('_', '-')}.")
        return None
    sizes: dict[str, Any] = {
        name: count(name.replace("_", "-"), value)
        for name, value in given.items()
        if value is not None and name != "file"
    }
    if given.get("file") is not None:
        sizes["file"] = given["file"]
    work = running_costs.Workload(rows=count("rows", rows), tasks=tasks, texts=texts, **sizes)
    if not measure:
        return running_costs.costs(work)
    from reticent.lab import machine_speed

    return running_costs.costs(work, machine_speed.measure(texts=texts))


def show(found: running_costs.Costs) -> None:
    """Prints the tables and what they assume."""
    from reticent.report.cost_tables import cost_notes, cost_tables

    terminal = console()
    for table in cost_tables(found):
        terminal.print(table)
    for line in cost_notes(found):
        terminal.print(line, markup=False, highlight=False)
