"""The command line: one library call per verb."""

import json
import math
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from reticent import errors, planning
from reticent.budget import Budget

app = typer.Typer(
    name="reticent",
    help="Continual learning that keeps its labels to itself.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
attack = typer.Typer(no_args_is_help=True, help="Play attacks against label spaces.")
app.add_typer(attack, name="attack")

Epsilon = Annotated[float, typer.Option(help="Privacy loss of one person over the whole stream.")]
Delta = Annotated[float, typer.Option(help="Chance that epsilon does not hold.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Plot = Annotated[Path | None, typer.Option(help="Also write a figure: FILE.png or FILE.html.")]


def main() -> NoReturn:
    """Runs the command line; a refusal is one sentence on standard error and exit code 2."""
    try:
        app()
    except errors.ReticentError as error:
        Console(stderr=True, soft_wrap=True).print(f"Error: {error}", style="bold", markup=False, highlight=False)
        sys.exit(2)
    sys.exit(0)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"reticent {version('reticent')}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Continual learning that keeps its labels to itself."""


@app.command()
def plan(
    epsilon: Epsilon,
    delta: Delta,
    class_size: Annotated[
        list[int] | None, typer.Option(help="Examples of a class in a task; may be given several times.")
    ] = None,
    mechanism: Annotated[
        str, typer.Option(help=f"What --json and --plot show: {', '.join(planning.MECHANISMS)}.")
    ] = planning.JOINT_GAUSSIAN,
    share: Annotated[
        str, typer.Option(help="Part of epsilon and delta for the labels, or auto (all but joint-gaussian).")
    ] = str(planning.DEFAULT_SHARE),
    count_weight: Annotated[
        float | None, typer.Option(help="c^2 of the joint Gaussian; by default chosen for the class sizes.")
    ] = None,
    tasks: Annotated[int, typer.Option(help="Length of the stream.")] = 1,
    tasks_per_person: Annotated[int, typer.Option(help="In how many tasks one person may appear.")] = 1,
    examples_per_person: Annotated[int, typer.Option(help="How many examples one person may add to a task.")] = 1,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Say what a budget buys, before any data exists.

    Noise, thresholds, and which classes will be released, for every label mechanism.

    Example: `reticent plan --epsilon 1 --delta 1e-5 --class-size 100 --tasks 12`
    """
    budget = Budget(
        epsilon=epsilon, delta=delta, tasks_per_person=tasks_per_person, examples_per_person=examples_per_person
    )
    errors.whole("tasks", tasks, at_least=1)
    if 1 < tasks < tasks_per_person:
        raise errors.InvalidValue(f"Expected tasks-per-person <= tasks, got {tasks_per_person} > {tasks}.")
    part = _share(share)
    settings: dict[str, Any] = {"class_sizes": class_size or (), "share": part, "count_weight": count_weight}
    chosen = planning.plan(budget, mechanism=mechanism, **settings)
    if plot is not None:
        _plot_plan(plot, budget, chosen)
    if as_json:
        typer.echo(json.dumps(chosen.json(), indent=2))
        return
    plans = [planning.plan(budget, mechanism=name, **settings) for name in planning.MECHANISMS]
    console = _console()
    console.print(_plan_table(plans))
    for line in _plan_notes(chosen, tasks, asked=bool(class_size)):
        console.print(line, markup=False, highlight=False)


@app.command()
def ledger(
    folder: Annotated[Path, typer.Argument(help="A model directory, or any folder with a ledger.sqlite.")],
    void: Annotated[int | None, typer.Option(help="Void a spend whose release was never published.")] = None,
    reason: Annotated[str, typer.Option(help="Why: recorded beside the row.")] = "",
    as_json: AsJson = False,
) -> None:
    """Print the privacy statement: what was spent, on what, under which assumptions.

    Example: `reticent ledger model/`
    """
    from reticent.gate.ledger import Ledger

    if void is None and reason:
        raise errors.InvalidValue("Expected --void ROW with --reason.")
    with Ledger.open(folder, read_only=void is None) as book:
        if void is not None:
            book.void(void, reason=reason)
        statement = book.statement()
    typer.echo(json.dumps(statement.json(), indent=2) if as_json else statement.text())


@attack.command()
def labels(
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    trials: Annotated[int, typer.Option(help="Games against each remedy.")] = 10_000,
    fits: Annotated[int, typer.Option(help="Games against each classifier; every game trains one.")] = 200,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Play the membership game on the label set: won against real classifiers, lost against each remedy.

    A fair coin decides whether one person with a rare label is in the data; the attacker sees the labels that the
    classifier can output (and everything else a remedy publishes) and guesses the coin.

    Example: `reticent attack labels --epsilon 1 --plot attack.png`
    """
    from reticent.lab import attacks
    from reticent.report import plots

    budget = Budget(epsilon=epsilon, delta=delta)
    errors.whole("trials", trials, at_least=1)
    errors.whole("fits", fits, at_least=1)
    if plot is not None:
        plots.check_path(plot)
    results = attacks.attack_labels(budget, trials=trials, fits=fits)
    curve = attacks.accuracy_curve(delta, trials=trials) if plot is not None or as_json else []
    if plot is not None:
        plots.attack_accuracy(curve, [r for r in results if not r.remedy]).save(plot)
    if as_json:
        shown = {"games": [r.json() for r in results], "curve": [r.json() for r in curve]}
        typer.echo(json.dumps(shown, indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, title=f"Is the person in the data? epsilon {epsilon:g}, delta {delta:g}")
    for heading in ("published by", "the target is", "accuracy", "limits", "bound", ""):
        table.add_column(heading)
    for r in results:
        low, high = r.interval
        verdict = "[bold red]leaks[/]" if r.broken else "[green]within the bound[/]"
        table.add_row(r.target, r.game, f"{r.accuracy:.3f}", f"{low:.3f} to {high:.3f}", f"{r.bound:.3f}", verdict)
    console = _console()
    console.print(table)
    console.print(
        "A classifier that takes its labels from the data tells who is in it, whatever the privacy of its weights. "
        f"(Limits are Clopper-Pearson; each misses with chance {attacks.ALPHA:g}.)"
    )


def _console() -> Console:
    """A terminal decides the width; a file or a pipe gets whole lines."""
    return Console() if sys.stdout.isatty() else Console(width=200)


def _share(text: str) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise errors.InvalidValue(f"Expected share to be a number from 0 to 1, or auto, got {text}.") from None


def _plot_plan(path: Path, budget: Budget, chosen: planning.Plan) -> None:
    from reticent.report import plots

    share = 1.0 if chosen.epsilon_labels is None else chosen.epsilon_labels / chosen.epsilon
    weight = planning.DEFAULT_COUNT_WEIGHT if chosen.count_weight is None else chosen.count_weight
    figure = plots.drop_probability(budget, mechanism=chosen.mechanism, share=share, count_weight=weight)
    figure.save(plots.check_path(path))


def _plan_table(plans: list[planning.Plan]) -> Table:
    first = plans[0]
    table = Table(box=box.SIMPLE_HEAD, title=f"Releasing labels at epsilon {first.epsilon:g}, delta {first.delta:g}")
    table.add_column("mechanism", no_wrap=True)
    table.add_column("threshold", justify="right")
    for c in first.classes:
        table.add_column(f"Pr[{c.size}]", justify="right")
    for heading in ("50 % at", "99 % at", "noise", "price"):
        table.add_column(heading, justify="right")
    for p in plans:
        price = "-" if p.sigma is None else f"+{p.sigma / p.sigma_without_labels - 1:.2%}"
        table.add_row(
            p.mechanism,
            f"{p.threshold:.1f}",
            *(_probability(c.release_probability) for c in p.classes),
            str(p.smallest_class_50),
            str(p.smallest_class_99),
            "-" if p.sigma is None else f"{p.sigma:.4f}",
            price,
        )
    bounds = [_probability(c.upper_bound) for c in first.classes]
    table.add_row(
        "any, at most", "", *bounds, "", "", f"{first.sigma_without_labels:.4f}", "labels public", style="dim"
    )
    return table


def _plan_notes(chosen: planning.Plan, tasks: int, *, asked: bool) -> list[str]:
    notes = [
        "Pr[n]: probability that a class with n examples in a task is released. Noise: standard deviation on a sum of "
        "unit vectors. Price: noise added by releasing labels."
    ]
    if chosen.count_weight is not None:
        notes.append(f"{chosen.mechanism}: count weight c^2 = {chosen.count_weight:.4g}.")
    if asked and chosen.classes[0].release_probability < planning.SURE:
        notes.append(f"A class of {chosen.classes[0].size} is not released with probability {planning.SURE} here.")
    if tasks > 1:
        spread = ", ".join(
            f"{c.size}: {_probability(-math.expm1(tasks * math.log1p(-min(c.release_probability, 1 - 1e-16))))}"
            for c in chosen.classes
        )
        notes.append(f"Known after {tasks} tasks with as many examples in each ({chosen.mechanism}): {spread}.")
        if chosen.sigma is not None:
            notes.append(f"A sum over {tasks} tasks carries noise {chosen.sigma * math.sqrt(tasks):.4f}.")
    return notes


def _probability(value: float) -> str:
    if value in (0.0, 1.0) or 1e-4 <= value <= 1 - 1e-4:
        return f"{value:.4f}"
    return f"{value:.1e}" if value < 0.5 else f"1 - {1 - value:.0e}"
